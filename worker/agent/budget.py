"""Hard budgets: what a job may still spend, what is kept for its final answer, and when it must
end. Pure; times are the caller's."""

import math
from datetime import datetime, timedelta

from ...schemas import AgentContext, Budget, Reason, Stop
from ...schemas.errors import tame


def reserve(budget: Budget) -> tuple[int, float]:
    """Tokens and seconds that are kept for the final answer."""
    tokens = min(budget.tokens, math.ceil(budget.tokens * budget.answer_share))
    return tokens, budget.wall_s * budget.answer_share


def is_final(context: AgentContext) -> bool:
    """Whether the reserve may be used."""
    return context.orchestration.phase == "finishing"


def token_limit(context: AgentContext) -> int:
    """The tokens that may be spent by now, in all: without the reserve before the final phase."""
    budget = context.job.budget
    return budget.tokens if is_final(context) else budget.tokens - reserve(budget)[0]


def wall_limit(context: AgentContext) -> float:
    """The same of the seconds."""
    budget = context.job.budget
    return budget.wall_s if is_final(context) else budget.wall_s - reserve(budget)[1]


def worked_s(context: AgentContext, now: datetime) -> float:
    """Seconds since the job began, less those that it waited for a person."""
    orchestration = context.orchestration
    waited = orchestration.spent.waited_s
    if orchestration.waiting_since is not None:
        waited += max(0.0, (now - orchestration.waiting_since).total_seconds())
    return max(0.0, (now - orchestration.started_at).total_seconds() - waited)


def calls_left(context: AgentContext) -> int:
    """How many tool calls the budget has left."""
    return max(0, context.job.budget.tool_calls - context.orchestration.spent.tool_calls)


def room(context: AgentContext, prompt_tokens: int, *, room_tokens: int) -> int:
    """How many tokens an answer to a prompt may have: the job's `max_tokens`, what is left of the
    model's context of `room_tokens`, and of the budget; 0 where there is no room."""
    left = token_limit(context) - context.orchestration.spent.tokens - prompt_tokens
    return max(0, min(context.job.sampling.max_tokens, room_tokens - prompt_tokens, left))


def hard_stop(context: AgentContext, now: datetime, *, next_prompt_tokens: int = 0) -> Stop | None:
    """Which budget is spent, if any: it is once the limit is reached, and of the tokens once the
    next prompt would reach it, for then there is none for an answer. Before the final phase tokens,
    wall time and the time up to the deadline are less the reserve. A budget of no tool calls is
    none that could be spent.
    """
    for reason, detail in (
        (Reason.DEADLINE_PASSED, _deadline(context, now)),
        (Reason.BUDGET_SPENT, _tokens(context, next_prompt_tokens)),
        (Reason.BUDGET_SPENT, _calls(context)),
        (Reason.BUDGET_SPENT, _rounds(context)),
        (Reason.BUDGET_SPENT, _wall(context, now)),
    ):
        if detail is not None:
            return Stop(reason=reason, detail=tame(detail))
    return None


def _deadline(context: AgentContext, now: datetime) -> str | None:
    deadline = context.job.deadline
    if deadline is None:
        return None
    kept = 0.0
    if not is_final(context):
        # Of a short time the share alone: the whole reserve could be more than all of it.
        whole = max(0.0, (deadline - context.orchestration.started_at).total_seconds())
        kept = min(reserve(context.job.budget)[1], whole * context.job.budget.answer_share)
    if now < deadline - timedelta(seconds=kept):
        return None
    said = f"the deadline {deadline.isoformat(timespec='seconds')}"
    if now >= deadline:
        return f"{said} has passed"
    return f"{said} is near, and the last {kept:,.1f} s are kept for the final answer"


def _tokens(context: AgentContext, coming: int) -> str | None:
    spent, limit = context.orchestration.spent.tokens, token_limit(context)
    if spent + coming < limit:
        return None
    more = f" and the next prompt has {coming:,}" if coming and spent < limit else ""
    return f"{spent:,} of {context.job.budget.tokens:,} tokens are used{more}" + _kept(
        context, f"{reserve(context.job.budget)[0]:,}"
    )


def _calls(context: AgentContext) -> str | None:
    limit = context.job.budget.tool_calls
    if not limit or calls_left(context):
        return None
    return f"{context.orchestration.spent.tool_calls:,} of {limit:,} tool calls are used"


def _rounds(context: AgentContext) -> str | None:
    rounds, limit = context.orchestration.spent.rounds, context.job.budget.rounds
    return None if rounds < limit else f"{rounds:,} of {limit:,} rounds are used"


def _wall(context: AgentContext, now: datetime) -> str | None:
    worked = worked_s(context, now)
    if worked < wall_limit(context):
        return None
    budget = context.job.budget
    return f"{worked:,.1f} of {budget.wall_s:,.1f} s are used" + _kept(
        context, f"{reserve(budget)[1]:,.1f} s"
    )


def _kept(context: AgentContext, amount: str) -> str:
    return "" if is_final(context) else f", and {amount} of them are kept for the final answer"
