"""Who gets which result, without a broker. Deliveries are numbers here."""

import asyncio
import gc
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from sluicegate.producer.errors import ProducerClosed
from sluicegate.producer.ledger import Held, Ledger, Slot
from sluicegate.schemas import Cancelled, Completed, GenerationResult


def result(job_id: str = "a", attempt: int = 1, text: str = "") -> GenerationResult:
    return GenerationResult(
        job_id=job_id,
        attempt=attempt,
        outcome=Completed(),
        text=text,
        finished_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


class Deferred:
    """What the garbage collector wants done, until somebody does it."""

    def __init__(self) -> None:
        self.work: list[Callable[[], None]] = []

    def __call__(self, work: Callable[[], None]) -> None:
        self.work.append(work)

    def run(self) -> None:
        while self.work:
            self.work.pop(0)()


@pytest.fixture
def deferred() -> Deferred:
    return Deferred()


@pytest.fixture
def ledger(deferred: Deferred) -> Ledger[int]:
    return Ledger(defer=deferred)


def take(ledger: Ledger[int], slot: Slot) -> int:
    held = ledger.lend(slot)
    assert held is not None
    return ledger.done(held)


async def test_a_result_waits_for_its_taker(ledger: Ledger[int]) -> None:
    slot = ledger.slot("a")
    assert ledger.slot("a") is slot
    assert ledger.starving
    assert ledger.arrive(result(), 1) == []
    assert slot.arrived.is_set()
    assert slot.result is None  # nobody has it yet
    assert not ledger.starving
    assert take(ledger, slot) == 1
    assert slot.result == result()
    assert ledger.held == 0
    assert ledger.lend(slot) is None


async def test_a_result_that_came_first_is_found_by_a_later_slot(ledger: Ledger[int]) -> None:
    ledger.arrive(result(), 1)
    assert ledger.orphaned.is_set()
    slot = ledger.slot("a")
    assert slot.arrived.is_set()
    assert ledger.lend_orphan() is None
    assert take(ledger, slot) == 1


async def test_a_redelivery_replaces_the_delivery_that_waits(ledger: Ledger[int]) -> None:
    slot = ledger.slot("a")
    ledger.arrive(result(), 1)
    assert ledger.arrive(result(), 2) == [1]
    assert take(ledger, slot) == 2
    assert ledger.duplicates == 1


async def test_a_redelivery_during_a_loan_is_what_gets_acknowledged(ledger: Ledger[int]) -> None:
    ledger.arrive(result(), 1)
    held = ledger.lend_orphan()
    assert held is not None
    ledger.arrive(result(), 2)
    assert ledger.done(held) == 2


async def test_what_was_settled_is_a_duplicate_but_another_attempt_is_not(
    ledger: Ledger[int],
) -> None:
    slot = ledger.slot("a")
    ledger.arrive(result(), 1)
    take(ledger, slot)
    assert ledger.arrive(result(), 2) == [2]
    assert ledger.arrive(result(attempt=2), 3) == []
    orphan = ledger.lend_orphan()
    assert orphan is not None
    assert orphan.result.attempt == 2


async def test_a_job_published_again_gets_its_second_answer(
    ledger: Ledger[int], deferred: Deferred
) -> None:
    slot = ledger.slot("a")
    ledger.arrive(result(), 1)
    take(ledger, slot)
    del slot
    gc.collect()
    deferred.run()
    again = ledger.slot("a")
    assert again.result is None
    assert ledger.arrive(result(text="second"), 2) == []
    assert take(ledger, again) == 2
    assert again.result == result(text="second")


async def test_a_job_published_after_it_was_called_off_waits_for_its_own_answer(
    ledger: Ledger[int],
) -> None:
    first = ledger.slot("a")
    ledger.want("a")
    called_off = msgspec.structs.replace(result(), outcome=Cancelled())
    ledger.call_off(first, called_off)
    ledger.want("a")
    second = ledger.slot("a")
    assert second.result is None
    assert ledger.arrive(result(text="again"), 1) == []
    assert take(ledger, second) == 1
    assert second.result == result(text="again")
    assert first.result == called_off


async def test_only_so_many_settled_results_are_remembered(deferred: Deferred) -> None:
    ledger: Ledger[int] = Ledger(defer=deferred, settled_kept=2)
    for number, name in enumerate("abc"):
        slot = ledger.slot(name)
        ledger.arrive(result(name), number)
        take(ledger, slot)
        del slot
        deferred.run()
    assert ledger.arrive(result("c"), 9) == [9]
    assert ledger.arrive(result("a"), 10) == []  # forgotten: somebody else's by now


async def test_a_dead_handle_leaves_its_result_to_the_next_who_asks(
    ledger: Ledger[int], deferred: Deferred
) -> None:
    slot = ledger.slot("a")
    ledger.arrive(result(), 1)
    assert ledger.lend_orphan() is None
    del slot
    gc.collect()
    deferred.run()
    assert ledger.orphaned.is_set()
    held = ledger.lend_orphan()
    assert held is not None
    assert ledger.done(held) == 1


async def test_the_dead_handle_of_a_renewed_job_changes_nothing(
    ledger: Ledger[int], deferred: Deferred
) -> None:
    slot = ledger.slot("a")
    del slot
    gc.collect()
    renewed = ledger.slot("a")  # before the loop hears of the death
    deferred.run()
    ledger.arrive(result(), 1)
    assert ledger.lend_orphan() is None
    assert take(ledger, renewed) == 1


async def test_a_loan_given_back_goes_to_whoever_waits(ledger: Ledger[int]) -> None:
    ledger.arrive(result(), 1)
    held = ledger.lend_orphan()
    assert held is not None
    assert ledger.lend_orphan() is None
    slot = ledger.slot("a")
    assert not slot.arrived.is_set()
    ledger.give_back(held)
    assert slot.arrived.is_set()
    assert take(ledger, slot) == 1


async def test_a_loan_dealt_with_answers_whoever_waits(ledger: Ledger[int]) -> None:
    ledger.arrive(result(), 1)
    held = ledger.lend_orphan()
    assert held is not None
    slot = ledger.slot("a")
    ledger.done(held)
    assert slot.arrived.is_set()
    assert slot.result == result()


async def test_two_attempts_of_a_job_are_both_accounted_for(ledger: Ledger[int]) -> None:
    slot = ledger.slot("a")
    ledger.arrive(result(attempt=1), 1)
    ledger.arrive(result(attempt=2), 2)
    assert take(ledger, slot) == 1
    held = ledger.lend_orphan()
    assert held is not None
    assert ledger.done(held) == 2
    assert ledger.held == 0


async def test_the_oldest_orphans_go_where_only_so_many_are_kept(deferred: Deferred) -> None:
    ledger: Ledger[int] = Ledger(defer=deferred, orphans_kept=2)
    assert ledger.arrive(result("a"), 1) == []
    held = ledger.lend_orphan()  # on loan: not to be discarded under its user's hands
    assert ledger.arrive(result("b"), 2) == []
    assert ledger.arrive(result("c"), 3) == [2]
    assert ledger.discarded == 1
    assert held is not None
    assert ledger.done(held) == 1


async def test_closing_ends_every_wait_and_lends_no_more(ledger: Ledger[int]) -> None:
    waiting, arrived = ledger.slot("a"), ledger.slot("b")
    ledger.arrive(result("b"), 1)
    ledger.close(ProducerClosed("closed"))
    assert isinstance(waiting.error, ProducerClosed)
    assert waiting.arrived.is_set()
    assert ledger.lend(arrived) is None
    assert ledger.lend_orphan() is None
    assert isinstance(ledger.slot("new").error, ProducerClosed)
    assert [event async for event in waiting.events.follow()] == []


class LedgerMachine(RuleBasedStateMachine):
    """Whatever happens in whatever order: each delivery is settled once, or still held."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.deferred = Deferred()
        self.ledger: Ledger[int] = Ledger(defer=self.deferred, settled_kept=3)
        self.slots: dict[str, Slot] = {}
        self.loans: list[Held[int]] = []
        self.sent = 0
        self.settled: list[int] = []

    def teardown(self) -> None:
        self.loop.close()

    jobs = st.sampled_from("abc")

    def within_loop(self, work: Callable[[], None]) -> None:
        async def run() -> None:
            work()

        self.loop.run_until_complete(run())

    @rule(job=jobs, attempt=st.integers(1, 2))
    def arrive(self, job: str, attempt: int) -> None:
        def work() -> None:
            self.sent += 1
            self.settled += self.ledger.arrive(result(job, attempt), self.sent)

        self.within_loop(work)

    @rule(job=jobs)
    def ask(self, job: str) -> None:
        self.within_loop(lambda: self.slots.__setitem__(job, self.ledger.slot(job)))

    @rule(job=jobs)
    def drop(self, job: str) -> None:
        self.slots.pop(job, None)

    @rule()
    def collect(self) -> None:
        self.deferred.run()

    @rule(job=jobs)
    def lend(self, job: str) -> None:
        if job in self.slots:
            held = self.ledger.lend(self.slots[job])
            self.loans += [held] if held is not None else []

    @rule()
    def lend_orphan(self) -> None:
        held = self.ledger.lend_orphan()
        if held is not None:
            slot = self.slots.get(held.result.job_id)
            assert slot is None or slot.result is not None
            self.loans.append(held)

    @rule(well=st.booleans())
    def end_loan(self, well: bool) -> None:
        if self.loans:
            held = self.loans.pop(0)

            def work() -> None:
                if well:
                    self.settled.append(self.ledger.done(held))
                else:
                    self.ledger.give_back(held)

            self.within_loop(work)

    @invariant()
    def every_delivery_is_accounted_for_once(self) -> None:
        assert len(set(self.settled)) == len(self.settled)
        assert len(self.settled) + self.ledger.held == self.sent

    @invariant()
    def nobody_waits_for_what_is_there(self) -> None:
        on_loan = {held.result.job_id for held in self.loans}
        for job, slot in self.slots.items():
            free = self.ledger.held and job not in on_loan and self._has(job)
            if slot.result is None and free:
                assert slot.arrived.is_set()

    def _has(self, job: str) -> bool:
        return job in self.ledger._held  # pyright: ignore[reportPrivateUsage]


LedgerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLedgerMachine = LedgerMachine.TestCase
