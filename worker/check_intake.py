"""What becomes of a candidate: refused, joined, answered again, or examined and settled."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final

from ..producer.subscription import Delivery
from ..rollback import RetryTable
from ..schemas import Candidate, Finished, InvalidMessage, Judged, Verdict, decode, peek
from . import logs, metrics
from .cancellations import Cancellations
from .event_stream import EventStream
from .examination import Examination
from .examiner import Examiner, Waiting
from .observing import observe_end, outcome_of
from .publications import Identity, Settlement, Verb, bury
from .registry import Registry
from .settler import Settler
from .suspects import GATHER_S, parts
from .tracing import TRACING
from .verdict_settlement import plan_cancelled, plan_expired, plan_verdict

log = logging.getLogger(__name__)


# The name of the thread that looks at texts begins so.
EXAMINER: Final = "examiner"
# Of texts in a batch, as far as they are scored: a minute's work of a slow core, so that a backlog
# of long texts is not taken for a check that hangs.
_BATCH_CHARACTERS: Final = 50_000


class _Stuck(Exception):
    """A batch did not come back."""


class CheckIntake:
    """Owns every candidate of this checker. One batch is examined at a time, in a thread, while the
    verdicts of the one before are settled."""

    def __init__(  # noqa: PLR0913 - its parts, each from another maker
        self,
        group: asyncio.TaskGroup,
        examiner: Examiner,
        who: Identity,
        settler: Settler,
        events: EventStream,
        retries: RetryTable,
        *,
        batch: int,
        wait_s: float,
        timeout_s: float,
        on_stuck: Callable[[], None],
        cancellations: Cancellations | None = None,
    ) -> None:
        self._group = group
        self._examiner = examiner
        self._who = who
        self._settler = settler
        self._events = events
        self._retries = retries
        self._batch = batch
        self._wait_s = wait_s
        self._timeout_s = timeout_s
        self._on_stuck = on_stuck
        self._cancellations = cancellations if cancellations is not None else Cancellations()
        self._registry: Registry[Examination] = Registry()
        self._queue: asyncio.Queue[Examination] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1, EXAMINER)
        self._closed = False
        self._interrupted = False
        self._late: list[Delivery] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._nothing_left = asyncio.Event()
        self._nothing_left.set()
        self._under_way = 0

    def __repr__(self) -> str:
        return f"<CheckIntake {self._registry!r}>"

    def take(self, delivery: Delivery) -> None:
        """Decide what a delivery is. Never waits."""
        if self._closed:
            self._late.append(delivery)
            return
        try:
            candidate = decode(delivery.body, Candidate)
        except InvalidMessage as error:
            self._start(self._bury(delivery, error), "bury")
            return
        examination = Examination(candidate, delivery)
        same = self._registry.running(examination.key)
        if same is not None:
            metrics.DUPLICATES.inc()
            if same.candidate.job.reply_to == candidate.job.reply_to:
                same.deliveries.append(delivery)
            else:
                self._start(self._answer_after(same, examination), "answer after")
        elif (settled := self._registry.settled(examination.key)) is not None and (
            not settled.is_cancelled or self._is_unwanted(candidate)
        ):
            # But for one that was published after its id was called off: that is another job.
            metrics.DUPLICATES.inc()
            self._start(self._answer_again(examination), "answer again")
        else:
            self._registry.begin(examination)
            self._begin_one()
            if self._is_unwanted(candidate):
                self._drop(examination)
            else:
                self._queue.put_nowait(examination)

    async def run(self) -> None:
        """Examine what comes, batch by batch, until cancelled or stuck."""
        try:
            while True:
                await self._examine_apart(await self._gather())
        except _Stuck:
            self._on_stuck()
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def cancel(self, job_id: str) -> None:
        """A job was called off: what waits here of it is dropped now; one that is looked at is
        dropped when that is over."""
        for each in self._registry.all_running():
            if each.candidate.job.id == job_id and each.waits and self._is_unwanted(each.candidate):
                self._drop(each)

    def _is_unwanted(self, candidate: Candidate) -> bool:
        """Called off, before anybody was given the text."""
        job = candidate.job
        return job.checks == "block" and self._cancellations.covers(job.id, job.enqueued_at)

    def _drop(self, each: Examination) -> None:
        each.waits = False
        settlement = plan_cancelled(self._who, each.candidate, each.deliveries[0])
        self._settle_soon(each, settlement, None)

    def close(self) -> None:
        """Begin nothing more. What is still delivered waits for `hand_back`."""
        self._closed = True

    async def hand_back(self) -> None:
        """Return what came after `close`."""
        await self._settler.settle(Settlement((), Verb.NACK), self._late)

    async def idle(self, timeout_s: float) -> bool:
        """Wait until nothing is under way; False when that takes longer."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._nothing_left.wait()
        except TimeoutError:
            return False
        return True

    def interrupt(self, why: str) -> None:
        """Hand back what waits; a batch that is being looked at is settled when it is done."""
        log.info("handing back %d candidates: %s", self._queue.qsize(), why)
        self._interrupted = True
        while not self._queue.empty():
            self._hand_back(self._queue.get_nowait())

    def _hand_back(self, each: Examination) -> None:
        if each.waits:
            each.waits = False
            self._start(self._return(each), "hand back")

    def abandon(self) -> None:
        """Let go of everything, unsettled: it goes back when the channels close."""
        for task in self._tasks:
            task.cancel()

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._begin_one()
        task = self._group.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._end_one()

    def _begin_one(self) -> None:
        self._under_way += 1
        metrics.IN_FLIGHT.inc()
        self._nothing_left.clear()

    def _end_one(self) -> None:
        self._under_way -= 1
        metrics.IN_FLIGHT.dec()
        if not self._under_way:
            self._nothing_left.set()

    async def _gather(self) -> list[Examination]:
        """The next batch: what waits, and what comes within a moment. Those under suspicion are
        examined one by one, in an order among all of them, so they fill no batch."""
        batch = [await self._next()]
        first = batch[0].standing()
        room = self._batch - (not first.suspect)
        characters = batch[0].characters
        try:
            async with asyncio.timeout(max(self._wait_s, GATHER_S if first.suspect else 0.0)):
                while room and characters < _BATCH_CHARACTERS:
                    batch.append(await self._next())
                    room -= not batch[-1].standing().suspect
                    characters += batch[-1].characters
        except TimeoutError:
            pass
        return batch

    async def _next(self) -> Examination:
        """The next that was not dropped while it waited: of such a one nothing is left."""
        while not (each := await self._queue.get()).waits:
            pass
        return each

    async def _examine_apart(self, batch: Sequence[Examination]) -> None:
        """All at once, but for those on which checkers ended before."""
        todo = deque(parts([each for each in batch if each.waits], Examination.standing))
        try:
            while todo:
                part = todo.popleft()
                if self._interrupted:
                    for each in part:
                        self._hand_back(each)
                    continue
                await self._examine(part)
                if todo:
                    await asyncio.gather(*(each.over.wait() for each in part))
        except _Stuck:
            for part in todo:
                for each in part:
                    if each.waits:
                        self._forget(each)
            raise

    async def _examine(self, batch: Sequence[Examination]) -> None:
        wanted: list[Examination] = []
        for each in batch:
            if not each.waits:
                continue
            each.waits = False
            deadline = each.candidate.job.deadline
            blocks = each.candidate.job.checks == "block"
            if blocks and deadline is not None and deadline <= datetime.now(UTC):
                delivery = each.deliveries[0]
                settlement = plan_expired(self._who, each.candidate, delivery, deadline)
                self._settle_soon(each, settlement, None)
            else:
                wanted.append(each)
        if wanted:
            for each, verdict in zip(wanted, await self._verdicts(wanted), strict=True):
                self._settle_soon(each, self._plan(each, verdict), verdict)

    async def _verdicts(self, wanted: Sequence[Examination]) -> Sequence[Verdict | None]:
        """None for each where the examiner itself failed."""
        metrics.CHECK_BATCH.observe(len(wanted))
        waiting = [Waiting(each.candidate, each.since) for each in wanted]
        loop = asyncio.get_running_loop()
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await loop.run_in_executor(self._thread, self._examiner.examine, waiting)
        except TimeoutError:
            # A thread can't be stopped. The process must go, and the broker counts it against
            # these candidates: one that does it every time ends in the dead letters.
            log.exception("%d candidates took more than %g s", len(wanted), self._timeout_s)
            for each in wanted:
                self._forget(each)
            raise _Stuck from None
        except Exception:
            log.exception("a batch could not be examined")
            return [None] * len(wanted)
        finally:
            metrics.CHECK_SECONDS.observe(time.monotonic() - began)

    def _plan(self, each: Examination, verdict: Verdict | None) -> Settlement:
        if verdict is None:
            return Settlement((), Verb.REJECT)
        delivery = max(each.deliveries, key=lambda one: one.times_returned)
        if self._is_unwanted(each.candidate):
            return plan_cancelled(self._who, each.candidate, delivery)
        try:
            now = datetime.now(UTC)
            rules = self._examiner.rules_for(each.candidate.job)
            return plan_verdict(
                self._who, each.candidate, delivery, verdict, self._retries, now, rules
            )
        except Exception:
            # A fault of our own, and this candidate's alone. The delivery limit ends it.
            log.exception("the verdict can't be settled")
            return Settlement((), Verb.REJECT)

    def _settle_soon(
        self, each: Examination, settlement: Settlement, verdict: Verdict | None
    ) -> None:
        self._start(self._settle(each, settlement, verdict), f"settle {each.candidate.job.id}")

    async def _settle(
        self, each: Examination, settlement: Settlement, verdict: Verdict | None
    ) -> None:
        try:
            with logs.about(*each.key):
                if settlement.over:
                    self._registry.remember(each.key, settlement)
                done = await self._settler.settle(settlement, each.deliveries)
                if done.over:
                    self._registry.remember(each.key, done.delivered() if done.sent else done)
                if done.sent and done.over:
                    self._tell(each, done, verdict)
                    count_verdict(each.candidate, done, verdict)
        finally:
            self._forget(each)

    def _forget(self, each: Examination) -> None:
        self._registry.end(each)
        each.over.set()
        self._end_one()

    def _tell(self, each: Examination, settlement: Settlement, verdict: Verdict | None) -> None:
        events = self._events.of(each.candidate.job)
        if verdict is not None:
            events.emit(Judged(verdict=verdict))
        if settlement.outcome is not None:
            events.emit(Finished(outcome=settlement.outcome))
        elif settlement.event is not None and not isinstance(settlement.event, Judged):
            events.emit(settlement.event)

    async def _return(self, each: Examination) -> None:
        await self._settle(each, Settlement((), Verb.NACK), None)

    async def _bury(self, delivery: Delivery, error: InvalidMessage) -> None:
        log.warning("a candidate can't be read, it goes to the dead letters: %s", error)
        with logs.about(peek(delivery.body)[0] or "unreadable", 1):
            await self._settler.settle(bury(self._who, delivery, error), [delivery])
        metrics.VERDICTS.labels(outcome="undecodable", mode="").inc()

    async def _answer_after(self, same: Examination, other: Examination) -> None:
        """A duplicate that somebody else waits for: the same verdict, for another reply key."""
        await same.over.wait()
        await self._answer_again(other)

    async def _answer_again(self, other: Examination) -> None:
        remembered = self._registry.settled(other.key)
        with logs.about(*other.key):
            if remembered is None:
                await self._settler.settle(Settlement((), Verb.NACK), other.deliveries)
                return
            reply_to = other.candidate.job.reply_to
            done = await self._settler.settle(remembered.again(reply_to), other.deliveries)
            if done.sent and not remembered.sent:
                # It was settled, but could not be told until now.
                self._registry.remember(other.key, remembered.delivered())
                self._tell(other, remembered, None)


def count_verdict(candidate: Candidate, settlement: Settlement, verdict: Verdict | None) -> None:
    """Count a verdict whose settlement is out, and say it in a line."""
    mode = candidate.job.checks
    outcome = verdict.outcome if verdict is not None else "none"
    metrics.VERDICTS.labels(outcome=outcome, mode=mode).inc()
    if settlement.outcome is not None:
        metrics.JOBS.labels(outcome=outcome_of(settlement.outcome)).inc()
        observe_end(candidate.job, settlement.outcome)
    if verdict is None:
        return
    TRACING.check(candidate.job, verdict, candidate.result.attempt)
    for record in verdict.checks:
        if record.outcome in ("rejected", "failed"):
            flaw = record.flaw.value if record.flaw is not None else ""
            # Names of own rules come from jobs, and are no closed set.
            kind = record.check.partition(":")[0]
            metrics.CHECK_FINDINGS.labels(check=kind, flaw=flaw).inc()
            log.info("%s: %s", record.check, record.detail)
    log.info("%s after %.2f s (%s)", verdict.outcome, verdict.seconds, mode)
