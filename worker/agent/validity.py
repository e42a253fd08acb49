"""Whether a context can be taken further: what no field says by itself. Pure.

No step of ours makes a context with a fault. One that was made or changed by hand, or by another
version, may have one; it is ended by its record before anything of it is run.
"""

from collections import Counter

from ...schemas import AgentContext, Round

__all__ = ["fault_of"]


def fault_of(context: AgentContext) -> str | None:
    """What is wrong with it, in words that fit behind a field's name; None where nothing is. O(its
    calls)."""
    rounds = context.execution.rounds
    return (
        _numbers(context, rounds)
        or _phase(context, rounds)
        or _open_calls(context, rounds)
        or _effects(rounds)
    )


def _numbers(context: AgentContext, rounds: tuple[Round, ...]) -> str | None:
    """By its number a round is known; the next one's is one more than those that are spent."""
    numbers = [this.number for this in rounds]
    if numbers != sorted(set(numbers)):
        return f"its rounds are not in order: {', '.join(map(str, numbers[:20]))}"
    spent = context.orchestration.spent.rounds
    if numbers and numbers[-1] > spent:
        return f"its last round is number {numbers[-1]}, and it has spent {spent}"
    return None


def _phase(context: AgentContext, rounds: tuple[Round, ...]) -> str | None:
    phase = context.orchestration.phase
    if phase not in ("calling", "approving"):
        return None
    if not rounds:
        return f"its phase is {phase}, and there is no round with calls"
    through = context.execution.memory.through
    if rounds[-1].number <= through:
        return f"its phase is {phase}, and the rounds up to {through} are summed up already"
    return None


def _open_calls(context: AgentContext, rounds: tuple[Round, ...]) -> str | None:
    """A call is open in the last round while it is made, or waits for a person, or until all that
    is open is closed at the end."""
    phase = context.orchestration.phase
    if phase == "thinking":
        over = rounds
    elif phase in ("calling", "approving"):
        over = rounds[:-1]
    else:
        return None
    for this in over:
        if any(call.is_open for call in this.calls):
            return f"its phase is {phase}, and a call of round {this.number} has no result"
    return None


def _effects(rounds: tuple[Round, ...]) -> str | None:
    """By its effect id a call is known as made."""
    counts = Counter(call.effect_id for this in rounds for call in this.calls)
    twice = next((effect for effect, count in counts.items() if count > 1), None)
    return f"effect id {twice!r} stands for {counts[twice]} calls" if twice is not None else None
