"""A person's yes or no to the calls of an agent job, and what becomes of the job by it. Pure."""

from collections.abc import Collection
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct, structs

from ...schemas.agents import AgentContext, Orchestration
from ...schemas.limits import MAX_DETAIL
from ...schemas.tools import Approval, ToolCall

Verdict = Literal["approved", "denied", "timed_out"]

_MOST_S: Final = 1e9
_MOST_NAME: Final = 256


class WaitingCall(Struct, frozen=True):
    """A call that waits for a person, the number of its round, and when waiting means no."""

    round: int
    call: ToolCall
    expires_at: datetime


def waiting(context: AgentContext) -> tuple[WaitingCall, ...]:
    """The calls that wait for a person, in the order they were made."""
    return tuple(
        WaitingCall(each.number, call, approval.expires_at)
        for each in context.execution.rounds
        for call in each.calls
        if (approval := _asked(call)) is not None
    )


def soonest(context: AgentContext) -> datetime | None:
    """When the first of the waiting calls times out; None where none waits."""
    return min((each.expires_at for each in waiting(context)), default=None)


def expired(context: AgentContext, now: datetime) -> tuple[str, ...]:
    """The effect ids of waiting calls whose time is over."""
    return tuple(each.call.effect_id for each in waiting(context) if each.expires_at <= now)


def decided(
    context: AgentContext,
    effect_ids: Collection[str] | None,
    state: Verdict,
    *,
    by: str = "",
    why: str = "",
    now: datetime,
) -> AgentContext:
    """The context after these calls (None: all) were decided, one revision on. What does not wait
    stays as it is.

    While a call waits yet, the job does. Otherwise it goes on with phase "calling", and the time it
    waited is entered, which its budget does not count.
    """

    def answered(call: ToolCall) -> ToolCall:
        asked = _asked(call)
        if asked is None or (effect_ids is not None and call.effect_id not in effect_ids):
            return call
        answer = structs.replace(
            asked, state=state, by=by[:_MOST_NAME], why=why[:MAX_DETAIL], at=now
        )
        return structs.replace(call, approval=answer)

    rounds = tuple(
        structs.replace(each, calls=tuple(map(answered, each.calls)))
        for each in context.execution.rounds
    )
    after = structs.replace(
        context,
        revision=context.revision + 1,
        at=now,
        execution=structs.replace(context.execution, rounds=rounds),
    )
    if waiting(after):
        return after
    return structs.replace(after, orchestration=_goes_on(after.orchestration, now))


def _asked(call: ToolCall) -> Approval | None:
    approval = call.approval
    return approval if call.is_open and approval and approval.state == "waiting" else None


def _goes_on(stands: Orchestration, now: datetime) -> Orchestration:
    """No call waits any more. Of a job that is being ended the phase is its own."""
    since = stands.waiting_since
    waited_s = max(0.0, (now - since).total_seconds()) if since is not None else 0.0
    total_s = min(_MOST_S, stands.spent.waited_s + waited_s)
    return structs.replace(
        stands,
        phase="calling" if stands.phase == "approving" else stands.phase,
        waiting_since=None,
        spent=structs.replace(stands.spent, waited_s=total_s),
    )
