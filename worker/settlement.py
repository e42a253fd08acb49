"""What is published for an ending, and what the broker is told about the delivery.

Pure functions: they decide and do nothing. `settler` carries out what they say.
"""

from datetime import UTC, datetime
from enum import Enum
from typing import Final

import msgspec
from msgspec import Struct

from ..producer.subscription import Delivery
from ..schemas import (
    DeadLetter,
    GenerationJob,
    GenerationResult,
    InvalidMessage,
    Lineage,
    Names,
    Origin,
    Outcome,
    Reason,
    Usage,
    encode,
    peek,
)
from ..schemas import results as outcomes
from ..schemas.dead_letters import Stage
from ..schemas.limits import MAX_JOB_BYTES
from ..schemas.topology import DELIVERY_LIMIT
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

# A dead letter keeps this much of a text, in characters.
_MAX_KEPT_TEXT: Final = 100_000


class Verb(Enum):
    """How a delivery is settled.

    REJECT puts it back and counts against it on every version of the broker. NACK puts it back for
    something that is not the job's fault. DISCARD leaves it to the broker's own dead-lettering.
    """

    ACK = "ack"
    REJECT = "reject"
    NACK = "nack"
    DISCARD = "discard"


class Identity(Struct, frozen=True, kw_only=True):
    """Who settles: goes into results and dead letters."""

    worker: str
    model: str
    names: Names


class Publication(Struct, frozen=True):
    """One message to publish, with confirmation."""

    exchange: str
    routing_key: str
    message: GenerationJob | GenerationResult | DeadLetter
    correlation_id: str | None


class Settlement(Struct, frozen=True):
    """Publish these in order, then say the verb. No outcome: the job goes back to the queue."""

    publications: tuple[Publication, ...]
    verb: Verb
    outcome: Outcome | None = None

    @property
    def weight(self) -> int:
        """How much memory it holds, in characters of text, roughly."""
        messages = (each.message for each in self.publications)
        results = (each for each in messages if isinstance(each, GenerationResult))
        return 2_000 + sum(len(result.text) for result in results)

    def again(self, reply_to: str) -> "Settlement":
        """The same answer to a duplicate that was published with this reply key."""
        return msgspec.structs.replace(
            self,
            publications=tuple(
                msgspec.structs.replace(each, routing_key=reply_to)
                if isinstance(each.message, GenerationResult)
                else each
                for each in self.publications
            ),
        )

    def delivered(self) -> "Settlement":
        """What is left to say to a duplicate once all was published: the result alone."""
        results = [each for each in self.publications if isinstance(each.message, GenerationResult)]
        return msgspec.structs.replace(self, publications=tuple(results))


def plan(  # noqa: C901, PLR0911 - one case and one return for each row of the table
    who: Identity, job: GenerationJob, delivery: Delivery, report: Report
) -> Settlement:
    """The settlement of a run: the table of `docs/architecture.md`, as a function."""
    match report.ending:
        case Answered():
            return _answer(who, job, delivery, report)
        case Refused(error):
            outcome = outcomes.Rejected(reason=error.reason, detail=error.detail, field=error.field)
            return _dead(who, job, delivery, report, outcome, error.reason, "admit")
        case DeadlinePassed(deadline):
            outcome = outcomes.Expired(deadline=deadline)
            return _dead(who, job, delivery, report, outcome, Reason.DEADLINE_PASSED, "generate")
        case TimedOut(limit_s):
            detail = f"the attempt took longer than {limit_s:g} s"
            outcome = outcomes.Failed(reason=Reason.ATTEMPT_TIMEOUT, detail=detail)
            return _dead(who, job, delivery, report, outcome, Reason.ATTEMPT_TIMEOUT, "generate")
        case Cancelled():
            outcome = outcomes.Cancelled()
            return _dead(who, job, delivery, report, outcome, Reason.CANCELLED, "generate")
        case GaveUp(detail):
            outcome = outcomes.Failed(reason=Reason.GATE_TRIPPED, detail=detail)
            return _dead(who, job, delivery, report, outcome, Reason.GATE_TRIPPED, "generate")
        case Faulted(detail) | EngineLost(detail) if delivery.times_returned >= DELIVERY_LIMIT:
            # One more rejection and the broker buries it without a word to the publisher.
            outcome = outcomes.Failed(reason=Reason.ENGINE_FAULT, detail=detail)
            return _dead(who, job, delivery, report, outcome, Reason.ENGINE_FAULT, "generate")
        case Faulted() | EngineLost():
            return Settlement((), Verb.REJECT)
        case Interrupted() if delivery.times_returned >= DELIVERY_LIMIT - 1:
            # Brokers before 4.3 count this as well. A fresh copy begins to count anew.
            copy = Publication(who.names.jobs, who.names.jobs_key(job.lane), job, job.id)
            return Settlement((copy,), Verb.ACK)
        case Interrupted():
            return Settlement((), Verb.NACK)


def bury(who: Identity, delivery: Delivery, error: InvalidMessage) -> Settlement:
    """The settlement of a body that can't be decoded: it goes to the dead letters, reason and all.

    Who waits for it is told where id and reply key can be made out. A body over the limit stays
    with the broker, which moves it to the dead letters whole, right behind our record of it.
    """
    job_id, reply_to = peek(delivery.body)
    small = len(delivery.body) <= MAX_JOB_BYTES
    letter = DeadLetter(
        job_id=job_id,
        reason=error.reason,
        field=error.field,
        detail=error.detail,
        at=datetime.now(UTC),
        origin=_origin(who, delivery, "decode"),
        raw_body=delivery.body if small else delivery.body[:1024],
        raw_body_bytes=len(delivery.body),
    )
    publications = [Publication(who.names.dlx, "decode", letter, job_id)]
    outcome = outcomes.Rejected(reason=error.reason, detail=error.detail, field=error.field)
    if job_id is not None:
        result = GenerationResult(
            job_id=job_id,
            attempt=1,
            outcome=outcome,
            model=who.model,
            worker=who.worker,
            finished_at=datetime.now(UTC),
        )
        publications.append(Publication(who.names.results, reply_to or "default", result, job_id))
    return Settlement(tuple(publications), Verb.ACK if small else Verb.DISCARD, outcome)


