"""An agent job drawn round by round, for a terminal of 80 columns. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import click

from ..schemas import AgentRecord, Assessment, Decision, Round, ToolStatus, Usage
from ..worker.agent.final import done_and_not_done
from .agent_text import told_once
from .agent_trace_read import Trace, TracedCall, TracedRound
from .columns import columns, fit, wrapped
from .dlq_values import as_json
from .submit_progress import counted

WIDTH: Final = 80
_LEAST_WIDTH: Final = 60
_TEXT_LINES: Final = 24
_WHY_LINES: Final = 6
_SENTENCES: Final = 12
_LABEL: Final = 10
_MINUTES_FROM_S: Final = 120
# Degrees and states that call for a look, by their colour.
_COLOURS: Final = {"warn": "yellow", "degrade": "yellow", "terminate": "red"}


def drawn(trace: Trace, *, width: int = WIDTH, colour: bool = False) -> Iterator[str]:
    """All of it."""
    yield from head(trace, width=width)
    for each in trace.rounds:
        yield from round_lines(each, width=width, colour=colour)
    yield from end(trace, width=width, colour=colour)


class Growing:
    """Draws a job that goes on: each time what is new of it."""

    def __init__(self, *, width: int = WIDTH, colour: bool = False) -> None:
        self._width = width
        self._colour = colour
        self._attempt = 0
        self._shown: set[int] = set()

    def more(self, trace: Trace) -> Iterator[str]:
        """The head where the attempt is another, rounds that were closed, and the end."""
        if trace.attempt != self._attempt:
            self._attempt = trace.attempt
            self._shown = set()
            yield from head(trace, width=self._width)
        for each in trace.rounds:
            if each.round is not None and each.number not in self._shown:
                self._shown.add(each.number)
                yield from round_lines(each, width=self._width, colour=self._colour)
        if trace.ended is not None:
            yield from end(trace, width=self._width, colour=self._colour)


def head(trace: Trace, *, width: int = WIDTH) -> Iterator[str]:
    """What it is, and what it was to do, as far as that is known."""
    width = max(_LEAST_WIDTH, width)
    attempt = f", attempt {trace.attempt}" if trace.attempt > 1 else ""
    yield fit(f"agent job {trace.job_id}{attempt}", width)
    if trace.source != "journal":
        yield fit(f"(from its {trace.source}: the journal has nothing of it any more)", width)
    if (job := trace.job) is not None:
        budget = job.budget
        yield _row("task", job.task, width)
        yield _row("tools", ", ".join(job.tools) or "none", width)
        yield from _long(
            "budget",
            f"{budget.rounds:,} rounds, {budget.tool_calls:,} calls, {budget.tokens:,} tokens, "
            f"{budget.wall_s:,.0f} s; task type {job.task_type}, format {job.format}",
            width,
        )
    if trace.by:
        yield _row("by", ", ".join(trace.by), width)
    if (memory := trace.memory) is not None:
        missing = f", {memory.ledger_dropped:,} more were dropped" if memory.ledger_dropped else ""
        yield from _long(
            "folded",
            f"rounds 1 to {memory.through:,} were summed up by the end; "
            f"{counted(len(memory.ledger), 'call')} of them on record{missing}",
            width,
        )


def round_lines(each: TracedRound, *, width: int = WIDTH, colour: bool = False) -> Iterator[str]:
    """One round: a rule, what was called and what came of it, what watchdog and breaker said."""
    width = max(_LEAST_WIDTH, width)
    yield ""
    this = each.round
    if this is None:
        yield _rule(f"round {each.number}", "under way", width)
        yield from (_call(one, width) for one in each.calls)
        return
    yield _rule(f"round {each.number}{_notes(each, this)}", _spent(this), width)
    if this.prose.strip():
        yield f"  “{fit(this.prose, width - 4)}”"
    if this.failure is not None:
        failure = this.failure
        yield _row("not read", f"{failure.kind}: {failure.detail} “{failure.quote}”", width)
    for one in each.calls:
        yield _call(one, width)
        yield from _beneath(one, width)
    if this.assessment is not None:
        yield from _score(this.assessment, width)
    yield from _breaker(this.decision, width, colour=colour)
    if this.reminder:
        yield from _long("reminded", this.reminder, width)


def end(trace: Trace, *, width: int = WIDTH, colour: bool = False) -> Iterator[str]:
    """The outcome, what is done and what is not, what it cost, and the text."""
    width = max(_LEAST_WIDTH, width)
    yield ""
    if trace.context is None:
        yield _rule("not over", "", width)
        for number, name, running_s in _missing(trace):
            if running_s is None:
                yield _row(
                    "unknown", f"round {number}: {name} was called, nothing came back", width
                )
            else:
                yield _row("running", f"round {number}: {name}, for {_duration(running_s)}", width)
        yield fit(
            "  The journal has no end of it: it runs, waits for a person, or has died.", width
        )
        return
    ended = trace.ended
    outcome = ended.outcome if ended is not None else "died"
    title = f"{outcome} after {counted(trace.context.orchestration.spent.rounds, 'round')}"
    yield _coloured(_rule(title, "", width), "green" if outcome == "completed" else "red", colour)
    if trace.ends > 1:
        note = "its last step was taken again, or it was published more than once"
        yield from _long("note", f"its end was written {trace.ends} times: {note}", width)
    if trace.why:
        yield from _long("why", trace.why, width)
    yield from _bill(trace, width)
    done, not_done = _sentences(trace, ended.record if ended is not None else None)
    yield from _listed("done", done, width)
    yield from _listed("not done", not_done, width)
    if ended is not None and ended.text.strip():
        by = "" if ended.record.written_by == "model" else ", put together from the record"
        yield f"  text{by}:"
        yield from (f"    {line}" for line in wrapped(ended.text, width - 4, most=_TEXT_LINES))


def _rule(left: str, right: str, width: int) -> str:
    left, right = fit(left, width - 24), fit(right, 40)
    start, stop = f"── {left} ", f" {right}" if right else ""
    return f"{start}{'─' * max(2, width - columns(start) - columns(stop))}{stop}"


def _row(label: str, text: str, width: int) -> str:
    return f"  {label:<{_LABEL}}{fit(text, width - _LABEL - 2)}".rstrip()


def _long(label: str, text: str, width: int) -> Iterator[str]:
    lines = wrapped(" ".join(text.split()), width - _LABEL - 2, most=_WHY_LINES)
    yield from (_row(label if not at else "", line, width) for at, line in enumerate(lines))


def _notes(each: TracedRound, this: Round) -> str:
    said = [f"{this.at.astimezone():%H:%M:%S}"]
    if this.degraded:
        said.append("unused tools only")
    if each.closed > 1:
        said.append(f"written {each.closed} times")
    return "".join(f", {one}" for one in said)


def _spent(this: Round) -> str:
    usage = this.usage
    wasted = f" + {usage.wasted_tokens:,} lost" if usage.wasted_tokens else ""
    seconds = this.engine_s + this.tools_s
    return f"{usage.prompt_tokens:,} in + {usage.completion_tokens:,} out{wasted}, {seconds:.2f} s"


def _call(one: TracedCall, width: int) -> str:
    call, result = one.call, one.call.result
    if one.running_s is not None:
        came = f"running for {_duration(one.running_s)}"
    elif result is None:
        came = "called, nothing came back: unknown" if one.lost else "open"
    else:
        came = result.status.value.replace("_", " ")
        if result.seconds:
            came += f" {result.seconds:.2f} s"
        if result.abandoned:
            came += ", left behind"
    if one.dispatched > 1:
        came += f", made {one.dispatched} times"
    room = width - columns(came) - 6
    asked = fit(f"{call.name} {as_json(call.arguments)}", room)
    gap = " " * max(1, room - columns(asked) + 1)
    return f"  ▸ {asked}{gap}{came}".rstrip()


def _beneath(one: TracedCall, width: int) -> Iterator[str]:
    approval, result = one.call.approval, one.call.result
    if approval is not None:
        state = approval.state.replace("_", " ")
        by = f" by {approval.by}" if approval.by else ""
        why = f": {approval.why}" if approval.why else ""
        yield f"    {fit(f'approval {state}{by}{why}', width - 4)}"
    if result is not None and result.content:
        cut = f" ({result.whole_chars:,} characters in all)" if result.whole_chars else ""
        yield f"    {fit(f'= {result.content}', width - 4 - len(cut))}{cut}"


def _score(assessment: Assessment, width: int) -> Iterator[str]:
    if not assessment.findings:
        return
    sum_ = " + ".join(f"{each.metric} {each.points}" for each in assessment.findings)
    yield _row("score", f"{assessment.score} = {sum_}", width)
    for each in assessment.findings:
        detail = each.detail or f"{each.value:.4g} against {each.threshold:.4g}"
        yield _row("", detail, width)


def _breaker(decision: Decision, width: int, *, colour: bool) -> Iterator[str]:
    if decision.state == "normal" and decision.degree == "none":
        return
    row = f", {counted(decision.warnings, 'warning')}" if decision.warnings else ""
    asks = f" → {decision.degree}" if decision.degree != "none" else ""
    line = _row("breaker", f"{decision.state}{row}{asks}", width)
    yield _coloured(line, _COLOURS.get(decision.degree), colour)


def _coloured(line: str, name: str | None, colour: bool) -> str:
    return click.style(line, fg=name) if colour and name is not None else line


def _bill(trace: Trace, width: int) -> Iterator[str]:
    assert trace.context is not None  # noqa: S101 - `end` has looked
    spent = trace.context.orchestration.spent
    usage: Usage = spent.usage
    wasted = f", {usage.wasted_tokens:,} lost" if usage.wasted_tokens else ""
    yield _row(
        "spent",
        f"{spent.tokens:,} tokens ({usage.prompt_tokens:,} in, {usage.completion_tokens:,} out"
        f"{wasted}), {counted(spent.tool_calls, 'call')}",
        width,
    )
    waited = f", waited {spent.waited_s:,.1f} s for a person" if spent.waited_s else ""
    yield _row(
        "time", f"model {spent.engine_s:,.2f} s, tools {spent.tools_s:,.2f} s{waited}", width
    )


def _sentences(trace: Trace, record: AgentRecord | None) -> tuple[Sequence[str], Sequence[str]]:
    if record is not None:
        return record.done, record.not_done
    assert trace.context is not None  # noqa: S101 - `end` has looked
    return done_and_not_done(trace.context)


def _listed(label: str, sentences: Sequence[str], width: int) -> Iterator[str]:
    if not sentences:
        yield _row(label, "nothing", width)
        return
    sentences = told_once(sentences)
    shown = sentences[-_SENTENCES:]
    more = f", the last {len(shown)} of {len(sentences)}" if len(shown) < len(sentences) else ""
    yield f"  {label}{more}:"
    yield from (f"    - {fit(sentence, width - 6)}" for sentence in shown)


def _missing(trace: Trace) -> Iterator[tuple[int, str, float | None]]:
    """Calls of which nothing came back: round, tool, and for how long they have been running."""
    for each in trace.rounds:
        for one in each.calls:
            result = one.call.result
            unknown = result is not None and result.status is ToolStatus.UNKNOWN
            if one.lost or unknown or one.running_s is not None:
                yield each.number, one.call.name, one.running_s


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < _MINUTES_FROM_S else f"{seconds / 60:.0f} min"


def waiting_line(
    tool: str, arguments: dict[str, Any], expires_at: datetime, *, width: int = WIDTH
) -> str:
    """A call that waits for a person."""
    until = f"{expires_at.astimezone():%m-%d %H:%M}"
    said = f" until {until}: `sluice agent approvals`"
    asked = fit(f"{tool} {as_json(arguments)}", width - columns(said) - 10)
    return f"  waits: {asked}{said}"
