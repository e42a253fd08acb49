"""The state of an agent job from step to step. Pure: each function gives the next context.

Each layer has one writer here: `said` and `closed` write execution, `measured` writes monitoring,
decision comes from the breaker, and orchestration from whoever spends something.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal

import msgspec

from ...schemas import (
    AgentContext,
    AgentJob,
    Assessment,
    Decision,
    GenerationResult,
    Monitoring,
    Round,
    Stop,
    ToolCall,
    ToolSpec,
    Usage,
)
from ...schemas.agents import Ending, Execution, Orchestration, Spent, effect_id, round_job_id
from ...schemas.limits import MAX_PROMPT_CHARS, MAX_SUMMARY_CHARS
from ...schemas.tools import RAN
from ..dialects.dialect import Parsed

replace = msgspec.structs.replace

_NOT_TEXT: Final = re.compile("[\x00\ud800-\udfff]")


def key_of(context: AgentContext) -> tuple[str, int]:
    """What makes two contexts of one run of a job."""
    return context.id, context.job.attempt


def begun(job: AgentJob, now: datetime, by: str, rules: str = "") -> AgentContext:
    """The first context of a job. `rules` of the deployment stand behind the job's own system
    prompt from here on, so that all its prompts begin alike, whoever makes them."""
    if rules and rules not in job.system:
        system = f"{job.system}\n\n{rules}" if job.system.strip() else rules
        job = replace(job, system=system[:MAX_PROMPT_CHARS])
    return AgentContext(
        id=job.id, at=now, by=by, job=job, orchestration=Orchestration(started_at=now)
    )


def stepped(context: AgentContext, now: datetime, by: str) -> AgentContext:
    """The context as it is published: a revision further."""
    return replace(context, revision=context.revision + 1, at=now, by=by)


def open_generation(context: AgentContext) -> tuple[str, ...]:
    """Ids of the generation jobs that may be under way for it."""
    number = next_number(context)
    match context.orchestration.phase:
        case "thinking":
            return round_job_id(context.job, number), round_job_id(context.job, number, "fold")
        case "finishing":
            return (round_job_id(context.job, number, "final"),)
        case _:
            return ()


def spent(context: AgentContext, result: GenerationResult) -> AgentContext:
    """The tokens and seconds of a generation job, whatever became of it."""
    before = context.orchestration.spent
    return _spend(
        context,
        usage=Usage.total((before.usage, result.usage)),
        engine_s=before.engine_s + result.timings.engine_s,
    )


def said(
    context: AgentContext, result: GenerationResult, parsed: Parsed, now: datetime
) -> AgentContext:
    """A new round, with what the model said. Its calls are open; where it said none, it is over but
    for the watchdog."""
    number = next_number(context)
    calls = tuple(
        ToolCall(
            id=clean(asked.id) or f"call-{number}-{index}",
            name=clean(asked.name),
            arguments=asked.arguments,
            effect_id=effect_id(context.job, number, index),
        )
        for index, asked in enumerate(parsed.calls)
    )
    this = Round(
        number=number,
        at=now,
        job_id=round_job_id(context.job, number),
        said=clean(result.text)[:MAX_SUMMARY_CHARS],
        prose=clean(parsed.prose)[:MAX_SUMMARY_CHARS],
        calls=calls,
        failure=parsed.failure,
        degraded=context.decision.degree == "degrade",
        usage=result.usage,
        engine_s=result.timings.engine_s,
    )
    execution = replace(context.execution, rounds=(*context.execution.rounds, this))
    before = context.orchestration.spent
    context = _spend(replace(context, execution=execution), rounds=before.rounds + 1)
    return to(context, "calling")


def clean(text: str) -> str:
    """What a model says, fit for its next prompt: NUL and half surrogate pairs become U+FFFD, as in
    what a tool returns."""
    return _NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)


def next_number(context: AgentContext) -> int:
    """Of the round that comes. Rounds that were folded away count."""
    return context.orchestration.spent.rounds + 1


def last_round(context: AgentContext) -> Round:
    """The round that was begun last."""
    return context.execution.rounds[-1]


def with_calls(
    context: AgentContext, calls: Sequence[ToolCall], *, tools_s: float = 0.0
) -> AgentContext:
    """The last round with these calls in place of its own; what ran now is counted as spent."""
    this = last_round(context)
    before = context.orchestration.spent
    by_tool = dict(before.by_tool)
    ran = 0
    for old, new in zip(this.calls, calls, strict=True):
        if old.result is None and new.result is not None and new.result.status in RAN:
            by_tool[new.name] = by_tool.get(new.name, 0) + 1
            ran += 1
    context = _with_last(context, replace(this, calls=tuple(calls), tools_s=this.tools_s + tools_s))
    return _spend(
        context,
        tool_calls=before.tool_calls + ran,
        by_tool=by_tool,
        tools_s=before.tools_s + tools_s,
    )


def closed(
    context: AgentContext, assessment: Assessment, decision: Decision, reminder: str
) -> AgentContext:
    """The last round with what watchdog and breaker make of it; the next one may begin."""
    this = replace(last_round(context), assessment=assessment, decision=decision, reminder=reminder)
    return to(replace(_with_last(context, this), decision=decision), "thinking")


def unused(context: AgentContext, specs: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """The tools that were not called yet, and may be."""
    called = context.orchestration.spent.by_tool
    return tuple(spec for spec in specs if spec.name not in called and spec.quota != 0)


def to(context: AgentContext, phase: str) -> AgentContext:
    """The context in another phase."""
    return _orchestrate(context, phase=phase)


def stopping(context: AgentContext, stop: Stop) -> AgentContext:
    """The context, on its way to the end."""
    return _orchestrate(context, phase="finishing", stop=stop)


def ending(
    context: AgentContext, text: str, written_by: Literal["model", "template"]
) -> AgentContext:
    """The context with what it comes to, which is to be told."""
    told = Ending(text=text[:MAX_PROMPT_CHARS], written_by=written_by)
    return _orchestrate(context, phase="ending", ending=told)


def waiting(context: AgentContext, now: datetime) -> AgentContext:
    """The context, left to a person."""
    return _orchestrate(context, phase="approving", waiting_since=now)


def _orchestrate(context: AgentContext, **changes: object) -> AgentContext:
    return replace(context, orchestration=replace(context.orchestration, **changes))


def _spend(context: AgentContext, **changes: object) -> AgentContext:
    more: Spent = replace(context.orchestration.spent, **changes)
    return _orchestrate(context, spent=more)


def _with_last(context: AgentContext, this: Round) -> AgentContext:
    execution: Execution = replace(context.execution, rounds=(*context.execution.rounds[:-1], this))
    return replace(context, execution=execution)


def measured(context: AgentContext, monitoring: Monitoring) -> AgentContext:
    """The context with the watchdog's windows."""
    return replace(context, monitoring=monitoring)
