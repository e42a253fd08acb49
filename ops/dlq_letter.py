"""What lies in the queue of dead letters, made into one view of it. Pure: bytes and headers in."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec import Struct

from ..schemas import (
    AgentContext,
    AgentJob,
    AttemptRecord,
    Candidate,
    DeadLetter,
    GenerationJob,
    GenerationResult,
    InvalidMessage,
    Lineage,
    Reason,
    content_id,
    decode,
    peek,
)
from ..schemas.codec import tag_of
from ..schemas.errors import tame
from ..schemas.limits import MAX_ID_CHARS
from ..schemas.lineage import Channel
from .dlq_advice import INVALID_HERE, OLDER_HERE, UNDECODABLE, UNKNOWN, advice, broker_sentence
from .dlq_culprit import culprit, worker_of
from .dlq_deaths import Death, aware, deaths_of
from .dlq_keys import opened
from .dlq_loose import Loose, loose

if TYPE_CHECKING:
    from ..producer.sealing import OpeningKey

Kind = Literal["letter", "job", "candidate", "agent_job", "agent_context", "raw"]
Kept = DeadLetter | GenerationJob | Candidate | AgentJob | AgentContext
_KEPT_HERE: Final[tuple[type[Kept], ...]] = (
    DeadLetter,
    GenerationJob,
    Candidate,
    AgentJob,
    AgentContext,
)
_BY_TAG: Final = {tag_of(kind): kind for kind in _KEPT_HERE}


class Properties(Struct, frozen=True, kw_only=True):
    """The AMQP properties of a dead message that are read, and its headers."""

    message_id: str = ""
    correlation_id: str = ""
    message_type: str = ""
    routing_key: str = ""
    timestamp: datetime | None = None
    headers: dict[str, Any] = {}


class Head(Struct, frozen=True, kw_only=True):
    """A letter in scalars, small enough to keep of every one. `key` is the same for copies of it
    alone: a service that is killed before it acknowledges writes its letter again, with the same id
    and another time in it. `gate` is the gate or check that found `flaw`; `at` is None where nobody
    wrote the time down; `attempts` counts those on record; `position` counts from the oldest end of
    the queue. `rounds` of an agent job; None: it is none."""

    id: str
    key: str
    kind: Kind
    job_id: str | None
    reason: str
    gate: str
    flaw: str | None
    sentence: str
    at: datetime | None
    worker: str
    profile: str | None
    lane: str | None
    attempts: int
    bytes: int
    position: int
    rounds: int | None = None

    @property
    def age_key(self) -> tuple[float, int]:
        """Sorts oldest first; those without a time are the oldest, in the order of the queue."""
        return (self.at.timestamp() if self.at is not None else 0.0, self.position)


class Letter(Struct, frozen=True, kw_only=True):
    """A dead message and what could be read of it. `message` is None for a raw body, and then
    `trouble` says why. `hidden`: why its texts are not there, where they are hidden; `was_sealed`:
    they were, and a key opened them."""

    head: Head
    body: bytes
    properties: Properties
    deaths: tuple[Death, ...] = ()
    message: Kept | None = None
    trouble: str = ""
    hidden: str = ""
    was_sealed: bool = False

    @property
    def job(self) -> GenerationJob | None:
        """The job that died, where it is here."""
        match self.message:
            case GenerationJob() as job:
                return job
            case Candidate(job=job) | DeadLetter(job=job):
                return job
            case _:
                return None

    @property
    def scene(self) -> AgentContext | None:
        """An agent job as it was left, where it is here."""
        match self.message:
            case AgentContext() as context:
                return context
            case DeadLetter(agent=context):
                return context
            case _:
                return None

    @property
    def agent_job(self) -> AgentJob | None:
        """The agent job that died, and not its result alone."""
        match self.message:
            case AgentJob() as job:
                return job
            case DeadLetter(reason=Reason.RESULT_UNROUTABLE):
                return None
            case _:
                return self.scene.job if self.scene is not None else None

    @property
    def rank(self) -> tuple[bool, float, int]:
        """Of copies, or letters of one attempt, the largest is the one to show and to send: the
        newest of those that have something to send."""
        there = (self.job, self.result, self.agent_job)
        return (any(each is not None for each in there), *self.head.age_key)

    @property
    def advice(self) -> str:
        """What would help."""
        if self.message is None and (about := loose(self.body)).is_ours:
            return OLDER_HERE if about.is_newer else INVALID_HERE
        return advice(self.head.reason, self.head.flaw)

    @property
    def result(self) -> GenerationResult | None:
        """The result that is here: of a candidate, or one that found no reader."""
        match self.message:
            case Candidate(result=result) | DeadLetter(result=result):
                return result
            case _:
                return None

    @property
    def lineage(self) -> Lineage:
        """All that is known of the job's attempts, the longest record of it."""
        known = [each.lineage for each in (self.job, self.result) if each is not None]
        return max(known, key=lambda lineage: len(lineage.attempts), default=Lineage())

    @property
    def metadata(self) -> dict[str, Any]:
        """The backend's own words about the job."""
        for each in (self.job, self.result, self.agent_job):
            if each is not None and each.metadata:
                return each.metadata
        return {}


