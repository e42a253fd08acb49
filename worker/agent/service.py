"""The orchestrator of agent jobs: takes them step by step until it is told to stop, and drains."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Final

from aio_pika.abc import AbstractRobustConnection

from ...producer.confirms import ConfirmedPublisher
from ...producer.declare import explained, one_channel
from .. import logs, metrics
from ..config import Config, ConfigError
from ..dialects.choose import Dialects, make_dialects
from ..frame import ExitCode, Service, until_signalled
from ..herald import reading
from ..installed import versions
from ..publications import Identity
from ..settler import Settler
from ..tools.registry import Registry, announce
from .carrier import Carrier
from .effects import Effects
from .embedding import make_cosine
from .generation import QueueGenerator, carried, generator
from .intake import AgentIntake
from .journal import Journal
from .moves import Limits
from .releasing import Releasing
from .sites import Sites, watchdog_tables
from .step import Stepper
from .sweeper import Sweeper
from .tool_caller import ToolCaller

Cosine = Callable[[str, str], float]
log = logging.getLogger(__name__)

# New jobs that wait here for room: enough to begin the next one at once.
_NEW_PREFETCH: Final = 2
_CROWD_S: Final = 10.0
# Of the broker's consumer timeout, so long a new job may wait for room.
_ROOM_SHARE: Final = 1 / 3
_RELEASE_S: Final = 10.0


class Orchestrator(Service):
    """One agent service. `run` returns when it was asked to stop and has drained."""

    def __init__(self, config: Config, registry: Registry | None = None) -> None:
        super().__init__(config, "agent")
        check_agents(config)
        self._tables = watchdog_tables(config)
        self._registry = registry if registry is not None else Registry.load(config)
        check_tools(config, self._registry)
        announce(self._registry)
        self._cosine: Cosine | None = None
        self._caller: ToolCaller | None = None

    @property
    def abandoned(self) -> int:
        """Calls of tools that would not end."""
        return self._caller.abandoned if self._caller is not None else 0

    async def _serve(self, jobs: AbstractRobustConnection, stack: AsyncExitStack) -> ExitCode:
        loaded = await self._load()
        if loaded is None:
            log.info("stopped before the tokenizer was loaded")
            return ExitCode.OK
        dialects, self._cosine = loaded
        config = self._config
        producer = generator(
            config.amqp_url,
            self._names,
            connect_timeout_s=config.connect_timeout_s,
            secrecy=self._secrecy,
        )
        await stack.enter_async_context(producer)
        self._caller = caller = ToolCaller(self._registry, jobs, self._names, self._die)
        await stack.enter_async_context(caller)
        await self._work(jobs, dialects, QueueGenerator(producer), caller)
        return ExitCode.OK

    def load(self) -> tuple[int, int]:
        """Steps under way, and how many can be."""
        return int(reading(metrics.AGENT_STEPS)), self._config.agent_slots

    def _fits(self, config: Config) -> None:
        check_agents(config)

    async def _load(self) -> tuple[Dialects, Cosine | None] | None:
        self._trouble = "loading the tokenizer"
        began = time.monotonic()
        loaded = await self._unless_stopped(asyncio.to_thread(_load, self._config))
        if loaded is not None:
            log.info("tokenizer ready after %.1f s", time.monotonic() - began)
        return loaded

    async def _work(
        self,
        connection: AbstractRobustConnection,
        dialects: Dialects,
        generate: QueueGenerator,
        caller: ToolCaller,
    ) -> None:
        config = self._config
        who = Identity(
            worker=self._name,
            model=config.model,
            names=self._names,
            versions=versions(),
            secrecy=self._secrecy,
        )
        self._herald.model = config.model
        publisher = ConfirmedPublisher(connection)
        settler = Settler(publisher, who, publish_timeout_s=config.publish_timeout_s)
        events = self._events
        journal = Journal(
            connection,
            publisher,
            self._names,
            by=self._name,
            timeout_s=config.publish_timeout_s,
        )
        limits = Limits(
            max_model_len=carried(dialects.max_model_len, text=config.engine == "scripted"),
            step_timeout_s=config.agent_step_timeout_s,
            keep_rounds=config.agent_keep_rounds,
            fold_after=config.agent_fold_after,
        )
        tools = Releasing(caller)
        stepper = Stepper(generate, Effects(journal, tools), journal, limits, _now, self._cosine)
        metrics.CONSUMERS.set_function(lambda: sum(each.consuming for each in self._subscriptions))
        async with asyncio.TaskGroup() as group:
            carrier = Carrier(
                who,
                settler,
                journal,
                events,
                patience_s=config.agent_step_timeout_s,
                release=tools.release,
            )
            intake = AgentIntake(
                group,
                who,
                stepper,
                Sites(dialects, self._registry, self._tables),
                carrier,
                events,
                rules=config.agent_rules.strip(),
                slots=config.agent_slots,
                patience_s=config.agent_step_timeout_s,
                room_s=config.consumer_timeout_s * _ROOM_SHARE,
                crowded=_Crowd(connection, self._names.agents),
                cancellations=self._control.cancellations,
                cancel_generation=generate.cancel,
            )
            sweeping = group.create_task(
                Sweeper(
                    connection,
                    self._names,
                    worker=self._name,
                    secrecy=self._secrecy,
                    cancellations=self._control.cancellations,
                ).run(),
                name="approvals that time out",
            )
            try:
                taking = self._consume(connection, intake)
                said = f"taking agent jobs, {config.agent_slots} steps at once"
                await self._attend(taking, intake, said, lambda: False)
            finally:
                sweeping.cancel()
                await self._unsubscribe()
        # Of jobs that others end nobody tells us.
        await tools.release_all(_RELEASE_S)
        await publisher.close()
        if self._died is not None:
            raise self._died

    async def _consume(self, connection: AbstractRobustConnection, intake: AgentIntake) -> None:
        await self._subscribe(
            connection,
            self._names.agents,
            what="agent jobs under way",
            on_message=intake.take,
            prefetch=self._config.agent_slots,
            transactional=True,
        )
        await self._subscribe(
            connection,
            self._names.new_agents,
            what="new agent jobs",
            on_message=intake.take_new,
            prefetch=_NEW_PREFETCH,
            transactional=True,
        )


class _Crowd:
    """Whether jobs under way wait for somebody to take their next step. Raises BrokerError."""

    def __init__(self, connection: AbstractRobustConnection, queue: str) -> None:
        self._connection = connection
        self._queue = queue

    async def __call__(self) -> bool:
        async with one_channel(self._connection, _CROWD_S) as channel:
            with explained(f"queue {self._queue!r}"):
                stands = await channel.queue_declare(self._queue, passive=True)
        return (stands.message_count or 0) > 0


def _load(config: Config) -> tuple[Dialects, Cosine | None]:
    return make_dialects(config), make_cosine(config)


def _now() -> datetime:
    return datetime.now(UTC)


def check_agents(config: Config) -> None:
    """Raise ConfigError where settings that are fine alone don't go together."""
    if config.agent_step_timeout_s >= config.consumer_timeout_s / 2:
        raise ConfigError(
            f"agent_step_timeout_s ({config.agent_step_timeout_s:g}) must be less than half of "
            f"consumer_timeout_s ({config.consumer_timeout_s:g}), or the broker takes running "
            "steps away; raise consumer_timeout in rabbitmq.conf and here, or shorten steps"
        )
    if config.agent_fold_after <= config.agent_keep_rounds:
        raise ConfigError(
            f"agent_fold_after ({config.agent_fold_after}) must be more than agent_keep_rounds "
            f"({config.agent_keep_rounds}): what is summed up are the rounds between them"
        )


def check_tools(config: Config, registry: Registry) -> None:
    """Raise ConfigError where a tool may take longer than a step."""
    for spec in registry.specs.values():
        if spec.timeout_s > config.agent_step_timeout_s:
            raise ConfigError(
                f"tool {spec.name} may take {spec.timeout_s:g} s, a step only "
                f"{config.agent_step_timeout_s:g} s: shorten its timeout_s, or raise "
                "agent_step_timeout_s"
            )


def run_agents(config: Config) -> int:
    """Run an agent service in this process until a signal stops it. Returns its exit code."""
    logs.configure(config.log_format, config.log_level, hides=config.keep_texts != "full")
    return asyncio.run(_run(config))


async def _run(config: Config) -> int:
    return await until_signalled(Orchestrator(config))
