"""What a dead letter becomes when it is sent back: the job, the candidate or the result again.

Pure. A job that comes back begins with the attempt after its last one, so that none of its outcomes
is a duplicate of one that was published before.
"""

import difflib
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeVar, cast

import msgspec
from msgspec import Struct

from ..guards.profiles import BadProfile, profile, profile_names
from ..schemas import (
    Candidate,
    DeadLetter,
    GenerationJob,
    GenerationResult,
    InvalidMessage,
    Lane,
    Names,
    Reason,
    Reasoning,
    Rules,
    Sampling,
    encode,
)
from ..schemas.codec import tag_of
from ..schemas.limits import MAX_OUTPUT_TOKENS
from .dlq_deaths import local
from .dlq_letter import Letter

# The shortest wait in the retry exchange: the broker carries what waits there on to where its
# routing key says, as soon as that has room, and loses none on the way.
RUNG: Final = "5s"
RUNG_HEADER: Final = "rung"
CHECKS_KEY: Final = "checks"
_TABLES: Final = ("sampling", "rules", "reasoning", "gates")
Part = TypeVar("Part", Sampling, Rules, Reasoning)


class Changes(Struct, frozen=True, kw_only=True):
    """What is to be different. `sets`: values of `sampling`, `rules`, `reasoning` and `gates` by
    their names."""

    sets: dict[str, dict[str, Any]] = {}
    profile: str | None = None
    lane: Lane | None = None
    max_attempts: int | None = None
    checks: Literal["off", "observe", "block"] | None = None
    no_deadline: bool = False
    deadline_in_s: float | None = None

    @property
    def asks_anew(self) -> bool:
        """Whether a text that is there already is no answer to what is asked now."""
        kept = Changes(no_deadline=self.no_deadline, deadline_in_s=self.deadline_in_s)
        return self != kept

    def deadline(self, job: GenerationJob, now: datetime) -> datetime | None:
        """The deadline that the job gets."""
        if self.deadline_in_s is not None:
            return now + timedelta(seconds=self.deadline_in_s)
        return None if self.no_deadline else job.deadline


class Sending(Struct, frozen=True, kw_only=True):
    """What is to be published. `safe`: a second copy is known as one by its reader, so it may be
    confirmed first and the letter acknowledged then."""

    exchange: str
    routing_key: str
    body: bytes
    kind: str
    job_id: str
    headers: dict[str, str]
    safe: bool = False

    @property
    def where(self) -> str:
        """In words, for a person."""
        return f"results of {self.routing_key}" if self.safe else self.routing_key


class Refusal(Struct, frozen=True):
    """Why a letter can't be sent back."""

    why: str