def read_letter(
    body: bytes, properties: Properties, position: int = 0, key: "OpeningKey | None" = None
) -> Letter:
    """The view of a dead message, opened where it is sealed for this key. Never raises for what is
    in it. O(len(body))."""
    deaths = tuple(deaths_of(properties.headers))
    message, trouble = _decoded(body)
    hidden, was_sealed = "", False
    if isinstance(message, DeadLetter):
        was_sealed = message.texts == "encrypted"
        message, hidden = opened(message, key)
    draft = Letter(
        head=_head(body, properties, deaths, message, trouble, position),
        body=body,
        properties=properties,
        deaths=deaths,
        message=message,
        trouble=trouble,
        hidden=hidden,
        was_sealed=was_sealed and not hidden,
    )
    # The head is made of what the view tells, too.
    lineage, job, scene = draft.lineage, draft.job or draft.agent_job, draft.scene
    gate, flaw = culprit(message, lineage, scene)
    return msgspec.structs.replace(
        draft,
        head=msgspec.structs.replace(
            draft.head,
            gate=gate,
            flaw=flaw,
            profile=job.profile if job is not None else None,
            lane=job.lane if job is not None else None,
            worker=worker_of(message, lineage),
            attempts=len(lineage.attempts),
            rounds=scene.orchestration.spent.rounds if scene is not None else draft.head.rounds,
        ),
    )


def failed_text(record: AttemptRecord) -> str:
    """The rejected text that an attempt's record kept; empty where it was accepted or is gone."""
    return record.text if record.flaw is not None or record.found_by else ""


def bad_spans(record: AttemptRecord, channel: Channel = "content") -> list[tuple[int, int]]:
    """Where in an attempt's kept text, or its kept reasoning, the garbage stands: half open, in
    characters, in order, merged. By what ended the attempt, and by the checks; what a rollback or a
    cut took away is not there."""
    kept = record.text
    if channel == "reasoning":
        kept = record.reasoning.text if record.reasoning is not None else ""
    spans = [
        (trip.chars[0], trip.chars[1])
        for trip in record.trips
        if trip.action == "give_up" and trip.channel == channel
    ]
    if record.verdict is not None and channel == "content":
        spans += [
            (evidence.chars[0], evidence.chars[1])
            for check in record.verdict.checks
            if check.outcome == "rejected"
            for evidence in check.evidence
        ]
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        end = min(end, len(kept))  # noqa: PLW2901  the text was cut short
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _decoded(
    body: bytes,
) -> tuple[Kept | None, str]:
    # Of anything else the decoder of jobs says best what is wrong with it.
    kind = _BY_TAG.get(loose(body).type, GenerationJob)
    try:
        return decode(body, kind), ""
    except InvalidMessage as error:
        return None, str(error)


def _job_id(body: bytes, about: Loose) -> str | None:
    """The job of a body that can't be read. A letter has an id of its own besides."""
    job_id = about.job_id if about.type == tag_of(DeadLetter) else peek(body)[0]
    return tame(job_id, MAX_ID_CHARS) if job_id else None


def _head(
    body: bytes,
    properties: Properties,
    deaths: tuple[Death, ...],
    message: Kept | None,
    trouble: str,
    position: int,
) -> Head:
    queue = deaths[0].queue if deaths else ""
    at = deaths[0].at if deaths and deaths[0].at else properties.timestamp
    letter_id = content_id(properties.message_id.encode(errors="replace"), body)
    reason = deaths[0].reason if deaths else UNKNOWN
    match message:
        case DeadLetter():
            kind, job_id, letter_id = "letter", message.job_id, message.id
            reason, at, sentence = message.reason.value, message.at, message.detail
        case Candidate():
            kind, job_id, sentence = "candidate", message.job.id, broker_sentence(reason, queue)
        case GenerationJob():
            kind, job_id, sentence = "job", message.id, broker_sentence(reason, queue)
        case AgentJob():
            kind, job_id, sentence = "agent_job", message.id, broker_sentence(reason, queue)
        case AgentContext():
            kind, job_id, sentence = "agent_context", message.id, broker_sentence(reason, queue)
        case None:
            about = loose(body)
            kind, job_id = "raw", _job_id(body, about)
            if not deaths and not about.is_ours:
                reason = UNDECODABLE
            sentence = broker_sentence(reason, queue)
            if about.type == tag_of(DeadLetter):  # its own words, as far as they go
                letter_id, at = about.id or letter_id, about.at or at
                reason, sentence = about.reason or reason, about.detail or sentence
            sentence = f"{sentence}. {about.unread}: {trouble}"
    return Head(
        id=letter_id,
        # Nobody can tell whether what can't be read is the same: there it is by the whole body.
        key=content_id(letter_id.encode(), body if message is None else (job_id or "").encode()),
        kind=kind,
        job_id=job_id,
        reason=reason,
        gate="",
        flaw=None,
        sentence=tame(sentence),
        at=aware(at),
        worker="",
        profile=None,
        lane=None,
        attempts=0,
        bytes=len(body),
        position=position,
        rounds=0 if kind == "agent_job" else None,
    )
