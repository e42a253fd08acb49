"""What every service is: connected, watched, told to stop by a signal, and drained at its end."""

import asyncio
import logging
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from enum import IntEnum
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from aio_pika.abc import AbstractRobustConnection

from ..producer import connection as broker
from ..producer.subscription import Delivery, Subscription
from ..producer.tasks import end
from ..producer.versions import remarks, require_version
from ..schemas import Names, Pause, topology
from ..schemas.services import Said, ServiceKind, ServiceState
from . import consumer_timeout, metrics
from .config import Config, ConfigError, secured, worker_name
from .control import PAUSED, Control
from .exposing import count_reconnects, expose, expose_held
from .herald import Herald, Standing, reading
from .loop_watch import LoopWatch
from .pauses import told
from .queue_watch import QueueWatch, watched
from .secrecy import secrecy_of
from .standing import require_soon
from .status_server import StatusServer
from .tracing import TRACING

log = logging.getLogger(__name__)

_PAUSE_S: Final = 5.0
_SETTLE_GRACE_S: Final = 5.0
_LAST_EVENTS_S: Final = 2.0
T = TypeVar("T")


class ExitCode(IntEnum):
    """What a supervisor reads."""

    OK = 0
    CANNOT_START = 3
    ENGINE_LOST = 4
    QUARANTINED = 5
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

    def cancel(self, job_id: str) -> None:
        """A job was called off: end it as such, if it is here."""
        ...

    def abandon(self) -> None:
        """Let go of everything, unsettled."""
        ...


