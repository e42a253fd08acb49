"""What every service is: connected, watched, told to stop by a signal, and drained at its end."""

import asyncio
import logging
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from enum import IntEnum
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Protocol, TypeVar

from aio_pika.abc import AbstractRobustConnection

from ..producer import connection as broker
from ..producer.subscription import Delivery, Subscription
from ..producer.versions import remarks, require_version
from ..schemas import Names, topology
from .config import Config, worker_name
from .loop_watch import LoopWatch
from .standing import require_soon
from .status_server import StatusServer

log = logging.getLogger(__name__)

_PAUSE_S: Final = 5.0
_SETTLE_GRACE_S: Final = 5.0
T = TypeVar("T")


class ExitCode(IntEnum):
    """What a supervisor reads."""

    OK = 0
    CANNOT_START = 3
    ENGINE_LOST = 4
    INTERRUPTED = 130


class Work(Protocol):
    """What a service has under way."""

    def close(self) -> None:
        """Begin nothing more."""
        ...

    async def hand_back(self) -> None:
        """Return what came after `close`."""
        ...

    async def idle(self, timeout_s: float) -> bool:
        """Wait until nothing runs; False when that takes longer than `timeout_s` seconds."""
        ...

    def interrupt(self, why: str) -> None:
        """End what runs; what it was about goes back unspent."""
        ...

    def abandon(self) -> None:
        """Let go of everything, unsettled."""
        ...


