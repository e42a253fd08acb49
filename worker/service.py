"""The worker: connects, loads the engine, takes jobs until it is told to stop, and drains."""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from enum import IntEnum
from functools import partial
from typing import Any, Final, TypeVar

from aio_pika.abc import AbstractRobustConnection

from ..producer import connection as broker
from ..producer.confirms import ConfirmedPublisher
from ..producer.declare import require
from ..producer.subscription import Subscription
from ..producer.versions import remarks, require_version
from ..schemas import Names, topology
from . import logs, metrics
from .config import Config, check, lanes, slots, worker_name
from .engine import Engine, EngineDead, EngineInfo
from .engines import make_engine
from .event_stream import EventStream
from .gating import gating
from .intake import Intake
from .loop_watch import LoopWatch
from .settlement import Identity
from .settler import Settler
from .status_server import StatusServer

log = logging.getLogger(__name__)

_HEALTH_S: Final = 5.0
_HEALTH_TRIES: Final = 3
_PAUSE_S: Final = 5.0
T = TypeVar("T")
_SETTLE_GRACE_S: Final = 5.0


class ExitCode(IntEnum):
    """What a supervisor reads."""

    OK = 0
    CANNOT_START = 3
    ENGINE_LOST = 4
    INTERRUPTED = 130


class Worker:
    """One worker. `run` returns when it was asked to stop and has drained, or lost its engine."""

    def __init__(self, config: Config, engine: Engine | None = None) -> None:
        check(config)
        self._config = config
        self._names = Names(config.namespace)
        self._name = worker_name(config)
        self._given_engine = engine
        self._gating = gating(config)
        self._loop_watch = LoopWatch()
        self._stop = asyncio.Event()
        self._engine_lost = False
        self._died: BaseException | None = None
        self._trouble: str | None = "starting"
        self._lanes: list[Subscription] = []
        self.status_port = 0

    def __repr__(self) -> str:
        return f"<Worker {self._name}, {self.not_ready() or 'ready'}>"

    def stop(self) -> None:
        """Begin to drain: take no more jobs, finish what runs within the grace."""
        self._stop.set()

    def not_ready(self) -> str | None:
        """None while jobs are taken and run; else what is in the way."""
        if self._trouble is not None:
            return self._trouble
        deaf = [repr(lane) for lane in self._lanes if not lane.consuming]
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
        log.info("worker %s, status on port %d", self._name, status.port)
        try:
            return await self._live()
        finally:
            beating.cancel()
            await asyncio.to_thread(status.close)

    async def _live(self) -> ExitCode:
        async with AsyncExitStack() as stack:
            # Before the engine: what can't work must not take minutes to say so. Events are best
            # effort, and whatever happens to them must not touch the jobs' connection.
            connections: list[AbstractRobustConnection] = []
            for connect in (self._connect, partial(self._dial, "events")):
                connection = await self._unless_stopped(connect())
                if connection is None:
                    return ExitCode.OK
                stack.push_async_callback(broker.close, connection)
                connections.append(connection)
            engine = self._given_engine or await make_engine(self._config)
            stack.push_async_callback(self._close, engine)
            info = await self._open(engine)
            if info is None:
                log.info("stopped before the engine was loaded")
            else:
                jobs, events = connections
                await self._work(jobs, events, engine, info)
        log.info("stopped")
        return ExitCode.ENGINE_LOST if self._engine_lost else ExitCode.OK

    async def _connect(self) -> AbstractRobustConnection:
        """The connection for jobs and their outcomes, to a broker that has what is needed."""
        connection = await self._dial("jobs")
        try:
            version = broker.server_version(connection)
            require_version(version)
            await require(connection, topology(self._config.namespace))
        except BaseException:
            await broker.close(connection)
            raise
        log.info("connected to RabbitMQ %s at %s", version, broker.address(connection))
        for remark in remarks(version):
            log.info("RabbitMQ %s: %s", version, remark)
        return connection

    async def _dial(self, what: str) -> AbstractRobustConnection:
        config = self._config
        return await broker.connect(
            config.amqp_url,
            timeout_s=config.connect_timeout_s,
            heartbeat_s=config.heartbeat_s,
            name=f"sluice worker {self._name} {what}",
        )

    async def _open(self, engine: Engine) -> EngineInfo | None:
        """Open the engine; None if the worker was stopped meanwhile."""
        self._trouble = "loading the engine"
        log.info("loading the engine: %s", self._config.model or self._config.engine)
        began = time.monotonic()
        info = await self._unless_stopped(engine.open())
        if info is not None:
            log.info("engine ready after %.1f s", time.monotonic() - began)
        return info

    async def _close(self, engine: Engine) -> None:
        self._trouble = "stopped"
        try:
            await engine.close()
        except Exception:
            # The work is done, and how it ended is not changed by this.
            log.exception("the engine did not close in good order")

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What the work comes to; None where the worker is stopped first."""
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

    async def _work(
        self,
        connection: AbstractRobustConnection,
        events_connection: AbstractRobustConnection,
        engine: Engine,
        info: EngineInfo,
    ) -> None:
        who = Identity(worker=self._name, model=info.model, names=self._names)
        publisher = ConfirmedPublisher(connection)
        settler = Settler(publisher, who, publish_timeout_s=self._config.publish_timeout_s)
        events = EventStream(self._names, self._name)
        metrics.SLOTS.set(slots(self._config))
        metrics.CONSUMERS.set_function(lambda: sum(lane.consuming for lane in self._lanes))
        async with asyncio.TaskGroup() as group:
            intake = Intake(
                group,
                engine,
                who,
                settler,
                events,
                slots=slots(self._config),
                attempt_timeout_s=self._config.attempt_timeout_s,
                gating=self._gating,
                on_engine_lost=self._lose_engine,
            )
            group.create_task(events.run(events_connection), name="events")
            health = group.create_task(self._watch(engine), name="engine health")
            try:
                await self._unless_stopped(self._consume(connection, intake))
                if not self._stop.is_set():
                    log.info("taking jobs: %s", self._config.lanes)
                    self._trouble = None
                await self._stop.wait()
                self._trouble = "stopping"
                await self._drain(intake)
            finally:
                health.cancel()
                events.close()
                for lane in self._lanes:
                    await lane.stop()
        await publisher.close()
        if self._died is not None:
            raise self._died

    async def _consume(self, connection: AbstractRobustConnection, intake: Intake) -> None:
        for lane, share in lanes(self._config).items():
            queue = self._names.jobs_queue(lane)
            subscription = Subscription(
                connection,
                what=f"lane {lane}",
                prepare=partial(_same, queue),
                on_message=intake.take,
                prefetch=share,
            )
            self._lanes.append(subscription)
            await subscription.start(self._die)

    def _die(self, error: BaseException) -> None:
        """A part died that must not: hand back what runs, then say so."""
        self._died = error
        self._stop.set()

    async def _watch(self, engine: Engine) -> None:
        """Stop the worker when its engine is gone: every job would fail, one after the other."""
        failures = 0
        while failures < _HEALTH_TRIES:
            try:
                async with asyncio.timeout(_HEALTH_S):
                    await engine.health()
                failures = 0
            except EngineDead:
                break
            except Exception:
                failures += 1
                log.exception("the engine's health can't be told, try %d", failures)
            await asyncio.sleep(_HEALTH_S)
        self._lose_engine()

    def _lose_engine(self) -> None:
        if not self._engine_lost:
            log.error("the engine is lost; handing back what runs")
        self._engine_lost = True
        self._stop.set()

    async def _drain(self, intake: Intake) -> None:
        intake.close()
        try:
            async with asyncio.timeout(_PAUSE_S):
                await asyncio.gather(*(lane.pause() for lane in self._lanes))
        except TimeoutError:
            log.warning("the broker does not answer; what it delivers meanwhile is left unsettled")
        await intake.hand_back()
        grace_s = 0.0 if self._engine_lost or self._died is not None else self._config.drain_grace_s
        log.info("stopping: up to %g s for what runs", grace_s)
        if await intake.idle(grace_s):
            return
        intake.interrupt("the worker is shutting down")
        if not await intake.idle(self._config.publish_timeout_s + _SETTLE_GRACE_S):
            log.warning("left unsettled, the broker delivers it again: %r", intake)
            intake.abandon()


async def _same(queue: str) -> str:
    """The queue of a lane is there, or is not; operators make it, workers don't."""
    return queue


def run_worker(config: Config) -> int:
    """Run a worker in this process until a signal stops it. Returns its exit code.

    The first SIGTERM or SIGINT drains, the second leaves at once, the third doesn't even tidy up.
    """
    logs.configure(config.log_format, config.log_level)
    with logs.for_vllm(config.log_format, config.log_level):
        return asyncio.run(_until_signalled(config))


async def _until_signalled(config: Config) -> int:
    worker = Worker(config)
    running = asyncio.create_task(worker.run(), name="worker")
    signals = 0

    def on_signal() -> None:
        nonlocal signals
        signals += 1
        if signals == 1:
            worker.stop()
        elif signals == 2:
            log.warning("leaving at once; what is unsettled goes back to its queue")
            running.cancel()
        else:
            os._exit(ExitCode.INTERRUPTED)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal)
    try:
        return await running
    except asyncio.CancelledError:
        return ExitCode.INTERRUPTED