def _answer(who: Identity, job: GenerationJob, delivery: Delivery, report: Report) -> Settlement:
    outcome = outcomes.Completed()
    result = _result(who, job, report, outcome)
    try:
        encode(result)
    except InvalidMessage as error:
        failed = outcomes.Failed(reason=error.reason, detail=f"the result {error.detail}")
        return _dead(who, job, delivery, report, failed, error.reason, "deliver")
    return Settlement((_to_backend(who, job, result),), Verb.ACK, outcome)


def _dead(
    who: Identity,
    job: GenerationJob,
    delivery: Delivery,
    report: Report,
    outcome: Outcome,
    reason: Reason,
    stage: Stage,
) -> Settlement:
    lineage = job.lineage.with_attempt(report.record)
    letter = DeadLetter(
        job_id=job.id,
        reason=reason,
        field=getattr(outcome, "field", None),
        detail=getattr(outcome, "detail", "") or _SENTENCES.get(reason, str(reason)),
        at=datetime.now(UTC),
        origin=_origin(who, delivery, stage),
        job=msgspec.structs.replace(job, lineage=lineage),
        evidence={"text": report.text[:_MAX_KEPT_TEXT]} if report.text else {},
    )
    result = _result(who, job, report, outcome)
    return Settlement(
        (
            Publication(who.names.dlx, stage, letter, job.id),
            _to_backend(who, job, result),
        ),
        Verb.ACK,
        outcome,
    )


_SENTENCES: Final[dict[Reason, str]] = {
    Reason.DEADLINE_PASSED: "the deadline passed before the job was done",
    Reason.CANCELLED: "the job was called off",
}


def _result(
    who: Identity, job: GenerationJob, report: Report, outcome: Outcome
) -> GenerationResult:
    answered = report.ending if isinstance(report.ending, Answered) else None
    return GenerationResult(
        job_id=job.id,
        attempt=job.attempt,
        outcome=outcome,
        text=report.text if answered and isinstance(outcome, outcomes.Completed) else "",
        finish_reason=answered.finish_reason if answered else None,
        usage=_total_usage(job.lineage, report.usage),
        timings=report.timings,
        lineage=job.lineage.with_attempt(report.record),
        model=who.model,
        worker=who.worker,
        finished_at=datetime.now(UTC),
        metadata=job.metadata,
    )


def _total_usage(earlier: Lineage, now: Usage) -> Usage:
    """Tokens of this attempt and of those before it."""
    attempts = earlier.attempts
    firsts = [attempt.segments[0] for attempt in attempts if attempt.segments]
    produced = sum(segment.tokens for attempt in attempts for segment in attempt.segments)
    wasted = sum(trip.wasted for attempt in attempts for trip in attempt.trips)
    return msgspec.structs.replace(
        now,
        prompt_tokens=now.prompt_tokens + sum(each.prompt_tokens for each in firsts),
        cached_tokens=now.cached_tokens + sum(each.cached_tokens for each in firsts),
        completion_tokens=now.completion_tokens + produced - wasted,
        wasted_tokens=now.wasted_tokens + wasted,
    )


def _to_backend(who: Identity, job: GenerationJob, result: GenerationResult) -> Publication:
    return Publication(who.names.results, job.reply_to, result, job.id)


def _origin(who: Identity, delivery: Delivery, stage: Stage) -> Origin:
    return Origin(
        stage=stage,
        worker=who.worker,
        queue=delivery.queue,
        routing_key=delivery.routing_key,
        message_id=_short(delivery.message_id),
        correlation_id=_short(delivery.correlation_id),
        redelivered=delivery.redelivered,
    )


def _short(text: str | None) -> str | None:
    return text[:256] if text is not None else None


def reduced(settlement: Settlement, error: InvalidMessage) -> Settlement:
    """The same ending where a message of it can't be published, being too large, say: told in few
    words, and the job left whole to the broker's own dead-lettering."""
    detail = f"the outcome can't be published: {error}"
    outcome = outcomes.Failed(reason=error.reason, detail=detail)
    small = [
        msgspec.structs.replace(
            each,
            message=msgspec.structs.replace(
                each.message, outcome=outcome, text="", lineage=Lineage(), metadata={}
            )
            if isinstance(each.message, GenerationResult)
            else msgspec.structs.replace(
                each.message,
                reason=error.reason,
                detail=detail,
                job=None,
                raw_body=None,
                result=None,
                evidence={},
            ),
        )
        for each in settlement.publications
        if not isinstance(each.message, GenerationJob)
    ]
    return Settlement(tuple(small), Verb.DISCARD, outcome)


def undeliverable(who: Identity, publication: Publication, result: GenerationResult) -> Publication:
    """A result that nobody takes, as a dead letter: the text is not lost with its reader."""
    letter = DeadLetter(
        job_id=result.job_id,
        reason=Reason.RESULT_UNROUTABLE,
        detail=f"no queue takes results for {publication.routing_key!r}",
        at=datetime.now(UTC),
        origin=Origin(
            stage="deliver",
            worker=who.worker,
            queue=publication.exchange,
            routing_key=publication.routing_key,
        ),
        result=result,
    )
    return Publication(who.names.dlx, "deliver", letter, result.job_id)
