"""The worker: loads the engine, takes jobs until it is told to stop, and drains."""

import asyncio
import logging
import time
from contextlib import AsyncExitStack
from typing import Final

from aio_pika.abc import AbstractRobustConnection

from ..producer.confirms import ConfirmedPublisher
from . import logs, metrics
from .config import Config, check, lanes, slots
from .engine import Engine, EngineDead, EngineInfo
from .engines import make_engine
from .event_stream import EventStream
from .frame import ExitCode, Service, until_signalled, versions
from .gating import gating
from .intake import Intake
from .publications import Identity
from .retrying import retry_table
from .settler import Settler

log = logging.getLogger(__name__)

_HEALTH_S: Final = 5.0
_HEALTH_TRIES: Final = 3


class Worker(Service):
    """One worker. `run` returns when it was asked to stop and has drained, or lost its engine."""

    def __init__(self, config: Config, engine: Engine | None = None) -> None:
        check(config)
        super().__init__(config, "worker")
        self._given_engine = engine
        self._gating = gating(config)
        self._retries = retry_table(config)
        self._engine_lost = False

    async def _serve(
        self,
        jobs: AbstractRobustConnection,
        events: AbstractRobustConnection,
        stack: AsyncExitStack,
    ) -> ExitCode:
        engine = self._given_engine or await make_engine(self._config)
        stack.push_async_callback(self._close, engine)
        info = await self._open(engine)
        if info is None:
            log.info("stopped before the engine was loaded")
        else:
            await self._work(jobs, events, engine, info)
        return ExitCode.ENGINE_LOST if self._engine_lost else ExitCode.OK

    async def _open(self, engine: Engine) -> EngineInfo | None:
        """Open the engine; None if the worker was stopped meanwhile."""
        self._trouble = "loading the engine"
        log.info("loading the engine: %s", self._config.model or self._config.engine)
        began = time.monotonic()
        info = await self._unless_stopped(engine.open())
        if info is not None:
            log.info("engine ready after %.1f s", time.monotonic() - began)
            if info.tags is not None:
                how = "by id" if info.tags.by_id else "by their text"
                tags = info.tags
                log.info("reasoning stands between %s and %s, told %s", tags.start, tags.end, how)
        return info

    async def _close(self, engine: Engine) -> None:
        self._trouble = "stopped"
        try:
            await engine.close()
        except Exception:
            # The work is done, and how it ended is not changed by this.
            log.exception("the engine did not close in good order")

    async def _work(
        self,
        connection: AbstractRobustConnection,
        events_connection: AbstractRobustConnection,
        engine: Engine,
        info: EngineInfo,
    ) -> None:
        who = Identity(
            worker=self._name,
            model=info.model,
            names=self._names,
            versions={**versions("torch"), "engine": info.version},
        )
        publisher = ConfirmedPublisher(connection)
        settler = Settler(publisher, who, publish_timeout_s=self._config.publish_timeout_s)
        events = EventStream(self._names, self._name)
        metrics.SLOTS.set(slots(self._config))
        metrics.CONSUMERS.set_function(lambda: sum(each.consuming for each in self._subscriptions))
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
                retries=self._retries,
                on_engine_lost=self._lose_engine,
            )
            group.create_task(events.run(events_connection), name="events")
            health = group.create_task(self._watch(engine), name="engine health")
            try:
                taking = self._consume(connection, intake)
                said = f"taking jobs: {self._config.lanes}"
                await self._attend(taking, intake, said, lambda: self._engine_lost)
            finally:
                health.cancel()
                events.close()
                await self._unsubscribe()
        await publisher.close()
        if self._died is not None:
            raise self._died

    async def _consume(self, connection: AbstractRobustConnection, intake: Intake) -> None:
        for lane, share in lanes(self._config).items():
            await self._subscribe(
                connection,
                self._names.jobs_queue(lane),
                what=f"lane {lane}",
                on_message=intake.take,
                prefetch=share,
            )

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


def run_worker(config: Config) -> int:
    """Run a worker in this process until a signal stops it. Returns its exit code."""
    logs.configure(config.log_format, config.log_level)
    with logs.for_vllm(config.log_format, config.log_level):
        return asyncio.run(_run(config))


async def _run(config: Config) -> int:
    return await until_signalled(Worker(config))
