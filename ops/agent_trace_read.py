"""What the journal has of one agent job, put in order: attempts, rounds, calls, the end. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal

import msgspec
from msgspec import Struct

from ..schemas import AgentContext, JournalEntry, Round, ToolCall, ToolResult
from ..schemas.agents import Closed, Dispatched, Ended, Memory, Returned


class TracedCall(Struct, frozen=True, kw_only=True):
    """A call. `dispatched`: how often it was made, as far as the journal goes; `lost`: it was made,
    and nothing says what came of it."""

    call: ToolCall
    dispatched: int = 0
    lost: bool = False


class TracedRound(Struct, frozen=True, kw_only=True):
    """A round; `round` is None while it is under way. `closed`: how often it was written down: more
    than once where a step was taken again, or the job runs twice."""

    number: int
    round: Round | None = None
    calls: tuple[TracedCall, ...] = ()
    closed: int = 0


class Trace(Struct, frozen=True, kw_only=True):
    """One attempt of an agent job. `first` and `last`: times of its lines. `context` is the whole
    state at the end, where it has ended, `ended` how, and `why` before its model said so. `ends`:
    how often its end was written down."""

    job_id: str
    attempt: int
    first: datetime | None = None
    last: datetime | None = None
    by: tuple[str, ...] = ()
    rounds: tuple[TracedRound, ...] = ()
    ended: Ended | None = None
    ends: int = 0
    context: AgentContext | None = None
    why: str = ""
    source: Literal["journal", "dead letter"] = "journal"

    @property
    def memory(self) -> Memory | None:
        """What is left of the rounds that were summed up; None where none were, as far as known."""
        memory = self.context.execution.memory if self.context is not None else None
        return memory if memory is not None and memory.through else None


def gather(job_id: str, lines: Iterable[JournalEntry]) -> list[Trace]:
    """The attempts of a job, the first first, out of its lines in the order they were written."""
    attempts: dict[int, _Attempt] = {}
    for line in lines:
        number = _attempt(line)
        attempts.setdefault(number, _Attempt(job_id, number)).add(line)
    return [attempts[number].trace() for number in sorted(attempts)]


def of_scene(context: AgentContext, why: str) -> Trace:
    """The attempt that a dead letter holds, which says `why`."""
    rounds = tuple(_whole(this) for this in context.execution.rounds)
    return Trace(
        job_id=context.id,
        attempt=context.job.attempt,
        first=context.orchestration.started_at,
        last=context.at,
        by=(context.by,) if context.by else (),
        rounds=rounds,
        context=context,
        why=why,
        source="dead letter",
    )


def _attempt(line: JournalEntry) -> int:
    match line.entry:
        case Dispatched(effect_id=name) | Returned(effect_id=name):
            return _number(name, line.job_id)
        case Closed(round=this):
            return _number(this.job_id, line.job_id)
        case Ended(context=context):
            return context.job.attempt


def _number(name: str, job_id: str) -> int:
    """Of `<job>:<attempt>:...`."""
    said, _, _ = name.removeprefix(f"{job_id}:").partition(":")
    return int(said) if said.isascii() and said.isdecimal() else 1


class _Attempt:
    """Grows line by line."""

    def __init__(self, job_id: str, number: int) -> None:
        self._job_id = job_id
        self._number = number
        self._times: list[datetime] = []
        self._by: dict[str, None] = {}
        self._closed: dict[int, list[Round]] = {}
        self._calls: dict[int, dict[str, ToolCall]] = {}
        self._made: dict[str, int] = {}
        self._results: dict[str, ToolResult] = {}
        self._ended: list[Ended] = []

    def add(self, line: JournalEntry) -> None:
        self._times.append(line.at)
        if line.by:
            self._by[line.by] = None
        match line.entry:
            case Dispatched(effect_id=effect, round=number, call=call):
                self._calls.setdefault(number, {})[effect] = call
                self._made[effect] = self._made.get(effect, 0) + 1
            case Returned(effect_id=effect, result=result):
                self._results[effect] = result
            case Closed(round=this):
                self._closed.setdefault(this.number, []).append(this)
            case Ended() as ended:
                self._ended.append(ended)

    def trace(self) -> Trace:
        ended = self._ended[-1] if self._ended else None
        context = ended.context if ended is not None else None
        stop = context.orchestration.stop if context is not None else None
        # The end has the rounds that the journal has forgotten, and what was closed by the end.
        kept = {this.number: this for this in context.execution.rounds} if context else {}
        numbers = sorted({*self._closed, *self._calls, *kept})
        return Trace(
            job_id=self._job_id,
            attempt=self._number,
            first=min(self._times, default=None),
            last=max(self._times, default=None),
            by=tuple(self._by),
            rounds=tuple(self._round(number, kept) for number in numbers),
            ended=ended,
            ends=len(self._ended),
            context=context,
            why=f"{stop.reason}: {stop.detail}" if stop is not None else "",
        )

    def _round(self, number: int, kept: dict[int, Round]) -> TracedRound:
        closed = self._closed.get(number, [])
        this = closed[-1] if closed else kept.get(number)
        calls: Sequence[ToolCall] = (
            this.calls if this is not None else tuple(self._calls.get(number, {}).values())
        )
        return TracedRound(
            number=number,
            round=this,
            calls=tuple(map(self._call, calls)),
            closed=len(closed),
        )

    def _call(self, call: ToolCall) -> TracedCall:
        result = call.result or self._results.get(call.effect_id)
        made = self._made.get(call.effect_id, 0)
        return TracedCall(
            call=msgspec.structs.replace(call, result=result),
            dispatched=made,
            lost=bool(made) and result is None,
        )


def _whole(this: Round) -> TracedRound:
    return TracedRound(
        number=this.number, round=this, calls=tuple(TracedCall(call=call) for call in this.calls)
    )
