"""The end of an attempt at generating: what is published for it, and what the broker is told.

Pure functions: they decide and do nothing. `settler` carries out what they say.
"""

from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import Struct

from ..producer.subscription import Delivery
from ..rollback import NoRetry, Retry, RetryTable, back_off, decide_retry
from ..schemas import (
    Candidate,
    FaultRecord,
    GenerationJob,
    GenerationResult,
    HandoverRecord,
    InvalidMessage,
    Outcome,
    Reason,
    Retrying,
    encode,
)
from ..schemas import Interrupted as InterruptedEvent
from ..schemas import results as outcomes
from ..schemas.dead_letters import Stage
from ..schemas.topology import DELIVERY_LIMIT, RUNGS
from .endings import (
    Answered,
    Cancelled,
    DeadlinePassed,
    EngineLost,
    Faulted,
    GaveUp,
    Interrupted,
    Refused,
    Report,
    TimedOut,
)
from .publications import (
    Cause,
    Identity,
    Publication,
    Settlement,
    Verb,
    to_backend,
    to_dead,
    to_retry,
)

_SENTENCES: Final[dict[Reason, str]] = {
    Reason.DEADLINE_PASSED: "the deadline passed before the job was done",
    Reason.CANCELLED: "the job was called off",
}


class Moment(Struct, frozen=True):
    """What a decision takes from outside: the time, and a number drawn from 0 up to 1."""

    now: datetime
    draw: float


def plan(  # noqa: C901, PLR0911 - one case and return for each row of the table
    who: Identity,
    job: GenerationJob,
    delivery: Delivery,
    report: Report,
    retries: RetryTable,
    moment: Moment,
) -> Settlement:
    """The settlement of a run: the table of `docs/architecture.md`, as a function."""
    if not isinstance(report.ending, Interrupted):
        # Of use to this attempt alone, and only while it is not over.
        job = msgspec.structs.replace(job, progress=None)
    match report.ending:
        case Answered():
            return _answer(who, job, delivery, report)
        case Refused(error) if (plain := _unchanged(job)) is not None:
            why = f"the engine can't do what the retry changed, so it goes on without: {error}"
            retry = Retry(job=plain, rung=next(iter(RUNGS)))
            copy = to_retry(who, retry, "unsupported")
            return Settlement((copy,), Verb.ACK, event=_retrying(retry, why))
        case Refused(error):
            outcome = outcomes.Rejected(reason=error.reason, detail=error.detail, field=error.field)
            return _dead(who, job, delivery, report, outcome, error.reason, "admit")
        case DeadlinePassed(deadline):
            outcome = outcomes.Expired(deadline=deadline)
            return _dead(who, job, delivery, report, outcome, Reason.DEADLINE_PASSED)
        case TimedOut(limit_s):
            detail = f"the attempt took longer than {limit_s:g} s"
            outcome = outcomes.Failed(reason=Reason.ATTEMPT_TIMEOUT, detail=detail)
            return _dead(who, job, delivery, report, outcome, Reason.ATTEMPT_TIMEOUT)
        case Cancelled():
            return _dead(who, job, delivery, report, outcomes.Cancelled(), Reason.CANCELLED)
        case GaveUp() as ending:
            return _gave_up(who, job, delivery, report, ending, retries, moment)
        case Faulted(detail) | EngineLost(detail):
            return _faulted(who, job, delivery, report, detail, retries, moment)
        case Interrupted(detail) if (copy := _handed_on(who, job, report, detail)) is not None:
            return copy
        case Interrupted() if delivery.times_returned >= DELIVERY_LIMIT - 1:
            # Brokers before 4.3 count this as well. A fresh copy begins to count anew.
            copy = Publication(who.names.jobs, who.names.jobs_key(job.lane), job, job.id)
            return Settlement((copy,), Verb.ACK)
        case Interrupted():
            return Settlement((), Verb.NACK)


def _handed_on(who: Identity, job: GenerationJob, report: Report, detail: str) -> Settlement | None:
    """The same attempt with all that is written of it, for the next worker; None where there is
    nothing that it could go on from, or too much to fit a message."""
    progress = report.progress
    if progress is None:
        return None
    record = HandoverRecord(
        attempt=job.attempt,
        worker=who.worker,
        at=progress.at,
        tokens=progress.kept,
        detail=detail[:500],
    )
    lineage = job.lineage.with_handover(record)
    handed = msgspec.structs.replace(job, progress=progress, lineage=lineage)
    try:
        encode(handed)
    except InvalidMessage:
        return None
    copy = Publication(who.names.jobs, who.names.jobs_key(job.lane), handed, job.id)
    event = InterruptedEvent(detail=detail, kept=progress.kept)
    return Settlement((copy,), Verb.ACK, event=event)


def _unchanged(job: GenerationJob) -> GenerationJob | None:
    """The same attempt without what a retry changed but the seed; None where that is nothing."""
    mutation = job.mutation
    if mutation is None or (mutation.sampling == job.sampling and not mutation.instruction):
        return None
    plain = msgspec.structs.replace(mutation, sampling=job.sampling, instruction="")
    return msgspec.structs.replace(job, mutation=plain)


