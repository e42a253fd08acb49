"""Who waits for which result, what has come, and what was settled. State only: no broker here.

Each change says what to do at the broker (a delivery to acknowledge); doing it is the inbox's job.
"""

import asyncio
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

from ..schemas.errors import SluiceError
from ..schemas.results import Cancelled, GenerationResult
from .event_log import EventLog

SETTLED_KEPT: Final = 10_000

D = TypeVar("D")


class Slot:
    """What is known here of one job. Its handles share it, and it lives as long as one of them."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        self.result: GenerationResult | None = None
        self.error: SluiceError | None = None
        self.events = EventLog()
        self.called_off = False
        # Set when `result`, an untaken result, or `error` is there.
        self.arrived = asyncio.Event()

    def settle(self, result: GenerationResult) -> None:
        self.result = result
        self.error = None
        self.announce()

    def fail(self, error: SluiceError) -> None:
        """End the wait with an error; a result that still comes is stronger."""
        if self.result is None:
            self.error = error
            self.announce()

    def announce(self) -> None:
        self.arrived.set()
        self.events.end_soon()


@dataclass(slots=True, eq=False)
class Held(Generic[D]):
    """A result that has come and was not taken yet, and the delivery to acknowledge then.

    `lent` while the body of a `results()` loop works on it.
    """

    result: GenerationResult
    delivery: D
    lent: bool = False

    @property
    def key(self) -> tuple[str, int]:
        return self.result.job_id, self.result.attempt


class Ledger(Generic[D]):
    """The state of one reply queue's consumer.

    Of results that nobody here holds a handle for, the newest `orphans_kept` are kept (all where
    it is None). Only one thread may use it; but the last handle of a job may die in any: `defer`
    brings that back to this one.
    """

    def __init__(
        self,
        *,
        defer: Callable[[Callable[[], None]], None],
        orphans_kept: int | None = None,
        settled_kept: int = SETTLED_KEPT,
    ) -> None:
        self._defer = defer
        self._orphans_kept = orphans_kept
        self._settled_kept = settled_kept
        self._slots: dict[str, weakref.ref[Slot]] = {}
        self._held: dict[str, dict[int, Held[D]]] = {}
        self._orphans: OrderedDict[str, None] = OrderedDict()
        self._settled: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._called_off: OrderedDict[str, None] = OrderedDict()
        self._closed: SluiceError | None = None
        self.held = 0  # results that have come and were not taken
        self.orphaned = asyncio.Event()
        self.duplicates = 0
        self.discarded = 0

    def __repr__(self) -> str:
        return (
            f"<Ledger {len(self._slots)} jobs awaited, {self.held} results held, "
            f"{self.duplicates} duplicates dropped>"
        )

    @property
    def starving(self) -> bool:
        """Whether someone waits for a result that has not come."""
        return any(
            slot is not None and not slot.arrived.is_set()
            for slot in (ref() for ref in self._slots.values())
        )

    def slot(self, job_id: str) -> Slot:
        """The place of a job: the one its other handles have, or a new one."""
        slot = self._live(job_id)
        if slot is None:
            slot = Slot(job_id)
            self._slots[job_id] = weakref.ref(slot, partial(self._slot_died, job_id))
            if self._closed is not None:
                slot.fail(self._closed)
            self._offer(slot)
        return slot

    def live(self, job_id: str) -> Slot | None:
        """The place of a job that somebody holds a handle for."""
        return self._live(job_id)

    def arrive(self, result: GenerationResult, delivery: D) -> list[D]:
        """Take in a result. Returns the deliveries to acknowledge: duplicates."""
        key = result.job_id, result.attempt
        slot = self._live(result.job_id)
        unanswered = slot is not None and slot.result is None
        attempts = self._held.get(result.job_id, {})
        if (waiting := attempts.get(result.attempt)) is not None:
            # The same again: redelivered after the channel broke, or published twice. Only the
            # newer delivery is sure to be alive.
            older, waiting.delivery = waiting.delivery, delivery
            self.duplicates += 1
            return [older]
        if result.job_id in self._called_off:
            # It has been answered: whatever became of it after all, nobody is told another story.
            self.duplicates += 1
            return [delivery]
        if key in self._settled and not unanswered:
            self._settled.move_to_end(key)
            self.duplicates += 1
            return [delivery]
        self._held.setdefault(result.job_id, {})[result.attempt] = Held(result, delivery)
        self.held += 1
        if slot is not None and unanswered:
            # Not for whoever takes what nobody asks for: an earlier one of the job may lie there.
            self._orphans.pop(result.job_id, None)
            slot.announce()
            return []
        self._orphan(result.job_id)
        return self._discard_surplus()

    def call_off(self, slot: Slot, answer: GenerationResult) -> None:
        """Answer for a job that was called off, unless its result is here already. From then on
        nothing else of it counts."""
        if slot.result is not None or self._held.get(slot.job_id):
            return
        self._called_off[slot.job_id] = None
        while len(self._called_off) > self._settled_kept:
            self._called_off.popitem(last=False)
        slot.settle(answer)

    def want(self, job_id: str) -> None:
        """A job of this id is published: what was called off before was another."""
        self._called_off.pop(job_id, None)
        if (slot := self._live(job_id)) is not None:
            slot.called_off = False
            if slot.result is not None and isinstance(slot.result.outcome, Cancelled):
                # Its handles have their answer; this job has none yet.
                del self._slots[job_id]

    def lend(self, slot: Slot) -> Held[D] | None:
        """A job's result, to be worked on and then `done` or given back; None where none is."""
        # Once closed it could not be acknowledged any more: let it go back to the queue.
        held = self._free(slot.job_id) if slot.result is None and self._closed is None else None
        if held is not None:
            held.lent = True
        elif slot.result is None and slot.error is None:
            slot.arrived.clear()  # Another has it on loan.
        return held

    def lend_orphan(self) -> Held[D] | None:
        """The oldest result that nobody holds a handle for, as `lend`."""
        if self._closed is None:
            for job_id in self._orphans:
                if (held := self._free(job_id)) is not None:
                    held.lent = True
                    return held
            self.orphaned.clear()
        return None

    def give_back(self, held: Held[D]) -> None:
        """It was not dealt with: whoever comes next may have it."""
        held.lent = False
        slot = self._live(held.result.job_id)
        if slot is not None:
            self._offer(slot)
        elif held.result.job_id in self._held:
            self._orphan(held.result.job_id)

    def done(self, held: Held[D]) -> D:
        """It was dealt with. Returns the delivery to acknowledge: perhaps another than at first."""
        self._settle(held)
        slot = self._live(held.result.job_id)
        if slot is not None and slot.result is None:
            slot.settle(held.result)
        if held.result.job_id in self._held:  # Another attempt's; the job has its answer.
            self._orphan(held.result.job_id)
        return held.delivery

    @property
    def closed(self) -> bool:
        return self._closed is not None

    def close(self, error: SluiceError) -> None:
        """End every wait with `error`."""
        self._closed = error
        for ref in list(self._slots.values()):
            if (slot := ref()) is not None:
                slot.fail(error)
                slot.events.end()
        self.orphaned.set()

    def _live(self, job_id: str) -> Slot | None:
        ref = self._slots.get(job_id)
        return None if ref is None else ref()

    def _free(self, job_id: str) -> Held[D] | None:
        return next((held for held in self._held.get(job_id, {}).values() if not held.lent), None)

    def _offer(self, slot: Slot) -> None:
        """What came before anybody asked is the slot's now."""
        if slot.result is None and self._free(slot.job_id) is not None:
            self._orphans.pop(slot.job_id, None)
            slot.announce()

    def _settle(self, held: Held[D]) -> None:
        job_id, attempt = held.key
        attempts = self._held.get(job_id, {})
        if attempts.pop(attempt, None) is not None:
            self.held -= 1
        if not attempts:
            self._held.pop(job_id, None)
            self._orphans.pop(job_id, None)
        self._settled[held.key] = None
        self._settled.move_to_end(held.key)
        while len(self._settled) > self._settled_kept:
            self._settled.popitem(last=False)

    def _orphan(self, job_id: str) -> None:
        self._orphans[job_id] = None
        self.orphaned.set()

    def _discard_surplus(self) -> list[D]:
        surplus: list[D] = []
        if self._orphans_kept is not None:
            while len(self._orphans) > self._orphans_kept:
                free = (self._free(job_id) for job_id in self._orphans)
                oldest = next((held for held in free if held is not None), None)
                if oldest is None:
                    break
                self._settle(oldest)
                self.discarded += 1
                surplus.append(oldest.delivery)
        return surplus

    def _slot_died(self, job_id: str, ref: "weakref.ref[Slot]") -> None:
        # Called by the garbage collector, in whatever thread dropped the last handle.
        self._defer(lambda: self._forget(job_id, ref))

    def _forget(self, job_id: str, ref: "weakref.ref[Slot]") -> None:
        if self._slots.get(job_id) is ref:
            del self._slots[job_id]
        if job_id in self._held and self._live(job_id) is None:
            self._orphan(job_id)
