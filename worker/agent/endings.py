"""The end of an agent job: what is published for it. Pure."""

from datetime import datetime

from msgspec import Struct

from ...producer.subscription import Delivery
from ...schemas import (
    AgentContext,
    AgentJob,
    DeadLetter,
    GenerationResult,
    InvalidMessage,
    Outcome,
    Reason,
    Timings,
    content_id,
)
from ...schemas import results as outcomes
from ...schemas.agents import Ended
from ..publications import Identity, Publication, Settlement, Verb, origin, to_backend
from . import rounds
from .moves import Over, called_off, over


def ended(who: Identity, end: Over, delivery: Delivery, now: datetime) -> Settlement:
    """The settlement of a job that is over. What did not complete leaves its whole scene with the
    dead letters."""
    result = _result(who, end.context, end.outcome, now, text=end.text, over=end)
    publications = [to_backend(who, end.context.job, result)]
    if isinstance(end.outcome, outcomes.Partial | outcomes.Cancelled):
        publications.insert(0, _letter(who, end.context, end.outcome, delivery, now))
    return Settlement(tuple(publications), Verb.ACK, end.outcome, over=True)


def refused(
    who: Identity, job: AgentJob, error: InvalidMessage, delivery: Delivery, now: datetime
) -> Settlement:
    """The settlement of a job that can't be begun here."""
    outcome = outcomes.Rejected(reason=error.reason, detail=error.detail, field=error.field)
    context = rounds.begun(job, now, who.worker)
    letter = _letter(who, context, outcome, delivery, now)
    result = _result(who, context, outcome, now)
    return Settlement((letter, to_backend(who, job, result)), Verb.ACK, outcome, over=True)


def told_again(who: Identity, told: Ended, reply_to: str, now: datetime) -> Settlement:
    """The result of a job that is over, by the journal, for another reader."""
    context = told.context
    stop = context.orchestration.stop
    if told.outcome in (_tag(outcomes.Completed), _tag(outcomes.Partial)):
        end = over(context)
        result = _result(who, context, end.outcome, now, text=end.text, over=end)
    elif told.outcome == _tag(outcomes.Cancelled):
        result = _result(who, context, outcomes.Cancelled(), now, over=called_off(context))
    elif stop is None or told.outcome == _tag(outcomes.Expired):
        outcome = outcomes.Expired(deadline=context.job.deadline or now)
        result = _result(who, context, outcome, now)
    else:
        refused = outcomes.Rejected(reason=stop.reason, detail=stop.detail)
        result = _result(who, context, refused, now)
    publication = Publication(who.names.results, reply_to, result, context.id)
    return Settlement((publication,), Verb.ACK)


def _tag(kind: type[Struct]) -> str:
    return str(kind.__struct_config__.tag)


def under_way(who: Identity, job: AgentJob, reply_to: str, now: datetime) -> Settlement:
    """What a second publisher of a job hears while it is under way."""
    detail = f"a job of this id is under way; its result goes to reply key {reply_to}"
    outcome = outcomes.Rejected(reason=Reason.INVALID_FIELD, detail=detail, field="$.id")
    result = _result(who, rounds.begun(job, now, who.worker), outcome, now)
    return Settlement((to_backend(who, job, result),), Verb.ACK, outcome)


def too_late(who: Identity, job: AgentJob, delivery: Delivery, now: datetime) -> Settlement:
    """The settlement of a job whose deadline passed before it was begun."""
    outcome = outcomes.Expired(deadline=job.deadline or now)
    context = rounds.begun(job, now, who.worker)
    letter = _letter(who, context, outcome, delivery, now)
    result = _result(who, context, outcome, now)
    return Settlement((letter, to_backend(who, job, result)), Verb.ACK, outcome, over=True)


def not_wanted(who: Identity, job: AgentJob, delivery: Delivery, now: datetime) -> Settlement:
    """The settlement of a job that was called off before it was begun."""
    outcome = outcomes.Cancelled()
    context = rounds.begun(job, now, who.worker)
    letter = _letter(who, context, outcome, delivery, now)
    result = _result(who, context, outcome, now)
    return Settlement((letter, to_backend(who, job, result)), Verb.ACK, outcome, over=True)


def reason_of(outcome: Outcome) -> Reason:
    """Why a job ended that did not complete."""
    if isinstance(outcome, outcomes.Cancelled):
        return Reason.CANCELLED
    return getattr(outcome, "reason", Reason.DEADLINE_PASSED)


def _sentence(outcome: Outcome) -> str:
    if isinstance(outcome, outcomes.Cancelled):
        return "the job was called off"
    return getattr(outcome, "detail", "") or "the deadline passed before the job was begun"


def _result(
    who: Identity,
    context: AgentContext,
    outcome: Outcome,
    now: datetime,
    *,
    text: str = "",
    over: Over | None = None,
) -> GenerationResult:
    job = context.job
    spent = context.orchestration.spent
    queued = job.enqueued_at
    return GenerationResult(
        job_id=job.id,
        attempt=job.attempt,
        outcome=outcome,
        text=text,
        usage=spent.usage,
        timings=Timings(
            queued_s=_seconds(queued, context.orchestration.started_at) if queued else None,
            engine_s=spent.engine_s,
        ),
        agent=over.record if over is not None else None,
        worker=who.worker,
        finished_at=now,
        metadata=job.metadata,
    )


def _seconds(since: datetime, until: datetime) -> float:
    return max(0.0, (until - since).total_seconds())


def _letter(
    who: Identity,
    context: AgentContext,
    outcome: outcomes.Partial | outcomes.Rejected | outcomes.Expired | outcomes.Cancelled,
    delivery: Delivery,
    now: datetime,
) -> Publication:
    job = context.job
    reason = reason_of(outcome)
    letter = DeadLetter(
        # Not drawn: written again after a crash, the copies are known as one.
        id=content_id(b"agent", job.id.encode(), str(job.attempt).encode(), reason.encode()),
        job_id=job.id,
        reason=reason,
        field=getattr(outcome, "field", None),
        detail=_sentence(outcome),
        at=now,
        origin=origin(who, delivery, "agent"),
        agent=context,
        versions=dict(who.versions),
    )
    return Publication(who.names.dlx, "agent", letter, job.id)
