"""One attempt while it runs: the session in a task of its own, and who waits for it to settle."""

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

from ..producer.subscription import Delivery
from ..schemas import GenerationJob
from .endings import Cancelled, DeadlinePassed, Ending, Faulted, Interrupted, Report, TimedOut
from .event_stream import JobEvents
from .lanes import LaneSlots
from .registry import Key
from .session import GenerationSession

# A timer may ring this much before its time.
_A_MOMENT_S: Final = 0.001


def queued_s(job: GenerationJob, now: datetime) -> float | None:
    """Seconds from publishing to delivery; None where the publisher did not say when. Where an
    attempt was handed back: those in which nobody had it."""
    progress = job.progress
    if progress is not None and progress.spent.queued_s is not None:
        return progress.spent.queued_s + max(0.0, (now - progress.at).total_seconds())
    if job.enqueued_at is None:
        return None
    return max(0.0, (now - job.enqueued_at).total_seconds())


class Attempt:
    """Runs a session under its time limits, and can be ended from outside with an ending of choice.

    `deliveries` are all deliveries of this attempt that still must be settled: a redelivery joins.
    `over` is set when it has been settled.
    """

    def __init__(
        self,
        job: GenerationJob,
        delivery: Delivery,
        session: GenerationSession,
        events: JobEvents,
    ) -> None:
        self.job = job
        self.events = events
        self.deliveries = [delivery]
        self.queued_s = queued_s(job, datetime.now(UTC))
        self.over = asyncio.Event()
        self._session = session
        self._task: asyncio.Task[Any] | None = None
        self._imposed: Ending | None = None
        # Whether it has a slot, and the engine may have seen it.
        self.begun = False

    def __repr__(self) -> str:
        return f"<Attempt {self.job.attempt} of {self.job.id}>"

    @property
    def key(self) -> Key:
        """What makes two deliveries the same attempt."""
        return self.job.id, self.job.attempt

    def join(self, delivery: Delivery) -> None:
        """Settle this delivery, too, with whatever becomes of the attempt."""
        self.deliveries.append(delivery)

    def end(self, ending: Ending) -> None:
        """End the attempt with this ending, unless it has one of its own. The engine's request is
        aborted; calling it again, or late, changes nothing."""
        if self._imposed is None:
            self._imposed = ending
            if self._task is not None:
                self._task.cancel()

    @property
    def ended(self) -> bool:
        """Whether it was ended from outside."""
        return self._imposed is not None

    @property
    def is_cancelled(self) -> bool:
        """Whether that was because the job was called off."""
        return isinstance(self._imposed, Cancelled)

    def report(self, ending: Ending) -> Report:
        """What happened, up to now."""
        return self._session.report(ending, self.queued_s)

    async def run(self, limit_s: float, slots: LaneSlots) -> Report:
        """The report of the attempt, however it ended. Cancelling this is no ending: it raises.

        The time limit begins when a slot is free.
        """
        if not await self._slot(slots):
            return self.report(self._imposed or self._deadline_passed())
        try:
            ending = self._imposed or self._too_late() or await self._within(limit_s)
        finally:
            slots.release(self.job.lane)
        return self.report(ending)

    async def _slot(self, slots: LaneSlots) -> bool:
        """Wait for a free slot; False where the attempt was ended meanwhile, or is too late."""
        if self._imposed is not None:
            return False
        taking = slots.acquire(self.job.lane)
        self._task = asyncio.create_task(taking, name=f"slot for {self.job.id}")
        try:
            await asyncio.wait([self._task], timeout=self._left_s())
        except asyncio.CancelledError:
            if not self._task.cancel() and not self._task.cancelled():
                slots.release(self.job.lane)
            raise
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        return not self._task.cancelled()

    def _left_s(self) -> float | None:
        deadline = self.job.deadline
        if deadline is None:
            return None
        # Not a moment too early: then it would not be too late yet.
        return max(0.0, (deadline - datetime.now(UTC)).total_seconds()) + _A_MOMENT_S

    def _too_late(self) -> Ending | None:
        deadline = self.job.deadline
        if deadline is not None and deadline <= datetime.now(UTC):
            return DeadlinePassed(deadline)
        return None

    def _deadline_passed(self) -> Ending:
        """It was waited for by a clock that can't be set: the other one may not show it yet."""
        deadline = self.job.deadline
        return DeadlinePassed(deadline) if deadline is not None else Interrupted("no slot")

    async def _within(self, limit_s: float) -> Ending:
        self.begun = True
        deadline = self.job.deadline
        left_s = limit_s
        timed_out = False
        if deadline is not None:
            left_s = min(limit_s, (deadline - datetime.now(UTC)).total_seconds())
        until_deadline = left_s < limit_s
        # Whoever cancels this task cancels the session with it; `end` cancels the session alone.
        try:
            async with asyncio.TaskGroup() as group:
                self._task = group.create_task(self._session.run(), name=f"session {self.job.id}")
                try:
                    async with asyncio.timeout(left_s):
                        await asyncio.wait([self._task])
                except TimeoutError:
                    timed_out = True
                    self._task.cancel()
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from failed
        if not self._task.cancelled():
            return self._task.result()
        if self._imposed is not None:
            return self._imposed
        if timed_out:
            return self._deadline_passed() if until_deadline else TimedOut(limit_s)
        return Faulted("the engine cancelled the request by itself")
