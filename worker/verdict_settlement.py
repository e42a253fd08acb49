"""The end of a check: what is published for a verdict, and what the broker is told.

Pure functions: they decide and do nothing. `settler` carries out what they say.
"""

from datetime import UTC, datetime
from typing import Final

import msgspec

from ..producer.subscription import Delivery
from ..rollback import Retry, RetryTable, decide_retry
from ..schemas import (
    AttemptRecord,
    Candidate,
    GenerationJob,
    GenerationResult,
    Judged,
    Lineage,
    Outcome,
    Reason,
    Rules,
    Verdict,
)
from ..schemas import results as outcomes
from ..schemas.errors import tame
from ..schemas.limits import MAX_KEPT_TEXT
from ..schemas.lineage import fitted
from .publications import Identity, Settlement, Verb, to_backend, to_dead
from .settlement import retried

_DETAIL: Final = 500


def plan_verdict(
    who: Identity,
    candidate: Candidate,
    delivery: Delivery,
    verdict: Verdict,
    retries: RetryTable,
    now: datetime,
    rules: Rules | None = None,
) -> Settlement:
    """The settlement of a verdict: the table of `docs/architecture.md`, as a function. `rules`:
    those in force, where the profile has some besides the job's."""
    job, result = candidate.job, candidate.result
    if job.checks == "observe":
        # The result is out already.
        return Settlement((), Verb.ACK, over=True, event=Judged(verdict=verdict))
    if verdict.outcome == "passed":
        judged = _with_last(result.lineage, verdict=verdict)
        final = msgspec.structs.replace(result, lineage=judged, finished_at=datetime.now(UTC))
        answer = to_backend(who, job, final)
        return Settlement((answer,), Verb.ACK, result.outcome, over=True)
    lineage = _rejected(result, verdict)
    retry = decide_retry(job, lineage, now, retries, rules=rules)
    detail = lineage.attempts[-1].detail
    if isinstance(retry, Retry):
        broke = verdict.outcome == "failed"
        return retried(who, retry, detail, "check_failed" if broke else "checks_rejected")
    tried = msgspec.structs.replace(job, lineage=lineage)
    return _dead(who, tried, result, delivery, verdict, f"{detail}; {retry.sentence}")


def plan_expired(
    who: Identity, candidate: Candidate, delivery: Delivery, deadline: datetime
) -> Settlement:
    """The deadline passed before there was a verdict: nobody wants the text any more."""
    result = candidate.result
    detail = "the deadline passed before the checker had looked at the text"
    lineage = _with_last(result.lineage, detail=detail, **_kept(result.text))
    tried = msgspec.structs.replace(candidate.job, lineage=lineage)
    outcome = outcomes.Expired(deadline=deadline)
    letter = to_dead(who, tried, delivery, "check", Reason.DEADLINE_PASSED, detail)
    answer = to_backend(who, tried, _without_text(result, outcome, lineage))
    return Settlement((letter, answer), Verb.ACK, outcome, over=True)


def plan_cancelled(who: Identity, candidate: Candidate, delivery: Delivery) -> Settlement:
    """It was called off before its text was given to anybody."""
    result = candidate.result
    detail = "the job was called off before its text was accepted"
    lineage = _with_last(result.lineage, detail=detail, **_kept(result.text))
    tried = msgspec.structs.replace(candidate.job, lineage=lineage)
    outcome = outcomes.Cancelled()
    letter = to_dead(who, tried, delivery, "check", Reason.CANCELLED, detail)
    answer = to_backend(who, tried, _without_text(result, outcome, lineage))
    return Settlement((letter, answer), Verb.ACK, outcome, over=True)


def _dead(
    who: Identity,
    tried: GenerationJob,
    result: GenerationResult,
    delivery: Delivery,
    verdict: Verdict,
    detail: str,
) -> Settlement:
    last = tried.lineage.attempts[-1]
    outcome: Outcome
    if verdict.outcome == "failed":
        reason = Reason.CHECK_FAILED
        outcome = outcomes.Failed(reason=reason, detail=detail)
    else:
        reason = Reason.CHECKS_REJECTED
        outcome = outcomes.Rejected(reason=reason, detail=detail)
    letter = to_dead(
        who, tried, delivery, "check", reason, detail, flaw=last.flaw, found_by=last.found_by
    )
    answer = to_backend(who, tried, _without_text(result, outcome, tried.lineage))
    return Settlement((letter, answer), Verb.ACK, outcome, over=True)


def _without_text(result: GenerationResult, outcome: Outcome, lineage: Lineage) -> GenerationResult:
    return msgspec.structs.replace(
        result,
        outcome=outcome,
        text="",
        reasoning=None,
        finish_reason=None,
        stop_string=None,
        lineage=lineage,
        finished_at=datetime.now(UTC),
    )


def _rejected(result: GenerationResult, verdict: Verdict) -> Lineage:
    """The lineage with the verdict on its last attempt, and the text that was refused."""
    worst = verdict.worst()
    return _with_last(
        result.lineage,
        verdict=verdict,
        flaw=worst.flaw if worst is not None else None,
        found_by=worst.check if worst is not None else "",
        detail=tame(worst.detail, _DETAIL) if worst is not None else "",
        **_kept(result.text),
    )


def _kept(text: str) -> dict[str, str | int]:
    return {"text": text[:MAX_KEPT_TEXT], "text_chars": len(text)}


def _with_last(lineage: Lineage, **changes: object) -> Lineage:
    """The lineage with something added to its last attempt, within its limits."""
    *earlier, last = lineage.attempts
    changed: AttemptRecord = msgspec.structs.replace(last, **changes)
    return fitted(msgspec.structs.replace(lineage, attempts=(*earlier, changed)))
