"""Whether a call may be made: known, allowed, within its quota, with arguments that fit, and with a
person's yes where one is needed. Nothing runs here."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from ...schemas import AgentContext, Approval, ToolCall, ToolResult, ToolSpec, ToolStatus
from .budget import last_moment
from .rounds import last_round

# How many names an answer to an unknown one lists.
_NAMES_TOLD: Final = 20
# Says what is wrong with a tool's arguments, for the model; None where nothing is.
Validate = Callable[[str, dict[str, object]], str | None]


def judged(
    context: AgentContext,
    specs: Mapping[str, ToolSpec],
    known: Collection[str],
    validate: Validate,
    now: datetime,
) -> tuple[ToolCall, ...]:
    """The calls of the last round: those that must not be made have their results, and those that
    a person must allow have the question. `specs`: the tools of this job, `known`: of any."""
    this = last_round(context)
    spent = context.orchestration.spent
    planned: dict[str, int] = {}
    calls: list[ToolCall] = []
    for call in this.calls:
        if call.result is not None:
            decided = call
        elif call.approval is not None:
            decided = _answered(call, call.approval)
        else:
            decided = _judge(call, context, specs, known, validate, planned, now)
        if decided.result is None:
            planned[call.name] = planned.get(call.name, 0) + 1
        calls.append(decided)
    left = max(0, context.job.budget.tool_calls - spent.tool_calls)
    return _within(calls, left)


def _answered(call: ToolCall, approval: Approval) -> ToolCall:
    """A call that a person, or the clock, has decided on."""
    if approval.state in ("waiting", "approved"):
        return call
    who = f" by {approval.by}" if approval.by else ""
    why = f": {approval.why}" if approval.why else ""
    text = (
        f"A person did not allow this call in time (until {approval.expires_at:%H:%M:%S})."
        if approval.state == "timed_out"
        else f"This call was denied{who}{why}."
    )
    return refused(call, ToolStatus.DENIED, text)


def _judge(
    call: ToolCall,
    context: AgentContext,
    specs: Mapping[str, ToolSpec],
    known: Collection[str],
    validate: Validate,
    planned: Mapping[str, int],
    now: datetime,
) -> ToolCall:
    spec = specs.get(call.name)
    if spec is None:
        status = ToolStatus.NOT_ALLOWED if call.name in known else ToolStatus.UNKNOWN_TOOL
        what = "is not for this task" if status is ToolStatus.NOT_ALLOWED else "does not exist"
        return refused(call, status, f"The tool {call.name!r} {what}. There are: {_named(specs)}.")
    spent = context.orchestration.spent
    if last_round(context).degraded and call.name in spent.by_tool:
        text = (
            f"{call.name} was called before, and now only tools that were not may be. "
            "Use another one, or give the final answer."
        )
        return refused(call, ToolStatus.NOT_ALLOWED, text)
    if (wrong := validate(call.name, call.arguments)) is not None:
        return refused(call, ToolStatus.INVALID_ARGUMENTS, wrong)
    if (over := _over_quota(spec, spent.by_tool.get(call.name, 0), planned)) is not None:
        return refused(call, ToolStatus.QUOTA_SPENT, over)
    if spec.needs_approval:
        expires = now + timedelta(seconds=spec.approval_timeout_s)
        if (last := last_moment(context)) is not None:
            # The clock that decides for a person ends the job, too.
            expires = min(expires, last)
        return msgspec.structs.replace(call, approval=Approval(expires_at=expires))
    return call


def _over_quota(spec: ToolSpec, made: int, planned: Mapping[str, int]) -> str | None:
    """Why no further call of a tool may be made; None where one may. Those of the same answer count
    before they are made: they wait for a person, or are the next to be run."""
    asked = planned.get(spec.name, 0)
    if spec.quota is None or made + asked < spec.quota:
        return None
    if spec.quota == 0:
        return f"{spec.name} may not be called. Go on without it, or give the final answer."
    if not asked:
        return (
            f"{spec.name} may be called {_times(spec.quota)} in one task, and was. "
            "Go on without it, or give the final answer."
        )
    are = "is" if asked == 1 else "are"
    before = f" and {_calls(made)} made before" if made else ""
    return (
        f"{_calls(asked)} of {spec.name} {are} asked for already{before}, and more than "
        f"{spec.quota} may not be made in one task."
    )


def _calls(count: int) -> str:
    return f"{count} call{'' if count == 1 else 's'}"


def _times(count: int) -> str:
    return f"{count} time{'' if count == 1 else 's'}"


def _within(calls: list[ToolCall], left: int) -> tuple[ToolCall, ...]:
    """Those that the budget has no room for are not run."""
    for index, call in enumerate(calls):
        if call.result is None:
            if left <= 0:
                text = "Not run: the task's budget of tool calls is spent."
                calls[index] = refused(call, ToolStatus.NOT_RUN, text)
            left -= 1
    return tuple(calls)


def refused(call: ToolCall, status: ToolStatus, text: str) -> ToolCall:
    """The call, with an answer in place of a result."""
    result = ToolResult(status=status, content=text, fingerprint=status.value)
    return msgspec.structs.replace(call, result=result)


def _named(specs: Mapping[str, ToolSpec]) -> str:
    names = list(specs)
    more = f", and {len(names) - _NAMES_TOLD} more" if len(names) > _NAMES_TOLD else ""
    return (", ".join(names[:_NAMES_TOLD]) or "none") + more


def is_waiting(call: ToolCall) -> bool:
    """Whether a person has yet to decide on it."""
    return call.result is None and call.approval is not None and call.approval.state == "waiting"
