"""Traces of agent jobs: what was called, round by round, and whether it goes round in circles.

A file has one trace a line. `agent_traces_made` makes the synthetic ones.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, BinaryIO, Final

import msgspec
from msgspec import Meta, Struct

from ..guards.signatures import call_sample
from ..guards.watchdog_thresholds import Watchdog
from ..schemas import Budget, RoundSample, SluiceError
from ..schemas.limits import MAX_SUMMARY_CHARS
from ..schemas.tools import ToolCall, ToolResult, ToolSpec, ToolStatus

_START: Final = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
# Between two rounds: queueing, and what else is not the round's own.
_GAP: Final = timedelta(seconds=0.5)

Positive = Annotated[int, Meta(ge=1, le=10_000)]


class BadTrace(SluiceError, ValueError):
    """A line of a file is no trace; the message says which and why."""


class TraceCall(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A call and what came of it."""

    tool: str
    arguments: dict[str, Any] = {}
    result: str = ""
    status: ToolStatus = ToolStatus.OK


class TraceRound(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A round. `waited_s`: in the queue, before the engine admitted it."""

    prose: str = ""
    calls: tuple[TraceCall, ...] = ()
    tokens: Annotated[int, Meta(ge=0)] = 1_500
    wall_s: Annotated[float, Meta(ge=0)] = 4.0
    waited_s: Annotated[float, Meta(ge=0)] = 0.0
    failed: bool = False


class Trace(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An agent's rounds, the first of which is round 1. `onset`: the first that only does again
    what was done; None for a healthy one, or where nobody knows."""

    id: str
    kind: str
    task_type: str = "default"
    looping: bool
    onset: Positive | None = None
    budget: Budget = Budget()
    tools: tuple[ToolSpec, ...] = ()
    rounds: tuple[TraceRound, ...]


def samples(trace: Trace, rules: Watchdog) -> Iterator[RoundSample]:
    """The rounds as the watchdog sees them."""
    specs = {spec.name: spec for spec in trace.tools}
    at = _START
    for number, each in enumerate(trace.rounds, 1):
        at += timedelta(seconds=each.waited_s)
        seconds = each.wall_s if rules.from_admission else each.wall_s + each.waited_s
        calls = tuple(
            call_sample(
                _call(call, number, place),
                specs.get(call.tool),
                at,
                noise=not rules.noise_is_nothing,
            )
            for place, call in enumerate(each.calls)
        )
        at += timedelta(seconds=each.wall_s)
        yield RoundSample(
            number=number,
            at=at,
            tokens=each.tokens,
            wall_s=seconds,
            prose=(each.prose if rules.prose_only else _said(each))[:MAX_SUMMARY_CHARS],
            calls=calls,
            failed=each.failed,
        )
        at += _GAP


def read_traces(file: BinaryIO | Iterable[bytes]) -> list[Trace]:
    """The traces of a file, blank lines aside. Raises BadTrace."""
    found: list[Trace] = []
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            trace = msgspec.json.decode(line, type=Trace)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
            raise BadTrace(f"line {number}: {error}") from None
        if not trace.looping and trace.onset is not None:
            raise BadTrace(f"line {number}: a healthy trace has no onset")
        if trace.onset is not None and trace.onset > len(trace.rounds):
            raise BadTrace(f"line {number}: the onset is behind the last round")
        found.append(trace)
    return found


def write_traces(traces: Iterable[Trace]) -> bytes:
    """The file's content for these traces."""
    return b"".join(msgspec.json.encode(trace) + b"\n" for trace in traces)


def _call(call: TraceCall, number: int, place: int) -> ToolCall:
    return ToolCall(
        id=f"{number}.{place}",
        name=call.tool,
        arguments=call.arguments,
        effect_id=f"trace:{number}:{place}",
        result=ToolResult(status=call.status, content=call.result),
    )


def _said(each: TraceRound) -> str:
    """The whole output, as most models write a call."""
    calls = [
        msgspec.json.encode({"name": call.tool, "arguments": call.arguments}).decode()
        for call in each.calls
    ]
    return "\n".join([each.prose, *(f"<tool_call>\n{call}\n</tool_call>" for call in calls)])
