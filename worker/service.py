"""The worker: loads the engine, takes jobs until it is told to stop, and drains."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Final

from aio_pika.abc import AbstractRobustConnection

from ..producer.confirms import ConfirmedPublisher
from ..schemas import Lane
from . import logs, metrics
from .borrowing import IDLE, LaneConsumers, lend
from .config import Config, check, lanes, slots
from .endings import EngineLost, Interrupted
from .engine import Engine, EngineInfo
from .engine_keeper import EngineKeeper, MakeEngine
from .engines import make_engine
from .frame import ExitCode, Service, until_signalled
from .gating import gating
from .installed import versions
from .intake import Intake
from .publications import Identity
from .retrying import retry_table
from .settler import Settler
from .sickness import ADVICE, Ailment, Diagnosis, Sickness

log = logging.getLogger(__name__)

# Who holds the subscriptions of a worker whose engine is ill.
_QUARANTINED: Final = "quarantined"
_CEASE_S: Final = 5.0
_LOOK_EVERY_S: Final = 0.01


class Worker(Service):
    """One worker. `run` returns when it was asked to stop and has drained, or has no engine that
    works, and no hope of one."""

    def __init__(self, config: Config, engine: Engine | MakeEngine | None = None) -> None:
        """`engine`: one to use, which is closed and opened again where it falls ill; or what makes
        each of them. None: as the settings say."""
        check(config)
        super().__init__(config, "worker")
        self._gating = gating(config)
        self._retries = retry_table(config)
        self._intake: Intake | None = None
        self._code = ExitCode.OK
        self._lanes: Mapping[Lane, LaneConsumers] = {}
        # Set when an engine has shown that it works.
        self._well = asyncio.Event()
        # Whether its subscriptions are over, and new ones are needed.
        self._unsubscribed = False
        self._keeper = EngineKeeper(config, _maker(config, engine), self._suspects)

    @property
    def sickness(self) -> Sickness:
        """How it is with its engine."""
        return self._keeper.sickness

    async def _serve(self, jobs: AbstractRobustConnection, stack: AsyncExitStack) -> ExitCode:
        stack.push_async_callback(self._close)
        info = await self._open()
        if info is not None:
            self._herald.model = info.model
        if info is None:
            log.info("stopped before the engine was loaded")
        else:
            await self._work(jobs, info)
        return self._code

    def _fits(self, config: Config) -> None:
        check(config)

    async def _open(self) -> EngineInfo | None:
        """Open the engine; None if the worker was stopped meanwhile."""
        self._trouble = "loading the engine"
        log.info("loading the engine: %s", self._config.model or self._config.engine)
        info = await self._unless_stopped(self._keeper.open())
        if info is not None and info.tags is not None:
            how = "by id" if info.tags.by_id else "by their text"
            tags = info.tags
            log.info("reasoning stands between %s and %s, told %s", tags.start, tags.end, how)
        return info

    async def _close(self) -> None:
        self._trouble = "stopped"
        await self._keeper.close()

    async def _work(self, connection: AbstractRobustConnection, info: EngineInfo) -> None:
        who = Identity(
            worker=self._name,
            model=info.model,
            names=self._names,
            versions={**versions("torch"), "engine": info.version},
            secrecy=self._secrecy,
        )
        publisher = ConfirmedPublisher(connection)
        settler = Settler(publisher, who, publish_timeout_s=self._config.publish_timeout_s)
        keeper = self._keeper
        metrics.SLOTS.set(slots(self._config))
        metrics.CONSUMERS.set_function(lambda: len(self.consumed()))
        async with asyncio.TaskGroup() as group:
            intake = self._intake = Intake(
                group,
                keeper.engine,
                who,
                settler,
                self._events,
                shares=lanes(self._config),
                attempt_timeout_s=self._config.attempt_timeout_s,
                gating=self._gating,
                retries=self._retries,
                on_engine_lost=partial(keeper.fall_ill, Ailment.LOST),
                on_ended=keeper.attempt_over,
                cancellations=self._control.cancellations,
            )
            keeping = group.create_task(self._keep(connection, intake), name="engine keeper")
            lending = group.create_task(
                lend(lanes(self._config), lambda: self._lanes), name="lending of slots"
            )
            try:
                taking = self._consume(connection, intake)
                said = f"taking jobs: {self._config.lanes}"
                await self._attend(taking, intake, said, lambda: not self.sickness.takes_work)
            finally:
                keeping.cancel()
                lending.cancel()
                await self._unsubscribe()
        await publisher.close()
        if self._died is not None:
            raise self._died

    async def _consume(self, connection: AbstractRobustConnection, intake: Intake) -> None:
        await self._well.wait()
        shares = lanes(self._config)
        consumers: dict[Lane, LaneConsumers] = {}
        for lane, share in shares.items():
            queue = self._names.jobs_queue(lane)
            own = await self._subscribe(
                connection, queue, what=f"lane {lane}", on_message=intake.take, prefetch=share
            )
            borrowed = sum(shares.values()) - share
            if borrowed:
                borrower = await self._subscribe(
                    connection,
                    queue,
                    what=f"lane {lane}, borrowed slots",
                    on_message=intake.take,
                    prefetch=borrowed,
                    held_by=IDLE,
                )
                consumers[lane] = LaneConsumers(own, borrower)
        self._lanes = consumers

    def _suspects(self) -> int:
        return self._intake.suspects if self._intake is not None else 0

    async def _keep(self, connection: AbstractRobustConnection, intake: Intake) -> None:
        """Put the worker in quarantine whenever its engine is ill, and back to work when it has
        another; stop it where that is no use."""
        while self.sickness.takes_work or await self._recovered(connection, intake):
            self._well.set()
            await self._keeper.until_ill()
        self._stop.set()

    async def _recovered(self, connection: AbstractRobustConnection, intake: Intake) -> bool:
        """Whether there is an engine again that works. Nothing is taken meanwhile."""
        diagnosis = self.sickness.diagnosis
        assert diagnosis is not None  # noqa: S101  it is ill
        await self._quarantine(intake, diagnosis)
        if self._stop.is_set():
            return False
        if not self._config.engine_restarts:
            log.error("engine_restarts is 0, so the worker ends: %s", ADVICE[diagnosis.ailment])
            self._code = ExitCode.ENGINE_LOST
            return False
        if not await self._keeper.restart(self._say_restarting):
            last = self.sickness.diagnosis or diagnosis
            log.error("no engine works any more, %s; %s", last, ADVICE[last.ailment])
            self._turn("quarantined", f"given up, {last}", "quarantined")
            self._code = ExitCode.QUARANTINED
            return False
        await intake.hand_back()
        intake.reopen()
        await self._resume(connection, intake)
        log.info("the engine works again, after %s", diagnosis)
        if self._subscriptions:
            self._turn("ready", None, "restarted", f"after {diagnosis}")
            self._mind_state(datetime.now(UTC))
        else:
            self._turn("starting", "subscribing", "restarted", f"after {diagnosis}")
        return True

    async def _resume(self, connection: AbstractRobustConnection, intake: Intake) -> None:
        if self._unsubscribed:
            self._unsubscribed = False
            self._subscriptions.clear()
            await self._consume(connection, intake)
        for each in self._subscriptions:
            each.release(_QUARANTINED)

    async def _quarantine(self, intake: Intake, diagnosis: Diagnosis) -> None:
        """Take nothing, and hand back what runs: where the engine's numbers are in doubt, without
        what it wrote; where a job may be the cause, with a fault to its account."""
        log.error("the engine is not to be used any more, %s", diagnosis)
        metrics.QUARANTINES.labels(reason=diagnosis.ailment.value).inc()
        intake.close()
        for each in self._subscriptions:
            each.hold(_QUARANTINED)
        self._turn("quarantined", f"the engine is ill, {diagnosis}", "quarantined")
        why = f"the engine is ill, {diagnosis}"
        back = Interrupted(why, trusted=not diagnosis.ailment.taints)
        intake.end_all(EngineLost(why) if diagnosis.ailment.strikes else back, back)
        if not await self._settled(intake):
            # With their channels the broker has back what was let go of.
            await self._unsubscribe()
            self._unsubscribed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(_CEASE_S):
                while any(each.consuming for each in self._subscriptions):  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK_EVERY_S)
        await intake.hand_back()

    def _say_restarting(self, which: str) -> None:
        self._turn("restarting", f"starting the engine anew, {which}", "status")


def _maker(config: Config, engine: Engine | MakeEngine | None) -> MakeEngine:
    if engine is None:
        return partial(make_engine, config)
    if callable(engine):
        return engine

    async def same() -> Engine:
        return engine

    return same


def run_worker(config: Config) -> int:
    """Run a worker in this process until a signal stops it. Returns its exit code."""
    logs.configure(config.log_format, config.log_level, hides=config.keep_texts != "full")
    with logs.for_vllm(config.log_format, config.log_level, hides=config.keep_texts != "full"):
        return asyncio.run(_run(config))


async def _run(config: Config) -> int:
    return await until_signalled(Worker(config))
