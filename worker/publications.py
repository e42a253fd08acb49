"""What a service publishes for a delivery, and what it then tells the broker about it.

Pure: built here, carried out by `settler`.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Final, Literal

import msgspec
from msgspec import Struct

from ..producer.secrecy import OPEN, Secrecy
from ..producer.subscription import Delivery
from ..rollback import Retry
from ..schemas import (
    AgentJob,
    Candidate,
    DeadLetter,
    Flaw,
    GenerationJob,
    GenerationResult,
    InvalidMessage,
    Lineage,
    Names,
    Origin,
    Outcome,
    Reason,
    content_id,
    peek,
)
from ..schemas import results as outcomes
from ..schemas.dead_letters import Stage
from ..schemas.events import Happening
from ..schemas.limits import MAX_JOB_BYTES

# The header by which the retry exchange picks the queue to wait in.
RUNG_HEADER: Final = "rung"
# Why a job goes round once more: "passed_on" to a worker where the engine did not fail under it,
# "unsupported" without the changes that the engine can't do.
Cause = Literal[
    "gate_tripped",
    "reasoning_runaway",
    "checks_rejected",
    "check_failed",
    "engine_fault",
    "passed_on",
    "unsupported",
]
# What a token id takes in Python beyond its digits.
_ID_BYTES: Final = 30


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
    """Who settles: goes into results and dead letters. `versions` by the name of the software;
    `secrecy`: what of texts is kept in the letters."""

    worker: str
    model: str
    names: Names
    versions: Mapping[str, str] = {}
    secrecy: Secrecy = OPEN


class Publication(Struct, frozen=True):
    """One message to publish, with confirmation; `sent` once it is confirmed. `optional`: where it
    can't be published in time, the rest goes on without it. `cause`: why a job goes to a retry."""

    exchange: str
    routing_key: str
    message: GenerationJob | Candidate | GenerationResult | DeadLetter
    correlation_id: str | None
    headers: dict[str, str] = {}
    expiration_s: float | None = None
    optional: bool = False
    sent: bool = False
    cause: Cause | None = None


class Settlement(Struct, frozen=True):
    """Publish these in order, then say the verb.

    `outcome` is the job's end; None where it goes on. `over`: this attempt has been dealt with, and
    a duplicate of it changes nothing; otherwise it will come again. `event` tells how it goes on.
    """

    publications: tuple[Publication, ...]
    verb: Verb
    outcome: Outcome | None = None
    over: bool = False
    event: Happening | None = None

    @property
    def sent(self) -> bool:
        """Whether all of it was published."""
        return all(each.sent for each in self.publications)

    @property
    def is_cancelled(self) -> bool:
        """Whether the job ended because it was called off."""
        return isinstance(self.outcome, outcomes.Cancelled)

    @property
    def weight(self) -> int:
        """How much memory it holds, in bytes, roughly."""
        return 2_000 + sum(_weight(each.message) for each in self.publications)

    def again(self, reply_to: str) -> "Settlement":
        """What there is to publish for a duplicate with this reply key. What was not sent yet; and
        where all was, the result once more. What goes on goes on once for each key, so that
        whoever waits on another gets an answer."""
        whole = self.sent
        publications = tuple(
            _readdressed(each, reply_to)
            for each in self.publications
            if not (each.sent and _is_out(each, reply_to, whole))
        )
        return msgspec.structs.replace(self, publications=publications)

    def delivered(self) -> "Settlement":
        """What is left to say to duplicates once all was published: not the dead letter."""
        left = [
            msgspec.structs.replace(each, sent=True)
            for each in self.publications
            if not isinstance(each.message, DeadLetter)
        ]
        return msgspec.structs.replace(self, publications=tuple(left))


def _weight(message: GenerationJob | Candidate | GenerationResult | DeadLetter) -> int:
    match message:
        case DeadLetter():
            return 0
        case Candidate(job=job):
            ids = job.prompt_token_ids
        case GenerationJob(prompt_token_ids=ids):
            pass
        case GenerationResult():
            ids = None
    return len(msgspec.json.encode(message)) + _ID_BYTES * len(ids or ())


def _is_out(publication: Publication, reply_to: str, whole: bool) -> bool:
    """Whether it is on its way already, for this reply key."""
    match publication.message:
        case GenerationResult():
            return publication.routing_key == reply_to and not whole
        case GenerationJob() as job:
            return job.reply_to == reply_to
        case Candidate(job=job):
            return job.reply_to == reply_to
        case DeadLetter():
            return True