class Service(ABC):
    """One service. `run` returns when it was asked to stop and has drained, or can't go on."""

    def __init__(self, config: Config, kind: ServiceKind) -> None:
        self._config = secured(config)
        self._secrecy = secrecy_of(config)
        self._kind: ServiceKind = kind
        self._names = Names(config.namespace)
        self._name = worker_name(config)
        self._loop_watch = LoopWatch()
        self._stop = asyncio.Event()
        self._at_once = asyncio.Event()
        self._died: BaseException | None = None
        self._trouble: str | None = "starting"
        self._state: ServiceState = "starting"
        self._subscriptions: list[Subscription] = []
        self._herald = Herald(self._names, self._name, kind, self._stand)
        self._events = self._herald.events
        self._events.secrecy = self._secrecy
        self._control = Control(self._names, self._name, kind)
        self.status_port = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}, {self.not_ready() or 'ready'}>"

    @property
    def abandoned(self) -> int:
        """How much of what it ran is still at it, and would not end."""
        return 0

    def stop(self, *, at_once: bool = False) -> None:
        """Begin to drain: take nothing more, finish what runs within the grace. `at_once`: without
        any, also where it drains already: what runs is handed back as it is."""
        if at_once:
            self._at_once.set()
        self._stop.set()

    @property
    def state(self) -> ServiceState:
        """Where it is in its life."""
        return self._state

    def load(self) -> tuple[int, int]:
        """How much is under way, and how much can be."""
        return int(reading(metrics.IN_FLIGHT)), int(reading(metrics.SLOTS))

    def consumed(self) -> tuple[str, ...]:
        """The queues that it consumes now."""
        return tuple(dict.fromkeys(each.queue for each in self._subscriptions if each.consuming))

    def not_ready(self) -> str | None:
        """None while work is taken and done; else what is in the way."""
        if self._trouble is not None:
            return self._trouble
        deaf = [repr(each) for each in self._subscriptions if not (each.consuming or each.held)]
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
        expose(self._kind, lambda: self._state)
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
            TRACING.start(self._config, self._kind, self._name)
            stack.push_async_callback(TRACING.close)
            async with self._telling(events), self._control.listening(events, self._die):
                code = await self._serve(jobs, stack)
        log.info("stopped")
        return code

    @asynccontextmanager
    async def _telling(self, connection: AbstractRobustConnection) -> AsyncGenerator[None]:
        """While this lasts, events go out, and the herald says how the service stands."""
        publishing = asyncio.create_task(self._events.run(connection), name="events")
        repeating = asyncio.create_task(self._herald.run(), name="herald")
        queues = watched(self._config.namespace, self._config.watch_replies)
        counting = asyncio.create_task(QueueWatch(queues).run(connection), name="queues")
        self._herald.say("started")
        try:
            yield
        finally:
            await end(repeating)
            await end(counting)
            self._turn("stopping", "stopped", "stopped")
            self._events.close()
            await asyncio.wait([publishing], timeout=_LAST_EVENTS_S)
            await end(publishing)

    def _turn(
        self, state: ServiceState, trouble: str | None, what: Said | None = None, detail: str = ""
    ) -> None:
        """Take on a state; `trouble` is what is in the way of work. What has a name is told, with
        the detail, or else with the trouble."""
        self._state, self._trouble = state, trouble
        if what is not None:
            self._herald.say(what, detail)

    def _stand(self) -> Standing:
        in_flight, slots = self.load()
        return Standing(
            state=self._state,
            trouble=self.not_ready() or "",
            queues=self.consumed(),
            in_flight=in_flight,
            slots=slots,
        )

    async def _open_connection(
        self, opening: Coroutine[Any, Any, AbstractRobustConnection], stack: AsyncExitStack
    ) -> AbstractRobustConnection | None:
        connection = await self._unless_stopped(opening)
        if connection is not None:
            stack.push_async_callback(broker.close, connection)
        return connection

    @abstractmethod
    async def _serve(self, jobs: AbstractRobustConnection, stack: AsyncExitStack) -> ExitCode:
        """Load what is needed, work until `_stop` is set, drain. What must be closed goes on the
        stack."""

    async def _connect(self) -> AbstractRobustConnection:
        """The connection for jobs and their outcomes, to a broker that has what is needed."""
        connection = await self._dial("jobs")
        try:
            told = broker.server_version(connection)
            require_version(told)
            await require_soon(connection, topology(self._config.namespace))
            await self._learn_timeout(connection)
        except BaseException:
            await broker.close(connection)
            raise
        log.info("connected to RabbitMQ %s at %s", told, broker.address(connection))
        for remark in remarks(told):
            log.info("RabbitMQ %s: %s", told, remark)
        return connection

    @abstractmethod
    def _fits(self, config: Config) -> None:
        """Raise ConfigError where what this service holds is not done within half of
        `consumer_timeout_s`."""

    async def _learn_timeout(self, connection: AbstractRobustConnection) -> None:
        """Take the broker's own consumer timeout, where it tells, for the one configured. Raises
        ConfigError where work does not fit it: it would be taken away in the middle."""
        cluster = broker.cluster_name(connection)
        real_s = await consumer_timeout.asked(consumer_timeout.command(self._config), cluster)
        self._config = consumer_timeout.with_real(self._config, real_s)
        self._fits(self._config)

    def _on_lost(self, reason: str) -> None:
        """A consumer was lost. Where the broker was tired of waiting for work to be settled, it
        would be so again: then what is held must fit what it says, or this service ends."""
        self._config = consumer_timeout.with_real(self._config, consumer_timeout.told_by(reason))
        try:
            self._fits(self._config)
        except ConfigError as error:
            self._die(error)

    async def _dial(self, what: str) -> AbstractRobustConnection:
        config = self._config
        connection = await broker.connect(
            config.amqp_url,
            timeout_s=config.connect_timeout_s,
            heartbeat_s=config.heartbeat_s,
            name=f"sluice {self._kind} {self._name} {what}",
        )
        count_reconnects(connection, what)
        return connection

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
        held_by: str | None = None,
    ) -> Subscription:
        subscription = Subscription(
            connection,
            what=what,
            prepare=partial(_same, queue),
            on_message=on_message,
            prefetch=prefetch,
            transactional=transactional,
            on_lost=self._on_lost,
        )
        pause = self._control.pauses.on(queue, datetime.now(UTC))
        if pause is not None:
            subscription.hold(PAUSED)
            log.info("%s: %s", queue, told(pause))
        if held_by is not None:
            subscription.hold(held_by)
        self._subscriptions.append(subscription)
        await subscription.start(self._die)
        expose_held(self._config.namespace, queue, self._subscriptions)
        return subscription

    async def _attend(
        self,
        subscribing: Coroutine[Any, Any, object],
        work: Work,
        said: str,
        lost: Callable[[], bool],
    ) -> None:
        """Take work until told to stop, then drain: at once where something is `lost` without
        which nothing can end well."""
        self._control.on_cancel = work.cancel
        await self._unless_stopped(self._after_what_was_said(subscribing))
        if not self._stop.is_set() and self._state == "starting":
            log.info(said)
            self._turn("ready", None, "status")
        obeying = asyncio.create_task(self._obey(), name="pauses")
        try:
            await self._stop.wait()
        finally:
            await end(obeying)
        self._turn("stopping", "stopping", "stopping")
        at_once = lost() or self._died is not None
        await self._drain(work, 0.0 if at_once else self._config.drain_grace_s)

    async def _after_what_was_said(self, subscribing: Coroutine[Any, Any, object]) -> None:
        try:
            await self._control.caught_up()
        except BaseException:
            subscribing.close()
            raise
        await subscribing

    async def _obey(self) -> None:
        """Hold what is paused and release what is not any more, until cancelled."""
        while True:
            self._mind_pauses()
            await self._control.until_news()

    def _mind_pauses(self) -> None:
        now = datetime.now(UTC)
        # A lane has two consumers of one queue.
        changed: dict[str, Pause | None] = {}
        for each in self._subscriptions:
            pause = self._control.pauses.on(each.queue, now)
            if (pause is not None) == each.is_held_by(PAUSED):
                continue
            if pause is not None:
                each.hold(PAUSED)
            else:
                each.release(PAUSED)
            changed[each.queue] = pause
        for queue, pause in changed.items():
            said = f"{queue}: {told(pause) if pause is not None else 'no longer paused'}"
            log.info(said)
            self._herald.say("paused" if pause is not None else "resumed", said)
        self._mind_state(now)

    def _mind_state(self, now: datetime) -> None:
        """Paused is who takes nothing at all because it was told so."""
        held = [each.is_held_by(PAUSED) for each in self._subscriptions]
        if self._state in ("ready", "paused") and held and all(held):
            pause = self._control.pauses.on(self._subscriptions[0].queue, now)
            # Of two pauses one may be over, and the other is the reason now.
            is_news = "paused" if self._state == "ready" else None
            self._turn("paused", told(pause) if pause is not None else "paused", is_news)
        elif self._state == "paused" and not all(held):
            self._turn("ready", None, "resumed")

    async def _unsubscribe(self) -> None:
        for subscription in self._subscriptions:
            await subscription.stop()

    def _die(self, error: BaseException) -> None:
        """A part died that must not: hand back what runs, then say so."""
        self._died = error
        self._stop.set()

    async def _drain(self, work: Work, grace_s: float) -> None:
        """Take nothing more, and let what runs end within the grace; the rest goes back."""
        await self._take_nothing(work)
        log.info("stopping: up to %g s for what runs", grace_s)
        if await self._idle_in_time(work, grace_s):
            return
        work.interrupt(f"the {self._kind} is shutting down")
        await self._settled(work)

    async def _idle_in_time(self, work: Work, grace_s: float) -> bool:
        """Whether what runs ends within the grace, and before there is no time for that."""
        hurrying = asyncio.create_task(self._at_once.wait(), name="wait for a notice")
        idling = asyncio.create_task(work.idle(grace_s), name="wait for what runs")
        try:
            await asyncio.wait([hurrying, idling], return_when=asyncio.FIRST_COMPLETED)
            return idling.done() and idling.result()
        finally:
            await end(hurrying)
            await end(idling)

    async def _take_nothing(self, work: Work) -> None:
        """Begin nothing more, and give back what comes meanwhile."""
        work.close()
        try:
            async with asyncio.timeout(_PAUSE_S):
                await asyncio.gather(*(each.pause() for each in self._subscriptions))
        except TimeoutError:
            log.warning("the broker does not answer; what it delivers meanwhile is left unsettled")
        await work.hand_back()

    async def _settled(self, work: Work) -> bool:
        """Wait until what was ended is settled; what will not be is let go of. Whether all was."""
        if await work.idle(self._config.publish_timeout_s + _SETTLE_GRACE_S):
            return True
        log.warning("left unsettled, the broker delivers it again: %r", work)
        work.abandon()
        return False


async def _same(queue: str) -> str:
    """The queue is there, or is not; operators make it, services don't."""
    return queue


async def until_signalled(service: Service) -> int:
    """Run a service until a signal stops it; its exit code.

    The first SIGTERM or SIGINT drains, the second leaves at once, the third doesn't even tidy up.
    SIGUSR1 is the notice that the machine is about to be taken away: it drains without a grace.
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
    loop.add_signal_handler(signal.SIGUSR1, partial(service.stop, at_once=True))
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
