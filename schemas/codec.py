"""Bytes to messages and back: JSON on the wire, every limit checked, every error with its field."""

import json
import math
import re
from typing import Any, TypeVar, cast

import msgspec

from .agents import AgentContext, AgentJob, JournalEntry
from .candidates import Candidate
from .checks import lone_surrogate, walk
from .choices import choices
from .control import CancelJob, Pause, Resume
from .dead_letters import DeadLetter
from .errors import InvalidMessage
from .events import JobEvent
from .jobs import GenerationJob
from .limits import MAX_CONTEXT_BYTES, MAX_ID_CHARS, MAX_JOB_BYTES, MAX_OUTCOME_BYTES
from .reasons import Reason
from .results import GenerationResult
from .services import ServiceEvent
from .tools import ToolReply, ToolRequest
from .version import SCHEMA_VERSION

Message = (
    GenerationJob
    | Candidate
    | GenerationResult
    | JobEvent
    | ServiceEvent
    | DeadLetter
    | CancelJob
    | Pause
    | Resume
    | AgentJob
    | AgentContext
    | JournalEntry
    | ToolRequest
    | ToolReply
)
M = TypeVar("M", bound=Message)

MESSAGE_TYPES: tuple[type[Message], ...] = (
    GenerationJob,
    Candidate,
    GenerationResult,
    JobEvent,
    ServiceEvent,
    DeadLetter,
    CancelJob,
    Pause,
    Resume,
    AgentJob,
    AgentContext,
    JournalEntry,
    ToolRequest,
    ToolReply,
)
# Of bodies larger or smaller than an outcome.
_LIMITS: dict[type[Message], int] = {
    GenerationJob: MAX_JOB_BYTES,
    CancelJob: MAX_JOB_BYTES,
    Pause: MAX_JOB_BYTES,
    Resume: MAX_JOB_BYTES,
    ServiceEvent: MAX_JOB_BYTES,
    AgentJob: MAX_JOB_BYTES,
    AgentContext: MAX_CONTEXT_BYTES,
    ToolRequest: MAX_JOB_BYTES,
    ToolReply: MAX_JOB_BYTES,
}
CONTENT_TYPE = "application/json"

_decoders = {kind: msgspec.json.Decoder(kind) for kind in MESSAGE_TYPES}
_encoder = msgspec.json.Encoder()


class _Head(msgspec.Struct):
    type: str | msgspec.UnsetType = msgspec.UNSET
    schema_version: int | msgspec.UnsetType = msgspec.UNSET
    id: Any = msgspec.UNSET
    job_id: Any = msgspec.UNSET
    reply_to: Any = msgspec.UNSET
    lineage: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    job: Any = msgspec.UNSET


def tag_of(kind: type[Message]) -> str:
    """The value of `type` on the wire."""
    return str(kind.__struct_config__.tag)


def required_fields(kind: type[Message]) -> tuple[str, ...]:
    """Fields with a default in Python that still must be said on the wire.

    An id made up at each decoding would make every redelivery another job.
    """
    return tuple(name for name in ("schema_version", "id") if name in kind.__struct_fields__)


def limit_of(kind: type[Message]) -> int:
    """The largest body of this kind, in bytes. A job that has a lineage, since the system published
    it again, may be as large as an outcome."""
    return _LIMITS.get(kind, MAX_OUTCOME_BYTES)


def encode(message: Message) -> bytes:
    """The JSON body of a message, checked as its consumer will check it.

    Raises InvalidMessage, naming the field, for anything a consumer would refuse.
    """
    kind = type(message)
    try:
        body = _encoder.encode(message)
    except UnicodeEncodeError as error:
        raise _first_fault(msgspec.to_builtins(message)) or _malformed(str(error)) from error
    except RecursionError as error:
        raise InvalidMessage(Reason.TOO_DEEP, "$", "nested too deeply to be written") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidMessage(Reason.WRONG_TYPE, "$", str(error)) from error
    decode(body, kind)
    return body


def decode(body: bytes, kind: type[M]) -> M:
    """The message in a body, or InvalidMessage with reason, field and limit. O(len(body))."""
    limit = limit_of(kind)
    if limit < len(body) <= MAX_OUTCOME_BYTES and kind is GenerationJob and _has_lineage(body):
        limit = MAX_OUTCOME_BYTES
    if len(body) > limit:
        raise InvalidMessage(
            Reason.TOO_LARGE, "$", f"the body has {len(body):,} bytes, the limit is {limit:,}"
        )
    try:
        head = msgspec.json.decode(body, type=_Head)
        _check_head(head, kind)
        return cast("M", _decoders[kind].decode(body))
    except RecursionError as error:
        raise InvalidMessage(Reason.TOO_DEEP, "$", "nested too deeply to be read") from error
    except msgspec.ValidationError as error:
        raise _from_validation(error, kind) from error
    except msgspec.DecodeError as error:
        raise diagnose(body, error) from error


def _has_lineage(body: bytes) -> bool:
    try:
        return msgspec.json.decode(body, type=_Head).lineage is not msgspec.UNSET
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False


def peek(body: bytes) -> tuple[str | None, str | None]:
    """The job id and reply key of a body that can't be decoded, where they are sane."""
    if len(body) > MAX_OUTCOME_BYTES:
        return None, None
    try:
        head = msgspec.json.decode(body, type=_Head)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        head = _lenient_head(body)
    # A candidate has both in its job.
    job = cast("dict[str, Any]", head.job) if isinstance(head.job, dict) else {}
    return (
        _sane(head.id) or _sane(head.job_id) or _sane(job.get("id")),
        _sane(head.reply_to) or _sane(job.get("reply_to")),
    )