def _readdressed(publication: Publication, reply_to: str) -> Publication:
    """The publication, for another reply key."""
    publication = msgspec.structs.replace(publication, sent=False)
    match publication.message:
        case GenerationResult():
            return msgspec.structs.replace(publication, routing_key=reply_to)
        case GenerationJob() as job:
            other = msgspec.structs.replace(job, reply_to=reply_to)
            return msgspec.structs.replace(publication, message=other)
        case Candidate(job=job) as candidate:
            other = msgspec.structs.replace(job, reply_to=reply_to)
            moved = msgspec.structs.replace(candidate, job=other)
            return msgspec.structs.replace(publication, message=moved)
        case DeadLetter():
            return publication


def to_backend(
    who: Identity, job: GenerationJob | AgentJob, result: GenerationResult
) -> Publication:
    """The result, to the queue of whoever published the job, with the trace that it belongs to."""
    traced = msgspec.structs.replace(result, traceparent=job.traceparent)
    headers = {"traceparent": job.traceparent} if job.traceparent else {}
    return Publication(who.names.results, job.reply_to, traced, job.id, headers)


def to_retry(who: Identity, retry: Retry, cause: Cause) -> Publication:
    """The job, to wait on a rung and go back to its lane from there."""
    job = retry.job
    return Publication(
        who.names.retry,
        who.names.jobs_key(job.lane),
        job,
        job.id,
        headers={RUNG_HEADER: retry.rung},
        expiration_s=retry.expiration_s,
        cause=cause,
    )


def to_dead(  # noqa: PLR0913 - what a letter says
    who: Identity,
    job: GenerationJob,
    delivery: Delivery,
    stage: Stage,
    reason: Reason,
    detail: str,
    *,
    field: str | None = None,
    flaw: Flaw | None = None,
    found_by: str = "",
) -> Publication:
    """The dead letter of a job whose lineage is whole."""
    letter = DeadLetter(
        id=_letter_id(job.id, job.attempt, stage, reason),
        job_id=job.id,
        reason=reason,
        field=field,
        flaw=flaw,
        found_by=found_by,
        detail=detail,
        at=datetime.now(UTC),
        origin=origin(who, delivery, stage),
        job=job,
        versions=dict(who.versions),
    )
    return Publication(who.names.dlx, stage, letter, job.id)


def _letter_id(job_id: str, attempt: int, stage: Stage, reason: Reason, *more: str) -> str:
    """From what died, and not drawn: a service that is killed before it acknowledges leaves the
    letter to be written again, and by the id the copies are known as one."""
    return content_id(*(part.encode() for part in (job_id, str(attempt), stage, reason, *more)))


def bury(who: Identity, delivery: Delivery, error: InvalidMessage) -> Settlement:
    """The settlement of a body that can't be decoded: it goes to the dead letters, reason and all.

    Who waits for it is told where id and reply key can be made out. A body over the limit stays
    with the broker, which moves it to the dead letters whole, right behind our record of it.
    """
    job_id, reply_to = peek(delivery.body)
    small = len(delivery.body) <= MAX_JOB_BYTES
    letter = DeadLetter(
        id=content_id(b"decode", delivery.body),
        job_id=job_id,
        reason=error.reason,
        field=error.field,
        detail=error.detail,
        at=datetime.now(UTC),
        origin=origin(who, delivery, "decode"),
        raw_body=delivery.body if small else delivery.body[:1024],
        raw_body_bytes=len(delivery.body),
        versions=dict(who.versions),
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
    verb = Verb.ACK if small else Verb.DISCARD
    return Settlement(tuple(publications), verb, outcome, over=True)


def origin(who: Identity, delivery: Delivery, stage: Stage) -> Origin:
    """Where a message was when it died."""
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
    small: list[Publication] = []
    for each in settlement.publications:
        match each.message:
            case GenerationResult() as result:
                told = msgspec.structs.replace(
                    result, outcome=outcome, text="", lineage=Lineage(), metadata={}
                )
            case DeadLetter() as letter:
                told = msgspec.structs.replace(
                    letter, reason=error.reason, detail=detail, job=None, raw_body=None, result=None
                )
            case GenerationJob() | Candidate():
                continue
        small.append(msgspec.structs.replace(each, message=told))
    return Settlement(tuple(small), Verb.DISCARD, outcome, over=True)


def undeliverable(who: Identity, publication: Publication, result: GenerationResult) -> Publication:
    """A result that nobody takes, as a dead letter: the text is not lost with its reader."""
    reason = Reason.RESULT_UNROUTABLE
    letter = DeadLetter(
        # With the reply key: the same result for another reader is another letter.
        id=_letter_id(result.job_id, result.attempt, "deliver", reason, publication.routing_key),
        job_id=result.job_id,
        reason=reason,
        detail=f"no queue takes results for {publication.routing_key!r}",
        at=datetime.now(UTC),
        origin=Origin(
            stage="deliver",
            worker=who.worker,
            queue=publication.exchange,
            routing_key=publication.routing_key,
        ),
        result=result,
        versions=dict(who.versions),
    )
    return Publication(who.names.dlx, "deliver", letter, result.job_id)
