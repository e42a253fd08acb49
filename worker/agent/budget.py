"""Hard budgets: what a job may still spend, what is kept for its final answer, and when it must
end. Pure; times are the caller's.

What holds. Before the final phase nothing is begun that could use up more than is left before the
reserve: not of the tokens (`allowance`: prompts, answers, what rollbacks throw away and what
retries cost, together), and not of the time (`left_s`: answers and calls are ended then; a tool
that will not be ended takes its grace longer). Two things are not known beforehand: reasoning that
the guard over it cuts, at no rollback's price, as often as its ladder has rungs, and a deployment's
own, larger `max_wasted_tokens`. Such an answer may go over, and the next round sees it. The final
call stays within the budget where it can, its prompt cut short. Where so little is left that it
can't, it has the reserve all the same: it is asked for as long as there is time, and room in the
model and the reserve. A job then spends more than its budget by what that answer went over.
"""

import math
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from ...schemas import AgentContext, Budget, Reason, Stop
from ...schemas.errors import tame

# As many as a generation job has by default.
_MOST_ATTEMPTS: Final = 3
# An answer shorter than this, in tokens, is none.
LEAST_ANSWER: Final = 16
# An answer isn't made shorter than so many tokens for the sake of a rollback: most calls and most
# answers are.
_SHORT: Final = 1_024


class Allowance(Struct, frozen=True):
    """What one generation job may have: tokens of an answer, attempts, and tokens that may be
    thrown away in each before there is no further rollback."""

    tokens: int
    attempts: int
    wasted: int


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


def last_moment(context: AgentContext) -> datetime | None:
    """The deadline, less what is kept before it for the final answer; None for a job without."""
    deadline = context.job.deadline
    if deadline is None or is_final(context):
        return deadline
    # Of a short time the share alone: the whole reserve could be more than all of it.
    whole = max(0.0, (deadline - context.orchestration.started_at).total_seconds())
    budget = context.job.budget
    return deadline - timedelta(seconds=min(reserve(budget)[1], whole * budget.answer_share))


def left_s(context: AgentContext, now: datetime) -> float:
    """Seconds that an answer or a round of calls may take: until the wall time is used up, or the
    deadline comes, less the reserve before the final phase. Under 0 where it is too late."""
    left = wall_limit(context) - worked_s(context, now)
    last = last_moment(context)
    return left if last is None else min(left, (last - now).total_seconds())


def tokens_left(context: AgentContext, *, over: bool = False) -> int:
    """Tokens that may be spent yet. `over`: at least the reserve, whatever was spent before."""
    left = token_limit(context) - context.orchestration.spent.tokens
    return max(left, reserve(context.job.budget)[0]) if over else left


def allowance(context: AgentContext, prompt_tokens: int, max_tokens: int, wasted: int) -> Allowance:
    """What a generation job may have, so that together with its prompts it is no more than is left.
    `max_tokens` and `wasted` are what it would have otherwise.

    The last rollback of an attempt may go over what it may throw away, by a whole answer at most;
    without any allowance there is none. So an attempt costs prompt, waste, and twice the answer.
    Where that is too much there is one attempt, and of an answer longer than 1,024 tokens no more
    than half of what is left, so that it can be begun again once.
    """
    left = tokens_left(context) - prompt_tokens
    if is_final(context) and left < min(LEAST_ANSWER, max_tokens):
        left = tokens_left(context, over=True) - prompt_tokens
    tokens = max(1, min(max_tokens, max((left - 1) // 2, min(left, _SHORT))))
    cost = prompt_tokens + (wasted + 2 * tokens if wasted else tokens)
    attempts = min(_MOST_ATTEMPTS, (left + prompt_tokens) // cost)
    if attempts >= 1:
        return Allowance(tokens, attempts, wasted)
    return Allowance(tokens, 1, min(wasted, max(0, left - 2 * tokens)))


def calls_left(context: AgentContext) -> int:
    """How many tool calls the budget has left."""
    return max(0, context.job.budget.tool_calls - context.orchestration.spent.tool_calls)


def room(context: AgentContext, prompt_tokens: int, *, room_tokens: int, over: bool = False) -> int:
    """How many tokens an answer to a prompt may have: the job's `max_tokens`, what is left of the
    model's context of `room_tokens`, and of the budget, or `over` it of the reserve; 0 where there
    is no room."""
    left = tokens_left(context, over=over) - prompt_tokens
    return max(0, min(context.job.sampling.max_tokens, room_tokens - prompt_tokens, left))


def hard_stop(context: AgentContext, now: datetime, *, next_prompt_tokens: int = 0) -> Stop | None:
    """Which budget is spent, if any: it is once the limit is reached, and of the tokens once the
    next prompt would reach it, for then there is none for an answer. Before the final phase tokens,
    wall time and the time up to the deadline are less the reserve. A budget of no tool calls is
    none that could be spent.
    """
    return _first(
        (Reason.DEADLINE_PASSED, _deadline(context, now)),
        (Reason.BUDGET_SPENT, _tokens(context, next_prompt_tokens)),
        (Reason.BUDGET_SPENT, _calls(context)),
        (Reason.BUDGET_SPENT, _rounds(context)),
        (Reason.BUDGET_SPENT, _wall(context, now)),
    )


def time_stop(context: AgentContext, now: datetime) -> Stop | None:
    """Whether the time is over, by the deadline or by the budget: then nothing is begun, whatever
    was decided before. The other budgets are for the next round."""
    return _first(
        (Reason.DEADLINE_PASSED, _deadline(context, now)),
        (Reason.BUDGET_SPENT, _wall(context, now)),
    )


def _first(*stops: tuple[Reason, str | None]) -> Stop | None:
    for reason, detail in stops:
        if detail is not None:
            return Stop(reason=reason, detail=tame(detail))
    return None


def _deadline(context: AgentContext, now: datetime) -> str | None:
    deadline, last = context.job.deadline, last_moment(context)
    if deadline is None or last is None or now < last:
        return None
    kept = (deadline - last).total_seconds()
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
