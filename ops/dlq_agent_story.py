"""The story of a dead agent job for a terminal: what it was to do, each round in a few lines, and
what is done and what is not."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from ..schemas import (
    AgentContext,
    AgentJob,
    Budget,
    Decision,
    Reasoning,
    Round,
    Sampling,
    ToolCall,
)
from ..worker.agent.final import done_and_not_done
from .console import table
from .dlq_deaths import local
from .dlq_text import excerpt, marked
from .dlq_values import as_json, changed, values
from .plain_text import one_line

_TEXT: Final = 300
_ARGUMENTS: Final = 120
_CONTENT: Final = 100
_SENTENCE: Final = 240
_ROUNDS_SHOWN: Final = 12
_SENTENCES_SHOWN: Final = 12


def agent_story(
    job: AgentJob,
    scene: AgentContext | None,
    now: datetime,
    *,
    colour: bool,
    limit: int,
    whole: bool,
) -> Iterator[tuple[str, list[str]]]:
    """Titles and lines. `limit`: characters of the last text; `whole`: every round and sentence."""
    yield "the agent job", list(table(_agent_job(job, now), indent="  "))
    if scene is None:
        return
    yield "how it stood", list(table(_standing(scene), indent="  "))
    for title, lines in (
        ("the rounds", _rounds(scene, whole=whole)),
        ("what is done, and what is not", _done(scene, whole=whole)),
        ("what it said last", _last_prose(scene, colour=colour, limit=limit)),
    ):
        if told := list(lines):
            yield title, told


def _agent_job(job: AgentJob, now: datetime) -> Iterator[tuple[str, str]]:
    """What was asked, as rows."""
    yield "task", one_line(job.task, _TEXT)
    if job.system:
        yield "system", one_line(job.system, _TEXT)
    yield "tools", one_line(", ".join(job.tools), 2 * _TEXT) or "none"
    yield "asked", f"profile {job.profile}, lane {job.lane}, task type {job.task_type}"
    yield "format", job.format
    yield "attempt", str(job.attempt)
    yield "sampling", changed(job.sampling, Sampling()) or "as usual"
    if budget := changed(job.budget, Budget()):
        yield "budget", budget
    if reasoning := changed(job.reasoning, Reasoning()):
        yield "reasoning", reasoning
    for name, free in (("gates", job.gates), ("watchdog", job.watchdog)):
        if free:
            yield name, values(free)
    if job.deadline is not None:
        passed = "passed" if job.deadline <= now else "not passed yet"
        yield "deadline", f"{local(job.deadline, '%Y-%m-%d %H:%M:%S')}, {passed}"
    yield "reply key", job.reply_to
    if job.metadata:
        yield "metadata", values(job.metadata)


def _standing(scene: AgentContext) -> Iterator[tuple[str, str]]:
    """How it stood at the end, as rows."""
    orchestration, budget = scene.orchestration, scene.job.budget
    spent = orchestration.spent
    if (stop := orchestration.stop) is not None:
        yield "ended for", one_line(f"{stop.reason}: {stop.detail}".rstrip(": "), _TEXT)
    yield "phase", f"{orchestration.phase}, revision {scene.revision}"
    yield "breaker", _breaker(scene.decision)
    yield "tokens", f"{spent.tokens:,} of {budget.tokens:,}"
    yield "rounds", f"{spent.rounds:,} of {budget.rounds:,}"
    by_tool = ", ".join(f"{name} {count}" for name, count in spent.by_tool.items())
    told = f" ({one_line(by_tool, _TEXT)})" if by_tool else ""
    yield "calls", f"{spent.tool_calls:,} of {budget.tool_calls:,}{told}"
    waited = f", waited {spent.waited_s:.0f} s for a person" if spent.waited_s else ""
    yield "time", f"model {spent.engine_s:.1f} s, tools {spent.tools_s:.1f} s{waited}"


def _breaker(decision: Decision) -> str:
    degree = f", asked to {decision.degree}" if decision.degree != "none" else ""
    row = f", {decision.warnings} in a row" if decision.warnings else ""
    because = f": {decision.because}" if decision.because else ""
    return one_line(f"{decision.state}{row}{degree}{because}", _TEXT)


def _rounds(scene: AgentContext, *, whole: bool) -> Iterator[str]:
    """Each round in a few lines, the oldest first; `whole`: all of them."""
    memory = scene.execution.memory
    if memory.through:
        dropped = f", {memory.ledger_dropped} more were dropped" if memory.ledger_dropped else ""
        counts = Counter(entry.status.value for entry in memory.ledger)
        said = ", ".join(f"{count} {status}" for status, count in counts.most_common())
        yield f"  rounds up to {memory.through} are summed up; calls: {said or 'none'}{dropped}"
        if memory.summary:
            limit = len(memory.summary) if whole else _TEXT
            yield f"      {one_line(memory.summary, limit)}"
    told = scene.execution.rounds
    shown = told if whole else told[-_ROUNDS_SHOWN:]
    if len(shown) < len(told):
        yield f"  (the last {len(shown)} of {len(told)} rounds; --full has all)"
    for each in shown:
        yield from _one_round(each)


def _one_round(this: Round) -> Iterator[str]:
    usage = this.usage
    tokens = usage.prompt_tokens + usage.completion_tokens + usage.wasted_tokens
    score = f", score {this.assessment.score}" if this.assessment is not None else ""
    degraded = ", unused tools only" if this.degraded else ""
    yield (
        f"  ● round {this.number}  {local(this.at, '%H:%M:%S')}  {tokens:,} tokens, model "
        f"{this.engine_s:.1f} s, tools {this.tools_s:.1f} s{score}, "
        f"{one_line(this.decision.state, 32)}{degraded}"
    )
    if this.failure is not None:
        failure = this.failure
        quote = f" “{one_line(failure.quote, _CONTENT)}”" if failure.quote else ""
        yield f"      not read: {one_line(f'{failure.kind}: {failure.detail}', _TEXT)}{quote}"
    for call in this.calls:
        yield f"      {_call(call)}"
    for finding in this.assessment.findings if this.assessment is not None else ():
        points = f", {finding.points} points" if finding.points else ""
        yield "      found: " + one_line(
            f"{finding.metric} {finding.value:.4g} against {finding.threshold:.4g}{points}"
            f"{f': {finding.detail}' if finding.detail else ''}",
            _TEXT,
        )
    if this.decision.degree != "none":
        yield f"      breaker: {_breaker(this.decision)}"
    if this.reminder:
        yield f"      reminded: {one_line(this.reminder, _SENTENCE)}"


def _call(call: ToolCall) -> str:
    asked = f"{one_line(call.name, 64)} {one_line(as_json(call.arguments), _ARGUMENTS)}"
    approval = _approval(call)
    if call.result is None:
        return f"{asked}: open{approval}"
    result = call.result
    left = ", left behind" if result.abandoned else ""
    content = f" “{one_line(result.content, _CONTENT)}”" if result.content else ""
    took = f", {result.seconds:.1f} s" if result.seconds else ""
    return f"{asked}: {result.status.value}{approval}{took}{left}{content}"


def _approval(call: ToolCall) -> str:
    if call.approval is None:
        return ""
    by = f" by {one_line(call.approval.by, 64)}" if call.approval.by else ""
    return f" ({call.approval.state.replace('_', ' ')}{by})"


def _done(scene: AgentContext, *, whole: bool) -> Iterator[str]:
    """What is done and what is not, by the record."""
    succeeded, failed = done_and_not_done(scene)
    yield from _sentences("done", succeeded, whole=whole)
    yield from _sentences("not done", failed, whole=whole)


def _sentences(title: str, sentences: Sequence[str], *, whole: bool) -> Iterator[str]:
    if not sentences:
        yield f"  {title}: nothing"
        return
    yield f"  {title}:"
    shown = sentences if whole else sentences[-_SENTENCES_SHOWN:]
    if len(shown) < len(sentences):
        yield f"    (the last {len(shown)} of {len(sentences)})"
    for sentence in shown:
        yield f"    - {one_line(sentence, _SENTENCE)}"


def _last_prose(scene: AgentContext, *, colour: bool, limit: int) -> Iterator[str]:
    """What the model said last for people."""
    said = next((each.prose for each in reversed(scene.execution.rounds) if each.prose.strip()), "")
    if not said:
        return
    text, _, _, more = excerpt(said, (), limit)
    yield from marked(text + (" …" if more else ""), (), colour=colour, indent="  ")