class Service(ABC):
    """One service. `run` returns when it was asked to stop and has drained, or can't go on."""

    def __init__(self, config: Config, kind: str) -> None:
        self._config = config
        self._kind = kind
        self._names = Names(config.namespace)
        self._name = worker_name(config)
        self._loop_watch = LoopWatch()
        self._stop = asyncio.Event()
        self._died: BaseException | None = None
        self._trouble: str | None = "starting"
        self._subscriptions: list[Subscription] = []
        self.status_port = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}, {self.not_ready() or 'ready'}>"

    @property
    def abandoned(self) -> int:
        """How much of what it ran is still at it, and would not end."""
        return 0

    def stop(self) -> None:
        """Begin to drain: take nothing more, finish what runs within the grace."""
        self._stop.set()

    def not_ready(self) -> str | None:
        """None while work is taken and done; else what is in the way."""
        if self._trouble is not None:
            return self._trouble
        deaf = [repr(each) for each in self._subscriptions if not each.consuming]
        return ", ".join(deaf) or None

    async def run(self) -> ExitCode:
        """Start, work, drain. Raises SluiceError when it can't start.

        Cancelled, it leaves at once: what was not settled goes back to its queue.
        """
        status = StatusServer(
            self._config.metrics_host,
            self._config.metrics_port,
            alive=self._loop_watch.trouble,
            ready=self.not_ready,
        )
        self.status_port = status.port
        beating = asyncio.create_task(self._loop_watch.run(), name="loop watch")
        log.info("%s %s, status on port %d", self._kind, self._name, status.port)
        try:
            return await self._live()
        finally:
            beating.cancel()
            await asyncio.to_thread(status.close)

    async def _live(self) -> ExitCode:
        async with AsyncExitStack() as stack:
            # Before the model: what can't work must not take minutes to say so. Events are best
            # effort, and whatever happens to them must not touch the jobs' connection.
            jobs = await self._open_connection(self._connect(), stack)
            if jobs is None:
                return ExitCode.OK
            events = await self._open_connection(self._dial("events"), stack)
            if events is None:
                return ExitCode.OK
            code = await self._serve(jobs, events, stack)
        log.info("stopped")
        return code

    async def _open_connection(
        self, opening: Coroutine[Any, Any, AbstractRobustConnection], stack: AsyncExitStack
    ) -> AbstractRobustConnection | None:
        connection = await self._unless_stopped(opening)
        if connection is not None:
            stack.push_async_callback(broker.close, connection)
        return connection

    @abstractmethod
    async def _serve(
        self,
        jobs: AbstractRobustConnection,
        events: AbstractRobustConnection,
        stack: AsyncExitStack,
    ) -> ExitCode:
        """Load what is needed, work until `_stop` is set, drain. What must be closed goes on the
        stack."""

    async def _connect(self) -> AbstractRobustConnection:
        """The connection for jobs and their outcomes, to a broker that has what is needed."""
        connection = await self._dial("jobs")
        try:
            told = broker.server_version(connection)
            require_version(told)
            await require_soon(connection, topology(self._config.namespace))
        except BaseException:
            await broker.close(connection)
            raise
        log.info("connected to RabbitMQ %s at %s", told, broker.address(connection))
        for remark in remarks(told):
            log.info("RabbitMQ %s: %s", told, remark)
        return connection

    async def _dial(self, what: str) -> AbstractRobustConnection:
        config = self._config
        return await broker.connect(
            config.amqp_url,
            timeout_s=config.connect_timeout_s,
            heartbeat_s=config.heartbeat_s,
            name=f"sluice {self._kind} {self._name} {what}",
        )

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What the work comes to; None where the service is stopped first."""
        task = asyncio.create_task(work)
        stopping = asyncio.create_task(self._stop.wait(), name="wait for stop")
        try:
            await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            stopping.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait([task])

    async def _subscribe(
        self,
        connection: AbstractRobustConnection,
        queue: str,
        *,
        what: str,
        on_message: Callable[[Delivery], None],
        prefetch: int,
        transactional: bool = False,
    ) -> None:
        subscription = Subscription(
            connection,
            what=what,
            prepare=partial(_same, queue),
            on_message=on_message,
            prefetch=prefetch,
            transactional=transactional,
        )
        self._subscriptions.append(subscription)
        await subscription.start(self._die)

    async def _attend(
        self,
        subscribing: Coroutine[Any, Any, None],
        work: Work,
        said: str,
        lost: Callable[[], bool],
    ) -> None:
        """Take work until told to stop, then drain: at once where something is `lost` without
        which nothing can end well."""
        await self._unless_stopped(subscribing)
        if not self._stop.is_set():
            log.info(said)
            self._trouble = None
        await self._stop.wait()
        self._trouble = "stopping"
        at_once = lost() or self._died is not None
        await self._drain(work, 0.0 if at_once else self._config.drain_grace_s)

    async def _unsubscribe(self) -> None:
        for subscription in self._subscriptions:
            await subscription.stop()

    def _die(self, error: BaseException) -> None:
        """A part died that must not: hand back what runs, then say so."""
        self._died = error
        self._stop.set()

    async def _drain(self, work: Work, grace_s: float) -> None:
        """Take nothing more, and let what runs end within the grace; the rest goes back."""
        work.close()
        try:
            async with asyncio.timeout(_PAUSE_S):
                await asyncio.gather(*(each.pause() for each in self._subscriptions))
        except TimeoutError:
            log.warning("the broker does not answer; what it delivers meanwhile is left unsettled")
        await work.hand_back()
        log.info("stopping: up to %g s for what runs", grace_s)
        if await work.idle(grace_s):
            return
        work.interrupt(f"the {self._kind} is shutting down")
        if not await work.idle(self._config.publish_timeout_s + _SETTLE_GRACE_S):
            log.warning("left unsettled, the broker delivers it again: %r", work)
            work.abandon()


async def _same(queue: str) -> str:
    """The queue is there, or is not; operators make it, services don't."""
    return queue


def versions(*packages: str) -> dict[str, str]:
    """The versions of our own and other packages, where they are installed."""
    found: dict[str, str] = {}
    for name in ("sluicegate", *packages):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


async def until_signalled(service: Service) -> int:
    """Run a service until a signal stops it; its exit code.

    The first SIGTERM or SIGINT drains, the second leaves at once, the third doesn't even tidy up.
    """
    running = asyncio.create_task(service.run(), name="service")
    signals = 0

    def on_signal() -> None:
        nonlocal signals
        signals += 1
        if signals == 1:
            service.stop()
        elif signals == 2:
            log.warning("leaving at once; what is unsettled goes back to its queue")
            running.cancel()
        else:
            os._exit(ExitCode.INTERRUPTED)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal)
    try:
        code = await running
    except asyncio.CancelledError:
        code = ExitCode.INTERRUPTED
    if service.abandoned:
        # The loop would wait for it, for ever.
        log.warning("leaving while %d calls of tools still run", service.abandoned)
        logging.shutdown()
        os._exit(code)
    return code
