"""Messages without anybody's words: of what was asked, written, called and found each text is
replaced by a mark that tells its length.

What is not known to be harmless is a text: a field that is added later is hidden until it is named
here. Numbers, times, members of closed lists, ids and names of our own stay, so that reasons,
scores, spans, seeds and tokens can still be read.
"""

import functools
import hashlib
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from enum import Enum
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import Struct, structs

from .agents import (
    AgentContext,
    AgentJob,
    Assessment,
    CallSample,
    Finding,
    LedgerEntry,
    Round,
    Spent,
)
from .candidates import Candidate
from .dead_letters import DeadLetter, Origin
from .errors import MAX_DETAIL_CHARS, tame
from .events import Delta, JobEvent
from .jobs import GenerationJob
from .lineage import AttemptRecord, FaultRecord, HandoverRecord, SegmentRecord, TripRecord
from .mutations import Mutation
from .reasoning import ReasoningRecord
from .reasons import Reason
from .results import GenerationResult
from .rules import Rules
from .sampling import Sampling
from .tools import Approval, ToolCall
from .verdicts import CheckRecord, Verdict

S = TypeVar("S", bound=Struct)
Mark = Callable[[str], str]

# Strings that are names and ids of the system's own, or of the deployment.
_PLAIN: Final[dict[type[Struct], frozenset[str]]] = {
    DeadLetter: frozenset({"id", "job_id", "found_by", "versions"}),
    Origin: frozenset({"worker", "queue"}),
    GenerationJob: frozenset({"id", "profile", "reply_to", "traceparent"}),
    Rules: frozenset({"language", "own"}),
    Mutation: frozenset({"avoid"}),
    AttemptRecord: frozenset({"worker", "model", "engine", "found_by"}),
    FaultRecord: frozenset({"worker"}),
    HandoverRecord: frozenset({"worker"}),
    TripRecord: frozenset({"gate"}),
    ReasoningRecord: frozenset({"gate"}),
    CheckRecord: frozenset({"check"}),
    Verdict: frozenset({"checker", "model"}),
    GenerationResult: frozenset({"job_id", "model", "worker", "traceparent"}),
    AgentJob: frozenset({"id", "tools", "task_type", "profile", "reply_to", "traceparent"}),
    AgentContext: frozenset({"id", "by"}),
    Round: frozenset({"job_id"}),
    Finding: frozenset({"metric"}),
    Assessment: frozenset({"measured"}),
    Approval: frozenset({"by"}),
    ToolCall: frozenset({"effect_id"}),
    JobEvent: frozenset({"job_id", "worker"}),
}
# A tool as a model called it: any text, unless it is one of the job's own.
_TOOL_NAMES: Final[dict[type[Struct], str]] = {
    ToolCall: "name",
    CallSample: "tool",
    LedgerEntry: "tool",
}
# By these the reason tells all that there is, and the sentence is made of numbers and names.
_OWN_WORDS: Final = (
    Reason.ATTEMPT_TIMEOUT,
    Reason.DEADLINE_PASSED,
    Reason.RESULT_UNROUTABLE,
)
# Ids of messages are drawn, and routing keys are what a queue is bound by; neither is a text, but
# whoever publishes writes them.
_UUID: Final = re.compile(r"[0-9a-f-]{32,36}")
_KEY: Final = re.compile(r"[A-Za-z0-9_:.-]{0,255}")
# Numbers that a place in a text is told by: where it begins, and where it ends.
_SPAN: Final = 2
_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[\d+\]")


def marker(key: bytes = b"") -> Mark:
    """The mark of a text: its length, and with a key (16 bytes or more, kept secret) a keyed hash
    besides, by which equal texts are known as equal.

    Without a key there is no hash: that of a short prompt could be found by trying. Keyed BLAKE2b,
    64 bits: two of a million texts have the same one with a chance of about 3e-8.
    """
    secret = hashlib.blake2b(key, person=b"sluice texts").digest() if key else b""

    def mark(text: str) -> str:
        return f"[redacted: {len(text)} characters{_tag(text)}]"

    def _tag(text: str) -> str:
        if not secret:
            return ""
        raw = text.encode("utf-8", "surrogatepass")
        return f", {hashlib.blake2b(raw, digest_size=8, key=secret).hexdigest()}"

    return mark


