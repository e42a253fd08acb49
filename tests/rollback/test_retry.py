"""Whether and when a job is tried again: bounds, waits, workers that pass it on."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.rollback import (
    NoRetry,
    Retry,
    RetryLimits,
    back_off,
    decide_retry,
    default_retry_table,
    flaws_of,
    pass_on,
    read_retry_table,
)
from sluicegate.schemas import (
    CheckRecord,
    FaultRecord,
    Flaw,
    GenerationJob,
    Level,
    Lineage,
    Mutation,
    TripRecord,
    Verdict,
)
from sluicegate.schemas.topology import RUNGS

from .retries import NOW, after, attempt_of, flaw_sets, job_of, jobs, mutation_of, retried, valid


def reason(decided: Retry | NoRetry) -> str:
    return decided.reason if isinstance(decided, NoRetry) else "retry"


@settings(deadline=None, max_examples=60)
@given(jobs, st.data())
def test_a_poison_job_has_exactly_its_attempts(job: GenerationJob, data: st.DataObject) -> None:
    flaws = st.sampled_from([flaw for flaw in Flaw if flaw != Flaw.CHECK_FAILED])
    numbers = [job.attempt]
    while isinstance(
        decided := after(job, data.draw(flaws), tokens=job.sampling.max_tokens), Retry
    ):
        job = decided.job
        numbers.append(job.attempt)
        assert decided.rung == "5s"
        assert valid(job)
    assert numbers == list(range(1, job.max_attempts + 1))
    assert decided.reason == "exhausted"
    assert decided.sentence


def test_a_job_that_was_sent_back_has_its_attempts_anew() -> None:
    job = msgspec.structs.replace(job_of(attempts=2), first_attempt=4, attempt=4)
    again = retried(job, Flaw.LOOP)
    assert again.attempt == 5
    assert reason(after(again, Flaw.LOOP)) == "exhausted"


def test_the_lineage_grows_by_the_attempt_and_the_job_stays_as_it_was_asked() -> None:
    job = job_of(temperature=0.5)
    again = retried(job, Flaw.IRRELEVANT)
    assert [record.attempt for record in again.lineage.attempts] == [1]
    assert again.sampling == job.sampling
    assert (again.id, again.attempt, again.first_attempt) == ("job-1", 2, 1)


def test_nothing_is_tried_past_the_deadline() -> None:
    for early, said in ((-1, "deadline"), (0, "deadline"), (1, "retry")):
        job = msgspec.structs.replace(job_of(), deadline=NOW + timedelta(seconds=early))
        assert reason(after(job, Flaw.LOOP)) == said


def test_the_last_attempt_is_exhausted_whatever_else_it_is() -> None:
    job = msgspec.structs.replace(job_of(attempts=1), deadline=NOW - timedelta(seconds=1))
    assert reason(after(job, Flaw.LOOP)) == "exhausted"


def test_tokens_are_bounded_over_all_attempts_those_thrown_away_included() -> None:
    job = job_of(attempts=3, max_tokens=2000)
    bound = 4 * 2000 * 3
    assert reason(after(job, Flaw.LOOP, tokens=2000, wasted=bound - 2001)) == "retry"
    assert reason(after(job, Flaw.LOOP, tokens=2000, wasted=bound - 2000)) == "tokens"
    job = retried(job, Flaw.LOOP, tokens=2000, wasted=bound - 2001)
    assert reason(after(job, Flaw.LOOP, tokens=1)) == "tokens"


def test_short_texts_may_be_mended_as_often_as_long_ones() -> None:
    assert reason(after(job_of(max_tokens=16), Flaw.LOOP, tokens=16, wasted=2 * 2048)) == "retry"


def test_an_operators_limit_of_tokens_holds_and_none_is_none() -> None:
    job = job_of()
    lineage = Lineage(attempts=(attempt_of(job, Flaw.LOOP, tokens=500),))
    tight = read_retry_table("[limits]\ntokens = 500\n")
    assert reason(decide_retry(job, lineage, NOW, tight)) == "tokens"
    spent = Lineage(attempts=(attempt_of(job, Flaw.LOOP, wasted=10**8),))
    free = read_retry_table("[limits]\ntokens_times = 0\n")
    assert reason(decide_retry(job, spent, NOW, free)) == "retry"


def test_what_was_spent_before_a_person_sent_it_back_does_not_count() -> None:
    old = attempt_of(job_of(), Flaw.LOOP, wasted=10**8)
    job = msgspec.structs.replace(
        job_of(), first_attempt=2, attempt=2, lineage=Lineage(attempts=(old,))
    )
    assert reason(after(job, Flaw.LOOP)) == "retry"


def test_a_check_that_breaks_twice_breaks_by_itself() -> None:
    job = retried(job_of(attempts=9), Flaw.CHECK_FAILED)
    decided = after(job, Flaw.CHECK_FAILED)
    assert isinstance(decided, NoRetry)
    assert (decided.reason, "requeue" in decided.sentence) == ("pointless", True)
    # Broken once, wrong for another reason since: it may break once more, not twice.
    other = retried(job, Flaw.LOOP)
    assert reason(after(other, Flaw.CHECK_FAILED)) == "pointless"
    assert reason(after(other, Flaw.LOOP)) == "retry"


def test_a_row_without_retries_is_not_tried_again() -> None:
    table = read_retry_table("[mine]\nflaws = ['own_rule']\nretries = 0\ndetail = 'by law'\n")
    job = job_of()
    lineage = Lineage(attempts=(attempt_of(job, Flaw.OWN_RULE),))
    assert decide_retry(job, lineage, NOW, table) == NoRetry(reason="pointless", sentence="by law")


def test_a_retry_follows_an_attempt() -> None:
    with pytest.raises(ValueError, match="the lineage has none"):
        decide_retry(job_of(), Lineage(), NOW, default_retry_table())


@settings(deadline=None)
@given(jobs, flaw_sets)
def test_the_same_gives_the_same(job: GenerationJob, flaws: tuple[Flaw, ...]) -> None:
    assert after(job, *flaws) == after(job, *flaws)


def test_the_flaws_of_an_attempt_are_those_of_gate_record_and_checks() -> None:
    def check(flaw: Flaw, outcome: str) -> CheckRecord:
        return msgspec.convert({"check": "c", "outcome": outcome, "flaw": flaw}, CheckRecord)

    def trip(flaw: Flaw, action: str) -> TripRecord:
        data = {"segment": 0, "gate": "g", "level": Level.TEXT, "flaw": flaw, "tokens": (0, 1)}
        rest = {"chars": (0, 1), "score": 1.0, "threshold": 1.0, "action": action}
        return msgspec.convert({**data, **rest}, TripRecord)

    record = msgspec.structs.replace(
        attempt_of(job_of(), Flaw.IRRELEVANT),
        verdict=Verdict(
            outcome="rejected",
            checks=(
                check(Flaw.TOO_SHORT, "passed"),
                check(Flaw.IRRELEVANT, "rejected"),
                check(Flaw.WRONG_LANGUAGE, "rejected"),
                check(Flaw.CHECK_FAILED, "failed"),
            ),
            checker="c",
            at=NOW,
        ),
        trips=(trip(Flaw.MOJIBAKE, "rollback"), trip(Flaw.LOOP, "give_up")),
    )
    assert flaws_of(record) == (
        *(Flaw.IRRELEVANT, Flaw.WRONG_LANGUAGE, Flaw.CHECK_FAILED, Flaw.LOOP),
    )


FAULT = FaultRecord(attempt=1, worker="w1", at=NOW, detail="the engine died")


def test_faults_climb_the_rungs_and_spend_no_attempt() -> None:
    job, rungs = job_of(attempts=1), list[str]()
    while isinstance(decided := back_off(job, FAULT, NOW, 0.5, RetryLimits()), Retry):
        job = decided.job
        rungs.append(decided.rung)
        assert job.attempt == 1
        assert job.lineage.faults[-1].wait_s == decided.expiration_s
        assert valid(job)
    assert rungs == ["5s", "30s", "2m", "10m", "10m"]
    assert (decided.reason, len(job.lineage.faults)) == ("faults", 5)


def test_each_attempt_has_its_own_faults() -> None:
    job = job_of()
    for _ in range(5):
        decided = back_off(job, FAULT, NOW, 0.0, RetryLimits())
        assert isinstance(decided, Retry)
        job = decided.job
    job = retried(job, Flaw.LOOP)
    decided = back_off(job, FAULT, NOW, 0.0, RetryLimits())
    assert isinstance(decided, Retry)
    assert (decided.rung, decided.job.lineage.faults[-1].attempt) == ("5s", 2)
    assert mutation_of(decided.job) == mutation_of(job)


@given(st.floats(0, 1, exclude_max=True), st.integers(0, 4))
def test_the_wait_lies_in_the_last_fifth_of_the_rung(draw: float, before: int) -> None:
    faults = (FAULT,) * before
    job = msgspec.structs.replace(job_of(), lineage=Lineage(faults=faults))
    decided = back_off(job, FAULT, NOW, draw, RetryLimits())
    assert isinstance(decided, Retry)
    assert decided.expiration_s is not None
    assert 0.8 * RUNGS[decided.rung] <= decided.expiration_s <= RUNGS[decided.rung]


def test_a_fault_waits_beyond_a_deadline_to_come_but_not_past_one() -> None:
    for early, said in ((0, "deadline"), (1, "retry")):
        job = msgspec.structs.replace(job_of(), deadline=NOW + timedelta(seconds=early))
        assert reason(back_off(job, FAULT, NOW, 0.5, RetryLimits())) == said


def test_no_faults_allowed_are_none() -> None:
    assert reason(back_off(job_of(), FAULT, NOW, 0.5, RetryLimits(faults=0))) == "faults"


def test_a_worker_to_avoid_passes_the_job_on_twice_and_then_does_it() -> None:
    job, passes = retried(job_of(), Flaw.NON_FINITE_LOGITS, worker="w1"), 0
    assert pass_on(job, "w2") is None
    while (decided := pass_on(job, "w1")) is not None:
        assert (decided.rung, decided.job.attempt) == ("5s", 2)
        job = decided.job
        passes += 1
    assert passes == 2
    # The next attempt may be passed on again.
    assert pass_on(retried(job, Flaw.NON_FINITE_LOGITS, worker="w1"), "w1") is not None


def test_a_first_attempt_is_passed_on_by_nobody() -> None:
    assert pass_on(job_of(), "w1") is None
    mutation = Mutation(sampling=job_of().sampling)
    assert pass_on(msgspec.structs.replace(job_of(), mutation=mutation), "w1") is None
