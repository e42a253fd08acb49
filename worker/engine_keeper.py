"""Keeps one engine that works: opens it, tries it, watches it, and puts a new one in its place.

What is seen goes to `Sickness`, which decides; what it decides is carried out here and by the
worker. No broker is in it.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from ..schemas import Flaw, GenerationJob
from . import metrics
from .canary import Canary
from .config import Config
from .endings import Answered, Faulted, GaveUp, Report
from .engine import Engine, EngineDead, EngineInfo, EngineOutOfMemory, EngineUnavailable
from .sickness import Ailment, Diagnosis, Outcome, Rules, Sickness
from .stall import StallWatch
from .watched_engine import WatchedEngine, is_out_of_memory

log = logging.getLogger(__name__)

_HEALTH_S: Final = 5.0
_HEALTH_TRIES: Final = 3
_LONGEST_LOOK_S: Final = 1.0
# An engine bounds its own loading and closing; who does not is cut off so much later.
_GRACE_S: Final = 15.0
CLOSE_S: Final = 45.0
# Where nothing says how long an engine may be silent.
_CANARY_S: Final = 120.0
_NUMERIC: Final = frozenset(
    {Flaw.NON_FINITE_LOGITS, Flaw.UNIFORM_LOGITS, Flaw.ID_OUT_OF_RANGE},
)
MakeEngine = Callable[[], Awaitable[Engine]]


def rules(config: Config) -> Rules:
    """When trust in the engine ends, by the settings."""
    return Rules(
        numeric_jobs=config.sick_jobs,
        restarts=config.engine_restarts,
        restart_window_s=config.engine_restart_window_s,
    )


class EngineKeeper:
    """Owns the engine behind `engine`. `suspects`: how many jobs run now that ran before when an
    engine was lost."""

    def __init__(
        self,
        config: Config,
        make: MakeEngine,
        suspects: Callable[[], int],
        *,
        close_s: float = CLOSE_S,
    ) -> None:
        self._config = config
        self._make = make
        self._suspects = suspects
        self._close_s = close_s
        self._look_s = min(_LONGEST_LOOK_S, config.engine_stall_s / 10 or _LONGEST_LOOK_S)
        self._canary = Canary(config.canary_prompt, config.canary_answer)
        self._suspicion = asyncio.Event()
        self._ill = asyncio.Event()
        self.sickness = Sickness(rules(config))
        self.engine = WatchedEngine(StallWatch(config.engine_stall_s, self._look_s), self._on_death)

    def __repr__(self) -> str:
        return f"<EngineKeeper {self.sickness!r}>"

    async def open(self) -> EngineInfo:
        """Load the first engine and try it. Raises EngineUnavailable where it can't be loaded; one
        that loads and does not work is ill."""
        try:
            info = await self._load()
        except Exception as error:
            if is_out_of_memory(error) and not isinstance(error, EngineUnavailable):
                raise EngineUnavailable(_no_memory(error)) from error
            raise
        if (problem := await self._try(alone=True)) is not None:
            self.fall_ill(problem.ailment, problem.detail)
        return info

    async def until_ill(self) -> Diagnosis:
        """Watch the engine until it is not to be used any more."""
        watching: list[Coroutine[Any, Any, None]] = [self._watch_health(), self._watch_stall()]
        if self._canary.is_on:
            watching.append(self._watch_canary())
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each, name="engine watch") for each in watching]
            await self._ill.wait()
            for task in tasks:
                task.cancel()
        assert self.sickness.diagnosis is not None  # noqa: S101  `fall_ill` has set it
        return self.sickness.diagnosis

    def attempt_over(self, job: GenerationJob, report: Report) -> None:
        """An attempt ended. Its record says what the numbers were like."""
        outcome = outcome_of(report)
        if outcome is None:
            return
        elsewhere = any(
            record.worker != report.record.worker and _has_numeric_flaw(record)
            for record in job.lineage.attempts
        )
        was_ill = not self.sickness.takes_work
        asks = self.sickness.attempt(time.monotonic(), job.id, outcome, elsewhere=elsewhere)
        if asks:
            self._suspicion.set()
        if not was_ill and not self.sickness.takes_work:
            self._ill.set()

    def fall_ill(self, ailment: Ailment, detail: str) -> None:
        """The engine is not to be used any more."""
        explained = ailment.strikes and self._suspects() == 1
        self.sickness.fall_ill(time.monotonic(), ailment, detail, explained=explained)
        self._ill.set()

    async def restart(self, say: Callable[[str], None]) -> bool:
        """Put a new engine in the place of one that is ill, with pauses, as often as is allowed;
        False where it is no use. `say` hears what is being done."""
        while (pause_s := self._next_pause()) is not None:
            which = f"restart {self.sickness.restarts} of at most {self.sickness.rules.restarts}"
            await self._let_go()
            log.info("%s: the engine is started anew in %.1f s", which, pause_s)
            await asyncio.sleep(pause_s)
            say(f"{which}, after {self.sickness.diagnosis}")
            if await self._renew():
                metrics.ENGINE_RESTARTS.labels(outcome="ready").inc()
                self.sickness.recover()
                self._ill.clear()
                self._suspicion.clear()
                return True
            metrics.ENGINE_RESTARTS.labels(outcome="failed").inc()
        return False

    async def close(self) -> None:
        """Let go of the engine, in the middle of loading, too."""
        await self._let_go()

    def _next_pause(self) -> float | None:
        draw = random.random()  # noqa: S311  no secret
        return self.sickness.restart(time.monotonic(), draw)

    async def _renew(self) -> bool:
        try:
            await self._load()
            problem = await self._try(alone=True)
        except Exception as error:
            # Whatever it is: the next try, or none, is decided elsewhere.
            log.exception("the engine can't be started anew")
            short = is_out_of_memory(error) and not isinstance(error, EngineUnavailable)
            problem = Diagnosis(Ailment.LOAD, _no_memory(error) if short else str(error))
        if problem is not None:
            self.fall_ill(problem.ailment, problem.detail)
        return problem is None

    async def _load(self) -> EngineInfo:
        began = time.monotonic()
        self.engine.current = await self._make()
        limit_s = self._config.engine_start_timeout_s
        try:
            async with asyncio.timeout(limit_s + _GRACE_S):
                info = await self.engine.open()
        except TimeoutError as error:
            raise EngineUnavailable(
                f"the engine did not start within {limit_s:g} s; raise engine_start_timeout_s"
            ) from error
        log.info("engine ready after %.1f s", time.monotonic() - began)
        return info

    async def _try(self, *, alone: bool) -> Diagnosis | None:
        """What the canary says."""
        limit_s = self._config.engine_stall_s or _CANARY_S
        engine = self.engine.current
        assert engine is not None  # noqa: S101  called while there is one
        try:
            # Not the watched one: its silence is bounded here.
            problem = await self._canary.sing(engine, limit_s, alone=alone)
        except EngineDead as error:
            return Diagnosis(_ailment(error), str(error))
        except Exception as error:
            ailment = Ailment.OUT_OF_MEMORY if is_out_of_memory(error) else Ailment.CANARY
            return Diagnosis(ailment, f"{type(error).__name__}: {error}")
        return None if problem is None else Diagnosis(Ailment.CANARY, f"the canary: {problem}")

    async def _let_go(self) -> None:
        engine = self.engine.current
        await self.engine.close()
        if engine is None:
            return
        closing = asyncio.create_task(engine.close(), name="close the engine")
        try:
            await asyncio.wait([closing], timeout=self._close_s)
        finally:
            if not closing.done():
                log.error("the engine does not close; it is left to itself")
                closing.cancel()
                await asyncio.wait([closing], timeout=1.0)
        if closing.done() and not closing.cancelled() and (error := closing.exception()):
            log.error("the engine did not close in good order", exc_info=error)

    async def _watch_health(self) -> None:
        failures = 0
        while True:
            try:
                async with asyncio.timeout(_HEALTH_S):
                    await self.engine.health()
                failures = 0
            except EngineDead as error:
                self._on_death(error)
            except Exception:
                failures += 1
                log.exception("the engine's health can't be told, try %d", failures)
            if failures >= _HEALTH_TRIES:
                self.fall_ill(Ailment.HUNG, f"no word of its health in {failures} tries")
            await asyncio.sleep(_HEALTH_S)

    async def _watch_stall(self) -> None:
        stall = self.engine.stall
        while True:
            if stall.look(time.monotonic()):
                self.fall_ill(
                    Ailment.STALLED, f"it has work, and no token came for {stall.quiet_s:.0f} s"
                )
            await asyncio.sleep(self._look_s)

    async def _watch_canary(self) -> None:
        """At a suspicion, and now and then where nothing else shows how the engine is."""
        every_s = self._config.canary_every_s
        while True:
            try:
                async with asyncio.timeout(every_s or None):
                    await self._suspicion.wait()
            except TimeoutError:
                if not self.engine.stall.is_idle:
                    continue
            self._suspicion.clear()
            problem = await self._try(alone=self.engine.stall.is_idle)
            if problem is not None:
                self.fall_ill(problem.ailment, problem.detail)
            else:
                self.sickness.reassure()

    def _on_death(self, error: EngineDead) -> None:
        self.fall_ill(_ailment(error), str(error))


def outcome_of(report: Report) -> Outcome | None:
    """What an attempt says of the engine; None: nothing."""
    if _has_numeric_flaw(report.record):
        return "numeric"
    if isinstance(report.ending, Faulted):
        return "failed"
    return "good" if isinstance(report.ending, Answered | GaveUp) else None


def _has_numeric_flaw(record: Any) -> bool:
    return record.flaw in _NUMERIC or any(trip.flaw in _NUMERIC for trip in record.trips)


def _ailment(error: EngineDead) -> Ailment:
    return Ailment.OUT_OF_MEMORY if isinstance(error, EngineOutOfMemory) else Ailment.LOST


def _no_memory(error: Exception) -> str:
    return (
        f"not enough memory to load the engine ({error}); lower gpu_memory_utilization, "
        "kv_cache_gib or max_model_len, or free the memory that others hold"
    )