def _lenient_head(body: bytes) -> "_Head":
    """The head of a body that is JSON but for a NaN or half a surrogate pair."""
    try:
        lenient = json.loads(body)
    except (ValueError, RecursionError):
        return _Head()
    if not isinstance(lenient, dict):
        return _Head()
    found = cast("dict[str, Any]", lenient)
    return _Head(
        id=found.get("id"),
        job_id=found.get("job_id"),
        reply_to=found.get("reply_to"),
        job=found.get("job"),
    )


def _sane(value: object) -> str | None:
    pattern = rf"[A-Za-z0-9][A-Za-z0-9_:-]{{0,{MAX_ID_CHARS - 1}}}"
    return value if isinstance(value, str) and re.fullmatch(pattern, value) else None


def _check_head(head: _Head, kind: type[Message]) -> None:
    if head.type is msgspec.UNSET:
        raise InvalidMessage(Reason.MISSING_FIELD, "$.type", f'say "type": "{tag_of(kind)}"')
    if head.type != tag_of(kind):
        known = ", ".join(tag_of(each) for each in MESSAGE_TYPES)
        raise InvalidMessage(
            Reason.UNKNOWN_TYPE,
            "$.type",
            f"{head.type!r} is not {tag_of(kind)!r}, which belongs here (known: {known})",
        )
    for name in required_fields(kind):
        if getattr(head, name) is msgspec.UNSET:
            raise InvalidMessage(Reason.MISSING_FIELD, f"$.{name}", "is required")
    version = cast("int", head.schema_version)
    if version > SCHEMA_VERSION:
        raise InvalidMessage(
            Reason.FUTURE_VERSION,
            "$.schema_version",
            f"{version} is newer than {SCHEMA_VERSION}, the newest known here: upgrade this side",
        )
    if version < 1:
        raise InvalidMessage(
            Reason.INVALID_FIELD, "$.schema_version", f"{version} is less than 1, the first version"
        )


def _from_validation(error: msgspec.ValidationError, kind: type[Message]) -> InvalidMessage:
    text = str(error)
    match = re.fullmatch(r"(?P<detail>.*?) - at (?P<where>`.*`)", text, re.DOTALL)
    detail, field = (match["detail"], match["where"]) if match else (text, "$")
    path = re.search(r"`(\$[^`]*)`\Z", field)
    field = path[1] if path else "$"
    ours = error.__cause__
    if isinstance(ours, InvalidMessage):
        # `__post_init__` knows the field's name, msgspec the path of the struct around it.
        return InvalidMessage(ours.reason, f"{field}.{ours.field}".rstrip("."), ours.detail)
    if missing := re.match(r"Object missing required field `([^`]+)`", detail):
        return InvalidMessage(Reason.MISSING_FIELD, f"{field}.{missing[1]}", "is required")
    unlisted = re.match(r"Invalid enum value (.+)", detail, re.DOTALL)
    if unlisted and (known := choices(kind, field)):
        detail = f"{unlisted[1]} is none of {', '.join(known)}"
    wrong_type = re.match(r"Expected `[^`]+`, got", detail) is not None
    return InvalidMessage(Reason.WRONG_TYPE if wrong_type else Reason.INVALID_FIELD, field, detail)


def _malformed(detail: str) -> InvalidMessage:
    return InvalidMessage(Reason.MALFORMED_JSON, "$", detail)


def diagnose(body: bytes, error: msgspec.DecodeError) -> InvalidMessage:
    """Say more about bad JSON than "invalid character": the lenient parser finds the field."""
    try:
        text = body.decode(errors="surrogateescape")
        lenient = json.loads(text, parse_constant=_Constant)
    except (ValueError, RecursionError):
        return _malformed(str(error))
    return _first_fault(lenient) or _malformed(str(error))


class _Constant(str):
    """`NaN`, `Infinity` or `-Infinity` in the text of a JSON body."""

    __slots__ = ()


def _first_fault(value: Any) -> InvalidMessage | None:
    for place, node in walk(value, "$"):
        if isinstance(node, _Constant):
            detail = f"must be a finite number, not {node}"
            return InvalidMessage(Reason.INVALID_FIELD, str(place), detail)
        if isinstance(node, float) and not math.isfinite(node):
            detail = "must be a finite number; this one is too large"
            return InvalidMessage(Reason.INVALID_FIELD, str(place), detail)
        if isinstance(node, str) and (at := lone_surrogate(node)) is not None:
            if "\udc80" <= node[at] <= "\udcff":  # what `surrogateescape` makes of such a byte
                detail = f"is not UTF-8 at character {at}"
                return InvalidMessage(Reason.MALFORMED_JSON, str(place), detail)
            detail = f"has half a surrogate pair at character {at}"
            return InvalidMessage(Reason.INVALID_FIELD, str(place), detail)
        if isinstance(node, dict):
            keys = cast("dict[Any, Any]", node)
            if any(isinstance(key, str) and lone_surrogate(key) is not None for key in keys):
                detail = "has a key with half a surrogate pair"
                return InvalidMessage(Reason.INVALID_FIELD, str(place), detail)
    return None
