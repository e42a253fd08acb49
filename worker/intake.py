"""What becomes of a delivery: refused, joined to an attempt, answered again, or run and settled."""

import asyncio
import logging
import random
import secrets
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..producer.subscription import Delivery
from ..rollback import RetryTable, pass_on
from ..schemas import (
    Accepted,
    Finished,
    GenerationJob,
    InvalidMessage,
    Lane,
    Reasoned,
    Reasoning,
    decode,
    peek,
)
from ..schemas import Interrupted as InterruptedEvent
from . import logs, metrics
from .attempt import Attempt
from .cancellations import Cancellations
from .endings import Cancelled, Ending, EngineLost, Faulted, Interrupted, Report
from .engine import Engine
from .event_stream import EventStream, JobEvents
from .gating import Gating
from .lanes import LaneSlots
from .observing import detail, observe
from .publications import Identity, Settlement, Verb, bury
from .registry import Key, Registry
from .session import GenerationSession
from .settlement import Moment, passed_on, plan
from .settler import Settler
from .suspects import Standing, Turns

log = logging.getLogger(__name__)


class Intake:
    """Owns every attempt of this worker, each in a task of the group it is given."""

    def __init__(  # noqa: PLR0913 - its parts, each from another maker
        self,
        group: asyncio.TaskGroup,
        engine: Engine,
        who: Identity,
        settler: Settler,
        events: EventStream,
        *,
        shares: Mapping[Lane, int],
        attempt_timeout_s: float,
        gating: Gating,
        retries: RetryTable,
        on_engine_lost: Callable[[str], None],
        on_ended: Callable[[GenerationJob, Report], None],
        cancellations: Cancellations | None = None,
    ) -> None:
        self._group = group
        self._engine = engine
        self._who = who
        self._settler = settler
        self._events = events
        # After a lost connection the broker fills the slots again while the attempts that it took
        # away still run; and what is borrowed of another lane's share may be wanted back.
        self._slots = LaneSlots(shares)
        self._attempt_timeout_s = attempt_timeout_s
        self._gating = gating
        self._retries = retries
        self._registry: Registry[Attempt] = Registry()
        self._turns = Turns(attempt_timeout_s)
        self._on_engine_lost = on_engine_lost
        self._on_ended = on_ended
        # Keys of attempts that run now, and ran before when an engine was lost.
        self._accused: set[Key] = set()
        self._cancellations = cancellations if cancellations is not None else Cancellations()
        self._closed = False
        self._late: list[Delivery] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Intake {self._registry!r}>"

    def take(self, delivery: Delivery) -> None:
        """Decide what a delivery is, and start the task that deals with it. Never waits."""
        if self._closed:
            self._late.append(delivery)
            return
        try:
            job = decode(delivery.body, GenerationJob)
        except InvalidMessage as error:
            self._start(self._bury(delivery, error), "bury")
            return
        key = (job.id, job.attempt)
        if (attempt := self._registry.running(key)) is not None:
            if attempt.is_cancelled and not self._is_cancelled(job):
                self._start(self._take_after(attempt, delivery), f"take after {job.id}")
                return
            metrics.DUPLICATES.inc()
            if attempt.job.reply_to == job.reply_to:
                attempt.join(delivery)
            else:
                self._start(self._answer_after(attempt, job, delivery), f"answer after {job.id}")
        elif (settled := self._registry.settled(key)) is not None and (
            not settled.is_cancelled or self._is_cancelled(job)
        ):
            metrics.DUPLICATES.inc()
            self._start(self._answer_again(job, delivery), f"answer again {job.id}")
        elif not self._is_cancelled(job) and (
            (elsewhere := pass_on(job, self._who.worker)) is not None
        ):
            settlement = passed_on(self._who, elsewhere)
            self._start(self._pass_on(job, delivery, settlement), f"pass on {job.id}")
        else:
            # Entered here and now: the next delivery may be of the same attempt.
            attempt = self._begin(job, delivery)
            self._start(self._attempt(attempt), f"attempt {job.id}")

    def cancel(self, job_id: str) -> None:
        """A job was called off: end it, if it is here. Its request to the engine is aborted."""
        for attempt in self._registry.all_running():
            if attempt.job.id == job_id and self._is_cancelled(attempt.job):
                attempt.end(Cancelled())

    def _is_cancelled(self, job: GenerationJob) -> bool:
        return self._cancellations.covers(job.id, job.enqueued_at)

    def close(self) -> None:
        """Begin nothing more. What is still delivered waits for `hand_back`: given back at once, it
        would come again at once, for as long as the consumers live."""
        self._closed = True

    async def hand_back(self) -> None:
        """Return what came after `close`."""
        late, self._late = self._late, []
        await self._settler.settle(Settlement((), Verb.NACK), late)

    def reopen(self) -> None:
        """Begin again, after `close`."""
        self._closed = False

    @property
    def suspects(self) -> int:
        """How many attempts run now that ran before when an engine was lost."""
        return len(self._accused)

    async def idle(self, timeout_s: float) -> bool:
        """Wait until nothing runs; False when that takes longer than `timeout_s` seconds."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        return not self._tasks

    def abandon(self) -> None:
        """Let go of everything, unsettled: it goes back when the channels close."""
        for task in self._tasks:
            task.cancel()

    def interrupt(self, why: str) -> None:
        """End every attempt that still generates; their jobs go back unspent."""
        self.end_all(Interrupted(why), Interrupted(why))

    def end_all(self, running: Ending, waiting: Ending) -> None:
        """End every attempt: those that the engine has, and those that wait for it."""
        for attempt in self._registry.all_running():
            attempt.end(running if attempt.begun else waiting)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self._group.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _begin(self, job: GenerationJob, delivery: Delivery) -> Attempt:
        if job.reasoning != Reasoning() and self._engine.info.tags is None:
            log.info(
                "job %s asks for reasoning, of which this worker knows nothing: set "
                "reasoning_parser, or reasoning_start and reasoning_end",
                job.id,
            )
        progress = job.progress
        events = self._events.of(job, progress.seq if progress is not None else 0)
        # What the checker may still refuse is no text to stream.
        streams = job.stream and job.checks != "block"
        session = GenerationSession(
            job,
            self._engine,
            worker=self._who.worker,
            nonce=secrets.token_hex(4),
            gating=self._gating,
            release=events.delta if streams else None,
            release_reasoning=events.thought if streams else None,
            on_start_over=lambda _why: events.emit(Accepted()),
        )
        attempt = Attempt(job, delivery, session, events)
        if self._is_cancelled(job):
            # Ended before it asks the engine for anything.
            attempt.end(Cancelled())
        self._registry.begin(attempt)
        return attempt

    async def _attempt(self, attempt: Attempt) -> None:
        try:
            with logs.about(*attempt.key), metrics.IN_FLIGHT.track_inprogress():
                if not attempt.ended:
                    attempt.events.emit(Accepted(kept=_kept(attempt.job)))
                losses = attempt.job.lineage.losses(attempt.job.attempt)
                returned = attempt.deliveries[0].times_returned
                async with self._turns.turn(Standing(attempt.key, returned, losses)):
                    if losses:
                        self._accused.add(attempt.key)
                    report = await self._run(attempt)
                    self._accused.discard(attempt.key)
                    self._on_ended(attempt.job, report)
                    await self._settle(attempt, report)
        finally:
            self._accused.discard(attempt.key)
            self._registry.end(attempt)
            attempt.over.set()

    async def _run(self, attempt: Attempt) -> Report:
        try:
            return await attempt.run(self._attempt_timeout_s, self._slots)
        except Exception as error:
            # A fault of our own. The delivery limit ends it, with the job in the dead letters.
            log.exception("the attempt failed unexpectedly")
            return attempt.report(Faulted(f"{type(error).__name__}: {error}"))

    async def _settle(self, attempt: Attempt, report: Report) -> None:
        events = attempt.events
        if isinstance(report.ending, EngineLost):
            # Before anything is settled: the next delivery would fail as fast as it came.
            self.close()
            self._on_engine_lost(report.ending.detail)
        settlement = self._plan(attempt, _numbered(report, events))
        if settlement.over:
            self._registry.remember(attempt.key, settlement)
        done = await self._settler.settle(settlement, attempt.deliveries)
        settled = done.sent
        if done.over:
            self._registry.remember(attempt.key, done.delivered() if settled else done)
        if settled and settlement.over and report.record.reasoning is not None:
            events.emit(Reasoned(record=report.record.reasoning))
        if settled and settlement.outcome is not None:
            events.emit(Finished(outcome=settlement.outcome))
        elif settled and settlement.event is not None:
            events.emit(settlement.event)
        elif settlement.verb is not Verb.ACK or not settled:
            back = InterruptedEvent(detail=detail(report.ending), kept=_kept(attempt.job))
            events.emit(back)
        observe(report, settlement, attempt.job if settled else None)

    def _plan(self, attempt: Attempt, report: Report) -> Settlement:
        # The newest delivery knows best how often the broker has had it back.
        delivery = max(attempt.deliveries, key=lambda each: each.times_returned)
        try:
            moment = Moment(datetime.now(UTC), random.random())  # noqa: S311  no secret
            return plan(self._who, attempt.job, delivery, report, self._retries, moment)
        except Exception:
            # A fault of our own, and this job's alone.
            log.exception("the attempt can't be settled")
            return Settlement((), Verb.REJECT)

    async def _bury(self, delivery: Delivery, error: InvalidMessage) -> None:
        log.warning("a message of %s can't be read, it goes to the dead: %s", delivery.queue, error)
        settlement = bury(self._who, delivery, error)
        with logs.about(peek(delivery.body)[0] or "unreadable", 1):
            await self._settler.settle(settlement, [delivery])
        metrics.JOBS.labels(outcome="undecodable").inc()

    async def _pass_on(
        self, job: GenerationJob, delivery: Delivery, settlement: Settlement
    ) -> None:
        with logs.about(job.id, job.attempt):
            done = await self._settler.settle(settlement, [delivery])
            if done.sent and settlement.event is not None:
                self._events.of(job).emit(settlement.event)
                log.info("passed on: the engine failed here before")

    async def _take_after(self, attempt: Attempt, delivery: Delivery) -> None:
        """What was published after its id was called off is another job, and no duplicate."""
        await attempt.over.wait()
        self.take(delivery)

    async def _answer_after(self, attempt: Attempt, job: GenerationJob, delivery: Delivery) -> None:
        """A duplicate that somebody else waits for: the same text, on another reply key."""
        await attempt.over.wait()
        await self._answer_again(job, delivery)

    async def _answer_again(self, job: GenerationJob, delivery: Delivery) -> None:
        remembered = self._registry.settled((job.id, job.attempt))
        with logs.about(job.id, job.attempt):
            if remembered is None:
                await self._settler.settle(Settlement((), Verb.NACK), [delivery])
                return
            done = await self._settler.settle(remembered.again(job.reply_to), [delivery])
            if done.sent and not remembered.sent:
                # It was settled, but could not be told until now.
                self._registry.remember((job.id, job.attempt), remembered.delivered())
                if remembered.outcome is not None:
                    self._events.of(job).emit(Finished(outcome=remembered.outcome))


def _kept(job: GenerationJob) -> int:
    """How many tokens of this attempt came with the job."""
    return job.progress.kept if job.progress is not None else 0


def _numbered(report: Report, events: JobEvents) -> Report:
    """The report, with the number that the next worker's events begin with: the next one of this
    worker's says that the attempt was interrupted."""
    if report.progress is None:
        return report
    progress = msgspec.structs.replace(report.progress, seq=events.next + 1)
    return msgspec.structs.replace(report, progress=progress)