def parse_sets(said: Iterable[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    """`sampling.temperature=0.3` and the like. Values are JSON, or text where they are none.

    Raises InvalidMessage for a name that there is not, naming the nearest.
    """
    sets: dict[str, dict[str, Any]] = {}
    for key, text in said:
        table, _, name = key.partition(".")
        known = {
            "sampling": Sampling.__struct_fields__,
            "rules": Rules.__struct_fields__,
            "reasoning": Reasoning.__struct_fields__,
        }
        if table not in _TABLES or not name:
            raise InvalidMessage(
                Reason.INVALID_FIELD, key, f"say one of {', '.join(f'{t}.<name>' for t in _TABLES)}"
            )
        if table in known and name not in known[table]:
            near = difflib.get_close_matches(name, known[table], n=1)
            hint = f"; did you mean {table}.{near[0]}?" if near else ""
            raise InvalidMessage(Reason.INVALID_FIELD, key, f"there is no such field{hint}")
        sets.setdefault(table, {})[name] = _value(text)
    # Say now what no job can have. The rest is told of each, when it is put into the job.
    merged(Sampling(max_tokens=MAX_OUTPUT_TOKENS), sets.get("sampling", {}), "sampling")
    merged(Rules(), sets.get("rules", {}), "rules")
    merged(Reasoning(), sets.get("reasoning", {}), "reasoning")
    _require_gates(profile_names()[0], without_null(sets.get("gates", {})))
    return sets


def without_null(values: dict[str, Any]) -> dict[str, Any]:
    """The values but for those that are null."""
    return {name: value for name, value in values.items() if value is not None}


def _require_gates(name: str, gates: dict[str, Any]) -> None:
    """Raises InvalidMessage for a profile or thresholds that a worker would not take."""
    try:
        profile(name, gates)
    except BadProfile as error:
        raise InvalidMessage(Reason.INVALID_FIELD, "gates", str(error)) from error


def twin(letter: Letter, changes: Changes) -> str:
    """Letters for which this is the same would send the same attempt of the same job: only one of
    them may be sent. Copies of a letter are twins, too."""
    match letter.message:
        case DeadLetter(result=GenerationResult()) | None:
            return letter.head.key
        case Candidate(job=job) if not changes.asks_anew:
            return f"candidate {job.attempt} {job.id}"
        case _:
            job = letter.job
            return f"job {_next_attempt(letter, job)} {job.id}" if job else letter.head.key


def _next_attempt(letter: Letter, job: GenerationJob) -> int:
    return max([job.attempt, *(each.attempt for each in letter.lineage.attempts)]) + 1


def again(letter: Letter, names: Names, changes: Changes, now: datetime) -> Sending | Refusal:
    """What is published in the letter's place, or why nothing can be."""
    message = letter.message
    try:
        match message:
            case DeadLetter(result=GenerationResult() as result):
                return _result(message, result, names, changes)
            case Candidate() if not changes.asks_anew:
                return _candidate(letter, message, names, changes, now)
            case None:
                return Refusal(f"it can't be read: {letter.head.sentence}")
            case _:
                job = letter.job
                if job is None:
                    return Refusal("it has no job that could be read")
                return _job(letter, job, names, changes, now)
    except InvalidMessage as error:
        return Refusal(str(error))


def _job(
    letter: Letter, job: GenerationJob, names: Names, changes: Changes, now: datetime
) -> Sending | Refusal:
    deadline = changes.deadline(job, now)
    if (late := _late(deadline, now)) is not None:
        return late
    lineage = letter.lineage
    attempt = _next_attempt(letter, job)
    gates = without_null({**job.gates, **changes.sets.get("gates", {})})
    try:
        _require_gates(changes.profile or job.profile, gates)
    except InvalidMessage as error:
        return Refusal(f"{error}: --profile gives it another, --set gates.NAME=null takes one away")
    sent = msgspec.structs.replace(
        job,
        sampling=merged(job.sampling, changes.sets.get("sampling", {}), "sampling"),
        rules=merged(job.rules, changes.sets.get("rules", {}), "rules"),
        reasoning=merged(job.reasoning, changes.sets.get("reasoning", {}), "reasoning"),
        gates=gates,
        profile=changes.profile or job.profile,
        lane=changes.lane or job.lane,
        checks=changes.checks or job.checks,
        max_attempts=changes.max_attempts or job.max_attempts,
        deadline=deadline,
        attempt=attempt,
        first_attempt=attempt,
        mutation=None,
        lineage=lineage,
        enqueued_at=now,
    )
    return _through_retry(sent, names.jobs_key(sent.lane), encode(sent), names, sent)


def _candidate(
    letter: Letter, candidate: Candidate, names: Names, changes: Changes, now: datetime
) -> Sending | Refusal:
    job = candidate.job
    deadline = changes.deadline(job, now)
    if (late := _late(deadline, now)) is not None:
        return late
    body = letter.body
    if deadline != job.deadline:
        job = msgspec.structs.replace(job, deadline=deadline)
        body = encode(msgspec.structs.replace(candidate, job=job))
    return _through_retry(candidate, CHECKS_KEY, body, names, job)


def _through_retry(
    message: GenerationJob | Candidate, key: str, body: bytes, names: Names, job: GenerationJob
) -> Sending:
    headers = {RUNG_HEADER: RUNG}
    if job.traceparent:
        headers["traceparent"] = job.traceparent
    return Sending(
        exchange=names.retry,
        routing_key=key,
        body=body,
        kind=tag_of(type(message)),
        job_id=job.id,
        headers=headers,
    )


def _result(
    letter: DeadLetter, result: GenerationResult, names: Names, changes: Changes
) -> Sending | Refusal:
    if changes.asks_anew:
        return Refusal("it is a finished result: nothing of it can be changed")
    key = letter.origin.routing_key
    if not key:
        return Refusal("it does not say whose result it is")
    return Sending(
        exchange=names.results,
        routing_key=key,
        body=encode(result),
        kind=tag_of(GenerationResult),
        job_id=result.job_id,
        headers={},
        safe=True,
    )


def _late(deadline: datetime | None, now: datetime) -> Refusal | None:
    if deadline is None or deadline > now:
        return None
    return Refusal(
        f"its deadline passed at {local(deadline, '%Y-%m-%d %H:%M:%S')}: say --no-deadline, or "
        "--deadline-in 10m"
    )


def merged(part: Part, values: dict[str, Any], table: str) -> Part:
    """The part with these values in it, as JSON has them: keys are text. null is the default.
    Raises InvalidMessage."""
    if not values:
        return part
    whole = cast("dict[str, Any]", msgspec.to_builtins(part, str_keys=True)) | values
    try:
        return msgspec.convert(without_null(whole), type(part), str_keys=True)
    except msgspec.ValidationError as error:
        cause = error.__cause__
        detail = str(cause) if isinstance(cause, InvalidMessage) else str(error)
        raise InvalidMessage(Reason.INVALID_FIELD, table, detail) from error


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text.encode())
    except msgspec.MsgspecError:
        return text
