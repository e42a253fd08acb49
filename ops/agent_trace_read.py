"""What the journal has of one agent job, put in order: attempts, rounds, calls, the end. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, Literal

import msgspec
from msgspec import Struct

from ..schemas import AgentContext, AgentJob, JournalEntry, Round, ToolCall, ToolResult
from ..schemas.agents import Begun, Closed, Dispatched, Ended, Memory, Returned

# The longest that a call may take where no setting says other; the journal has no tool's own time.
PATIENCE_S: Final = 600.0


class TracedCall(Struct, frozen=True, kw_only=True):
    """A call. `dispatched`: how often it was made, as far as the journal goes; `lost`: it was made,
    and nothing says what came of it, though the job went on without, or is over, or all the time is
    over that a call may take. `running_s`: it is being made, for so many seconds."""

    call: ToolCall
    dispatched: int = 0
    lost: bool = False
    running_s: float | None = None


class TracedRound(Struct, frozen=True, kw_only=True):
    """A round; `round` is None while it is under way. `closed`: how often it was written down: more
    than once where a step was taken again, or the job runs twice."""

    number: int
    round: Round | None = None
    calls: tuple[TracedCall, ...] = ()
    closed: int = 0


class Trace(Struct, frozen=True, kw_only=True):
    """One attempt of an agent job. `job`: what is asked for, where that is known. `first` and
    `last`: times of its lines. `context` is the whole state at the end, where it has ended, `ended`
    how, and `why` before its model said so. `ends`: how often its end was written down."""

    job_id: str
    attempt: int
    job: AgentJob | None = None
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


def gather(
    job_id: str,
    lines: Iterable[JournalEntry],
    now: datetime | None = None,
    *,
    patience_s: float = PATIENCE_S,
) -> list[Trace]:
    """The attempts of a job, the first first, out of its lines in the order they were written.
    `now`: otherwise the time of the last line. A call without a result is lost after `patience_s`
    seconds."""
    attempts: dict[int, _Attempt] = {}
    for line in lines:
        number = attempt_of(line)
        attempts.setdefault(number, _Attempt(job_id, number)).add(line)
    newest = max(attempts, default=0)
    return [
        attempts[number].trace(now, patience_s if number == newest else 0.0)
        for number in sorted(attempts)
    ]


def of_scene(context: AgentContext, why: str) -> Trace:
    """The attempt that a dead letter holds, which says `why`."""
    rounds = tuple(_whole(this) for this in context.execution.rounds)
    return Trace(
        job_id=context.id,
        attempt=context.job.attempt,
        job=context.job,
        first=context.orchestration.started_at,
        last=context.at,
        by=(context.by,) if context.by else (),
        rounds=rounds,
        context=context,
        why=why,
        source="dead letter",
    )


def given_up(rounds: Iterable[TracedRound]) -> tuple[TracedRound, ...]:
    """The rounds of a job that is over: whatever ran there runs no more."""
    return tuple(
        msgspec.structs.replace(each, calls=tuple(map(_given_up, each.calls))) for each in rounds
    )


def _given_up(one: TracedCall) -> TracedCall:
    if one.running_s is None:
        return one
    return msgspec.structs.replace(one, running_s=None, lost=True)


def attempt_of(line: JournalEntry) -> int:
    """The attempt that a line is of."""
    match line.entry:
        case Begun(job=job):
            return job.attempt
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
        self._job: AgentJob | None = None
        self._times: list[datetime] = []
        self._by: dict[str, None] = {}
        self._closed: dict[int, list[Round]] = {}
        self._calls: dict[int, dict[str, ToolCall]] = {}
        self._made: dict[str, int] = {}
        self._made_at: dict[str, datetime] = {}
        self._results: dict[str, ToolResult] = {}
        self._ended: list[Ended] = []

    def add(self, line: JournalEntry) -> None:
        self._times.append(line.at)
        if line.by:
            self._by[line.by] = None
        match line.entry:
            case Begun(job=job):
                self._job = job
            case Dispatched(effect_id=effect, round=number, call=call):
                self._made_at[effect] = line.at
                self._calls.setdefault(number, {})[effect] = call
                self._made[effect] = self._made.get(effect, 0) + 1
            case Returned(effect_id=effect, result=result):
                self._results[effect] = result
            case Closed(round=this):
                self._closed.setdefault(this.number, []).append(this)
            case Ended() as ended:
                self._ended.append(ended)

    def trace(self, now: datetime | None, patience_s: float) -> Trace:
        ended = self._ended[-1] if self._ended else None
        context = ended.context if ended is not None else None
        stop = context.orchestration.stop if context is not None else None
        # The end has the rounds that the journal has forgotten, and what was closed by the end.
        kept = {this.number: this for this in context.execution.rounds} if context else {}
        numbers = sorted({*self._closed, *self._calls, *kept})
        last = max(self._times, default=None)
        # Of a job that is over nothing runs, and of one that goes on only its last round.
        since = {} if ended is not None or not numbers else {numbers[-1]: now or last}
        return Trace(
            job_id=self._job_id,
            attempt=self._number,
            job=context.job if context is not None else self._job,
            first=min(self._times, default=None),
            last=last,
            by=tuple(self._by),
            rounds=tuple(
                self._round(number, kept, since.get(number), patience_s) for number in numbers
            ),
            ended=ended,
            ends=len(self._ended),
            context=context,
            why=f"{stop.reason}: {stop.detail}" if stop is not None else "",
        )

    def _round(
        self, number: int, kept: dict[int, Round], now: datetime | None, patience_s: float
    ) -> TracedRound:
        closed = self._closed.get(number, [])
        this = closed[-1] if closed else kept.get(number)
        calls: Sequence[ToolCall] = (
            this.calls if this is not None else tuple(self._calls.get(number, {}).values())
        )
        return TracedRound(
            number=number,
            round=this,
            calls=tuple(
                self._call(call, now if this is None else None, patience_s) for call in calls
            ),
            closed=len(closed),
        )

    def _call(self, call: ToolCall, now: datetime | None, patience_s: float) -> TracedCall:
        """`now`: None where nothing of its round can still run."""
        result = call.result or self._results.get(call.effect_id)
        made = self._made.get(call.effect_id, 0)
        missing = bool(made) and result is None
        running_s: float | None = None
        if missing and now is not None:
            age_s = max(0.0, (now - self._made_at[call.effect_id]).total_seconds())
            running_s = age_s if age_s < patience_s else None
        return TracedCall(
            call=msgspec.structs.replace(call, result=result),
            dispatched=made,
            lost=missing and running_s is None,
            running_s=running_s,
        )


def _whole(this: Round) -> TracedRound:
    return TracedRound(
        number=this.number, round=this, calls=tuple(TracedCall(call=call) for call in this.calls)
    )
