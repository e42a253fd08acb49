"""The conversation of an agent job as its model is told it, from the record alone.

It begins with the system's words, which are never edited, and grows only at its end: what is said
behind a round (where the job stands, a reminder) stays there, so that the engine's prefix cache
holds from round to round. Folding older rounds away is the exception, and seldom.
"""

from collections.abc import Iterable, Sequence

from ...schemas import AgentContext, Round, ToolCall, ToolSpec, Usage
from ...schemas.tools import RAN
from ..dialects.dialect import Came, Said, Told, Turn
from . import ledger


def conversation(
    context: AgentContext, tools: Sequence[ToolSpec] = (), *, room_tokens: int | None = None
) -> tuple[Turn, ...]:
    """System, task, what is left of the rounds that were folded away, and the others in full, each
    as what was said and what came of it. Behind the task stand the job's limits, behind each round
    how far it has come.

    `tools`: by them it is known which calls changed something; those stay longest among the lines
    of the ledger. `room_tokens` is the model's context: of a small one the ledger takes less. The
    same for all prompts of a job. Raises ValueError where a call is open: such a history is no
    valid one.
    """
    job = context.job
    turns: list[Turn] = [Told("system", job.system)] if job.system.strip() else []
    turns.append(Told("user", f"{job.task}\n\n{limits_line(context)}"))
    if (memory := memory_text(context, tools, room_tokens)) is not None:
        turns.append(Told("user", memory))
    rounds = told_in_full(context)
    for this, state in zip(rounds, _states(context, rounds), strict=True):
        if any(call.is_open for call in this.calls):
            raise ValueError(f"round {this.number} of {context.id} has a call without a result")
        turns.append(Said(this.said, this.calls))
        behind = f"{state}\n{this.reminder}" if this.reminder else state
        turns.append(Came(this.calls, this.failure, behind))
    return tuple(turns)


def told_in_full(context: AgentContext) -> tuple[Round, ...]:
    """The rounds that were not folded away."""
    through = context.execution.memory.through
    return tuple(this for this in context.execution.rounds if this.number > through)


def memory_text(
    context: AgentContext, tools: Sequence[ToolSpec] = (), room_tokens: int | None = None
) -> str | None:
    """Summary and ledger of the rounds that were folded away; None where none were."""
    memory = context.execution.memory
    if not memory.through:
        return None
    parts = [f"[Rounds 1 to {memory.through}, in short]"]
    if memory.summary:
        parts.append(memory.summary)
    told, left_out = ledger.lines(
        memory.ledger, ledger.changing(tools), ledger.shown_chars(room_tokens)
    )
    if told:
        parts.append("[The record of these rounds]")
        parts.extend(told)
    if (missing := left_out + memory.ledger_dropped) > 0:
        parts.append(f"- and {missing:,} more that are not listed here")
    return "\n".join(parts)


def limits_line(context: AgentContext) -> str:
    """What the job may use. The same for all of its prompts."""
    budget = context.job.budget
    return (
        f"[You have at most {budget.rounds:,} rounds, {budget.tool_calls:,} tool calls and "
        f"{budget.tokens:,} tokens.]"
    )


def tokens_of(usage: Usage) -> int:
    """Those that count against the budget."""
    return usage.prompt_tokens + usage.completion_tokens + usage.wasted_tokens


def counted(calls: Iterable[ToolCall]) -> int:
    """How many calls count against the budget: those that were run."""
    return sum(call.result is not None and call.result.status in RAN for call in calls)


def _states(context: AgentContext, rounds: Sequence[Round]) -> list[str]:
    """How far the job had come after each of these rounds. What is spent now, less what the later
    rounds spent: so a line stays the same when rounds come behind it."""
    budget, spent = context.job.budget, context.orchestration.spent
    tokens, calls = spent.tokens, spent.tool_calls
    lines: list[str] = []
    for this in reversed(rounds):
        lines.append(
            f"[Round {this.number:,} of at most {budget.rounds:,} is over; {max(0, calls):,} of "
            f"{budget.tool_calls:,} tool calls and {max(0, tokens):,} of {budget.tokens:,} tokens "
            "are used.]"
        )
        tokens -= tokens_of(this.usage)
        calls -= counted(this.calls)
    return lines[::-1]
