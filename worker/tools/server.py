"""The server of tools: runs this registry's own tools for agents elsewhere, until it is told to
stop, and drains."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

from aio_pika.abc import AbstractRobustConnection

from ...producer import declare
from ...producer.confirms import ConfirmedPublisher
from ...producer.subscription import Subscription
from ...schemas.topology import Names
from ...schemas.topology import tool as tool_topology
from .. import logs
from ..config import Config, ConfigError
from ..exposing import expose_held
from ..frame import ExitCode, Service, until_signalled
from .registry import Registry
from .runner import Runner
from .serving import ToolIntake

log = logging.getLogger(__name__)

_STEP_S = 10.0


class ToolServer(Service):
    """One server. It takes up to `agent_slots` calls of each tool at once. Raises ConfigError where
    there is nothing to serve."""

    def __init__(self, config: Config, registry: Registry | None = None) -> None:
        super().__init__(config, "tools")
        self._registry = registry if registry is not None else Registry.load(config)
        _check(self._registry, config)
        slots = config.agent_slots * len(self._registry.tools)
        # Whatever is delivered begins at once: what was delivered before counts as begun.
        self._runner = Runner(max_children=slots)

    @property
    def abandoned(self) -> int:
        """Calls that would not end, and still run."""
        return self._runner.abandoned

    async def _serve(self, jobs: AbstractRobustConnection, stack: AsyncExitStack) -> ExitCode:
        publisher = ConfirmedPublisher(jobs)
        stack.push_async_callback(publisher.close)
        stack.push_async_callback(self._runner.close)
        async with asyncio.TaskGroup() as group:
            intake = ToolIntake(
                group,
                self._registry,
                self._runner,
                publisher,
                server=self._name,
                publish_timeout_s=self._config.publish_timeout_s,
            )
            names = ", ".join(each.name for each in self._registry.tools)
            try:
                await self._attend(
                    self._subscribe_all(jobs, intake), intake, f"serving {names}", lambda: False
                )
            finally:
                await self._unsubscribe()
        if self._died is not None:
            raise self._died
        return ExitCode.OK

    def _fits(self, config: Config) -> None:
        _check(self._registry, config)

    async def _subscribe_all(
        self, connection: AbstractRobustConnection, intake: ToolIntake
    ) -> None:
        for each in self._registry.tools:
            subscription = Subscription(
                connection,
                what=f"calls of {each.name}",
                prepare=self._preparation(connection, each.name),
                on_message=intake.take,
                prefetch=self._config.agent_slots,
            )
            self._subscriptions.append(subscription)
            await subscription.start(self._die)
            expose_held(self._config.namespace, subscription.queue, self._subscriptions)

    def _preparation(
        self, connection: AbstractRobustConnection, name: str
    ) -> Callable[[], Awaitable[str]]:
        return partial(_declare, connection, self._config.namespace, name)


async def _declare(connection: AbstractRobustConnection, namespace: str, name: str) -> str:
    """Make sure of a tool's queue, which goes by itself when nobody has served it for a day."""
    queue, binding = tool_topology(Names(namespace), name)
    async with declare.one_channel(connection, _STEP_S) as channel:
        await declare.declare_queue(channel, queue)
        await declare.bind(channel, binding)
    return queue.name


def _check(registry: Registry, config: Config) -> None:
    if not registry.tools:
        raise ConfigError(
            "there are no tools to serve: name the modules that have some in agent_tools, or "
            "install a package with entry points of group sluicegate.tools"
        )
    longest_s = config.consumer_timeout_s / 2
    for each in registry.tools:
        if each.spec.timeout_s >= longest_s:
            raise ConfigError(
                f"tool {each.name}: its timeout_s ({each.spec.timeout_s:g}) must be less than half "
                f"of consumer_timeout_s ({config.consumer_timeout_s:g}), or the broker takes "
                "running calls away; raise consumer_timeout in rabbitmq.conf and here, or lower it"
            )


def run_tool_server(config: Config) -> int:
    """Serve tools in this process until a signal stops it. Returns its exit code."""
    logs.configure(config.log_format, config.log_level, hides=config.keep_texts != "full")
    return asyncio.run(_run(config))


async def _run(config: Config) -> int:
    return await until_signalled(ToolServer(config))