def redacted_letter(letter: DeadLetter, mark: Mark) -> DeadLetter:
    """A dead letter without texts; `texts` says so. It decodes as before, and can't be sent back:
    the job is not in it any more. O(size)."""
    tools = frozenset(letter.agent.job.tools) if letter.agent is not None else frozenset[str]()
    ids = frozenset({letter.job_id or ""})
    hidden = _Hiding(mark, tools, ids).struct(letter)
    size = letter.raw_body_bytes
    if size is None and letter.raw_body is not None:
        size = len(letter.raw_body)
    return structs.replace(
        hidden,
        detail=letter.detail if letter.reason in _OWN_WORDS else hidden.detail,
        field=None if letter.field is None else _known_steps(letter.field),
        raw_body=None,
        raw_body_bytes=size,
        sealed=None,
        texts="redacted",
    )


def redacted_event(event: JobEvent, mark: Mark) -> JobEvent:
    """An event without texts, but for those that are its purpose: pieces of the text that its
    reader asked for."""
    return event if isinstance(event.event, Delta) else _Hiding(mark).struct(event)


class _Hiding:
    """One pass over a message."""

    def __init__(
        self, mark: Mark, tools: frozenset[str] = frozenset(), ids: frozenset[str] = frozenset()
    ) -> None:
        self._mark = mark
        self._tools = tools
        self._ids = ids

    def struct(self, value: S) -> S:
        """The same struct without its texts."""
        kind = type(value)
        plain = _PLAIN.get(kind, frozenset()) | _closed(kind)
        changes = {
            name: self._of(getattr(value, name))
            for name in kind.__struct_fields__
            if name not in plain
        }
        changes |= self._by_hand(value)
        return structs.replace(value, **changes)

    def _by_hand(self, value: Struct) -> dict[str, Any]:  # noqa: PLR0911 - one for each kind
        """Where a mark in the place of each text would not do."""
        kind = type(value)
        if (name := _TOOL_NAMES.get(kind)) is not None:
            return {name: self._tool(getattr(value, name)), **_no_fingerprint(value)}
        match value:
            case GenerationJob(prompt_token_ids=ids):
                # What was written before it was handed on: tokens, and a hash of all of it.
                hidden: dict[str, Any] = {"progress": None, "prompt_token_ids": None}
                return hidden | ({"prompt": f"[redacted: {len(ids)} tokens]"} if ids else {})
            case Sampling(logit_bias=bias) if bias:
                return {"logit_bias": {}}
            case SegmentRecord(parameters=parameters) | AttemptRecord(parameters=parameters):
                return {"parameters": _numbers(parameters)}
            case TripRecord():
                return {"banned": None}  # a token is a piece of the text
            case Origin():
                return {
                    "routing_key": self._if(_KEY.fullmatch, value.routing_key),
                    "message_id": self._if(_UUID.fullmatch, value.message_id),
                    "correlation_id": self._if(self._ids.__contains__, value.correlation_id),
                }
            case Spent(by_tool=by_tool):
                return {"by_tool": self._by_tool(by_tool)}
            case _:
                return _no_fingerprint(value)

    def _of(self, value: Any) -> Any:
        match value:
            case None | bool() | int() | float() | Enum() | datetime() | "":
                return value
            case str():
                return self._mark(value)
            case Struct():
                return self.struct(value)
            case tuple():
                return self._each(cast("tuple[Any, ...]", value))
            case dict():
                return {"redacted": self._mark(_as_text(value))} if value else {}
            case _:
                return None

    def _each(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """More numbers than a span has may be the ids of tokens, and so a text."""
        if len(values) > _SPAN and all(isinstance(each, int) for each in values):
            return ()
        return tuple(self._of(each) for each in values)

    def _tool(self, name: str) -> str:
        return name if name in self._tools else self._mark(name)

    def _by_tool(self, counts: dict[str, int]) -> dict[str, int]:
        """Calls by tool; those of names that a model made up are counted together."""
        kept = {name: count for name, count in counts.items() if name in self._tools}
        if (others := sum(counts.values()) - sum(kept.values())) > 0:
            kept["[redacted]"] = others
        return kept

    def _if(self, harmless: Callable[[str], object], text: str | None) -> str | None:
        return text if text is None or harmless(text) else self._mark(text)


def _no_fingerprint(value: Struct) -> dict[str, Any]:
    """Fingerprints are hashes without a key: who guesses a text would know."""
    return {"fingerprint": ""} if "fingerprint" in type(value).__struct_fields__ else {}


def _numbers(parameters: dict[str, Any]) -> dict[str, Any]:
    """Of sampling parameters, those that are numbers."""
    return {
        name: value
        for name, value in parameters.items()
        if name in Sampling.__struct_fields__ and isinstance(value, int | float)
    }


def _as_text(value: Any) -> str:
    try:
        return msgspec.json.encode(value, order="deterministic").decode()
    except (TypeError, ValueError, UnicodeEncodeError):
        return repr(value)


def _known_steps(path: str) -> str:
    """A JSON path as far as it is made of names of ours: a publisher's own keys may be any text."""
    steps = "$"
    for found in _STEP.finditer(path.removeprefix("$")):
        name = found[1]
        if name is not None and name not in _field_names():
            return f"{steps}.[redacted]"
        steps += found[0] if name is None else f".{name}"
    return tame(steps, MAX_DETAIL_CHARS)


@functools.cache
def _field_names() -> frozenset[str]:
    """Every field of every message, and the tags by which they are known."""
    names: set[str] = set()
    for kind in _structs(DeadLetter, Candidate, JobEvent):
        names |= set(kind.__struct_fields__)
    return frozenset(names | {"type", "kind"})


def _structs(*roots: type[Struct]) -> Iterator[type[Struct]]:
    """The structs that can stand in these, themselves included."""
    seen: set[type[Struct]] = set()
    waiting: list[Any] = [msgspec.inspect.type_info(root) for root in roots]
    while waiting:
        info = waiting.pop()
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls in seen:
                continue
            seen.add(info.cls)
            yield info.cls
        waiting.extend(_inside(info))


@functools.cache
def _closed(kind: type[Struct]) -> frozenset[str]:
    """The fields that can hold nobody's text: members of closed lists, numbers, times."""
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)  # noqa: S101
    return frozenset(field.name for field in info.fields if _is_closed(field.type))


def _is_closed(info: Any) -> bool:
    kinds = msgspec.inspect
    match info:
        case kinds.UnionType(types=types):
            return all(_is_closed(each) for each in types)
        case kinds.CustomType():
            return False
        case _:
            return isinstance(
                info,
                kinds.LiteralType
                | kinds.EnumType
                | kinds.IntType
                | kinds.FloatType
                | kinds.BoolType
                | kinds.NoneType
                | kinds.DateTimeType,
            )


def _inside(info: Any) -> Iterator[Any]:
    """The types that a type is made of."""
    kinds = msgspec.inspect
    match info:
        case kinds.StructType(fields=fields):
            yield from (field.type for field in fields)
        case kinds.UnionType(types=types):
            yield from types
        case kinds.VarTupleType(item_type=item) | kinds.ListType(item_type=item):
            yield item
        case kinds.TupleType(item_types=items):
            yield from items
        case kinds.DictType(key_type=key, value_type=value):
            yield from (key, value)
        case kinds.Metadata(type=wrapped):
            yield wrapped
        case _:
            pass