def _answer(who: Identity, job: GenerationJob, delivery: Delivery, report: Report) -> Settlement:
    outcome = outcomes.Completed()
    result = _result(who, job, report, outcome)
    candidate = Candidate(job=job, result=result, prompt=report.prompt)
    try:
        # What is observed is out already, and may go unchecked.
        encode(candidate if job.checks == "block" else result)
    except InvalidMessage as error:
        failed = outcomes.Failed(reason=error.reason, detail=f"the result {error.detail}")
        return _dead(who, job, delivery, report, failed, error.reason, "deliver")
    answer = to_backend(who, job, result)
    to_checks = Publication(
        who.names.jobs,
        who.names.checks_key,
        candidate,
        job.id,
        optional=job.checks == "observe",
    )
    match job.checks:
        case "off":
            return Settlement((answer,), Verb.ACK, outcome, over=True)
        case "observe":
            return Settlement((answer, to_checks), Verb.ACK, outcome, over=True)
        case "block":
            return Settlement((to_checks,), Verb.ACK, over=True)


def _gave_up(
    who: Identity,
    job: GenerationJob,
    delivery: Delivery,
    report: Report,
    ending: GaveUp,
    retries: RetryTable,
    moment: Moment,
) -> Settlement:
    lineage = job.lineage.with_attempt(report.record)
    retry = decide_retry(job, lineage, moment.now, retries, engine_fault=ending.engine_fault)
    led_nowhere = ending.flaw is not None and ending.flaw.is_of_reasoning
    if isinstance(retry, Retry):
        cause: Cause = "reasoning_runaway" if led_nowhere else "gate_tripped"
        return retried(who, retry, ending.detail, cause)
    reason = Reason.REASONING_RUNAWAY if led_nowhere else Reason.GATE_TRIPPED
    outcome = outcomes.Failed(reason=reason, detail=f"{ending.detail}; {retry.sentence}")
    return _dead(who, job, delivery, report, outcome, reason)


def _faulted(
    who: Identity,
    job: GenerationJob,
    delivery: Delivery,
    report: Report,
    detail: str,
    retries: RetryTable,
    moment: Moment,
) -> Settlement:
    """The engine failed, and whose fault it was is unknown: the same attempt again, later."""
    fault = FaultRecord(
        attempt=job.attempt,
        worker=who.worker,
        at=moment.now,
        detail=detail[:500],
        lost=isinstance(report.ending, EngineLost),
    )
    retry = back_off(job, fault, moment.now, moment.draw, retries.limits)
    if isinstance(retry, NoRetry):
        outcome = outcomes.Failed(reason=Reason.ENGINE_FAULT, detail=f"{detail}; {retry.sentence}")
        return _dead(who, job, delivery, report, outcome, Reason.ENGINE_FAULT)
    copy = to_retry(who, retry, "engine_fault")
    return Settlement((copy,), Verb.ACK, event=_retrying(retry, detail))


def retried(who: Identity, retry: Retry, why: str, cause: Cause) -> Settlement:
    """Another attempt, changed. This one is over."""
    publication = to_retry(who, retry, cause)
    return Settlement((publication,), Verb.ACK, over=True, event=_retrying(retry, why))


def passed_on(who: Identity, retry: Retry) -> Settlement:
    """The same attempt, left to another worker."""
    why = f"worker {who.worker} leaves it to others: its engine failed here before"
    copy = to_retry(who, retry, "passed_on")
    return Settlement((copy,), Verb.ACK, event=_retrying(retry, why))


def _retrying(retry: Retry, why: str) -> Retrying:
    wait_s = retry.expiration_s if retry.expiration_s is not None else float(RUNGS[retry.rung])
    return Retrying(next_attempt=retry.job.attempt, detail=why, wait_s=wait_s)


def _tried(job: GenerationJob, report: Report) -> GenerationJob:
    """The job with this attempt in its lineage."""
    return msgspec.structs.replace(job, lineage=job.lineage.with_attempt(report.record))


def _dead(
    who: Identity,
    job: GenerationJob,
    delivery: Delivery,
    report: Report,
    outcome: Outcome,
    reason: Reason,
    stage: Stage = "generate",
) -> Settlement:
    letter = to_dead(
        who,
        _tried(job, report),
        delivery,
        stage,
        reason,
        getattr(outcome, "detail", "") or _SENTENCES.get(reason, str(reason)),
        field=getattr(outcome, "field", None),
        flaw=report.record.flaw,
        found_by=report.record.found_by,
    )
    result = to_backend(who, job, _result(who, job, report, outcome))
    return Settlement((letter, result), Verb.ACK, outcome, over=True)


def _result(
    who: Identity, job: GenerationJob, report: Report, outcome: Outcome
) -> GenerationResult:
    answered = report.ending if isinstance(report.ending, Answered) else None
    completed = answered is not None and isinstance(outcome, outcomes.Completed)
    lineage = job.lineage.with_attempt(report.record)
    return GenerationResult(
        job_id=job.id,
        attempt=job.attempt,
        outcome=outcome,
        text=report.text if completed else "",
        reasoning=report.reasoning if completed else None,
        finish_reason=answered.finish_reason if answered else None,
        stop_string=report.stop_string if completed else None,
        usage=lineage.usage(),
        timings=report.timings,
        lineage=lineage,
        model=who.model,
        worker=who.worker,
        finished_at=datetime.now(UTC),
        metadata=job.metadata,
    )
