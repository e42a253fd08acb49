"""What a decision is made from: the attempt so far."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ..guards.finding import Finding
from .actions import Action, Rollback
from .checkpoints import CheckpointStack


class Budgets(Struct, frozen=True, kw_only=True):
    """What an attempt may spend on going back; the profile of the gates says how much. Once one is
    spent there is no further rollback, so the last may go over.

    The defaults: a fault that can be mended is gone after one to three rollbacks and a ladder has
    five rungs, so 8 mend two bad places, and behind that a new attempt is the better spent effort.
    A loop is seen about 100 tokens behind its onset (median; 260 in one of ten), so 8 of the longer
    ones waste some 2,000 tokens.
    """

    max_rollbacks: int = 8
    max_wasted_tokens: int = 2048
    max_seconds: float = 60.0


class Trip(Struct, frozen=True, kw_only=True):
    """A finding, and what was done. `tokens`: how many were accepted when it came. `banned`: the
    token that a rollback banned at its cut, if it did."""

    finding: Finding
    action: Action
    tokens: int
    banned: int | None = None


# Far from every place there is.
_ELSEWHERE: Final = -(10**9)


def elsewhere(trips: Sequence[Trip]) -> list[Trip]:
    """The same trips, at no place of the text that is now to come: what happened to the reasoning
    counts for an attempt, but is not near to anything in the answer."""
    moved: list[Trip] = []
    for trip in trips:
        start, end = trip.finding.tokens
        finding = replace(trip.finding, tokens=(start + _ELSEWHERE, end + _ELSEWHERE))
        action = trip.action
        if isinstance(action, Rollback):
            action = replace(action, keep=action.keep + _ELSEWHERE)
        moved.append(replace(trip, finding=finding, action=action, tokens=trip.tokens + _ELSEWHERE))
    return moved


class Situation(Struct, frozen=True, kw_only=True):
    """The attempt at the moment of a finding.

    `tokens`: accepted so far, the findings' own included. `floor`: of these, how many a client has
    seen (always at a whole place); nothing goes below it. `trips`: those before, in order.
    `wasted`: tokens generated and thrown away. `seconds`: lost by that. `greedy`: the job's own
    temperature is 0. `constrained`: the output is held to a grammar. `findings` and `within`: where
    the table asks for several findings in a window, how many in how many tokens (0: as it says).
    """

    tokens: int
    checkpoints: CheckpointStack
    budgets: Budgets = Budgets()
    floor: int = 0
    trips: Sequence[Trip] = ()
    rollbacks: int = 0
    wasted: int = 0
    seconds: float = 0.0
    greedy: bool = False
    constrained: bool = False
    findings: int = 0
    within: int = 0


def standing_bans(trips: Sequence[Trip]) -> tuple[tuple[int, int], ...]:
    """Position and token of each ban that still holds. A ban is about what comes after the tokens
    before it: it falls when a later rollback goes below it."""
    bans: list[tuple[int, int]] = []
    for trip in trips:
        if isinstance(trip.action, Rollback):
            bans = [ban for ban in bans if ban[0] <= trip.action.keep]
            if trip.banned is not None:
                bans.append((trip.action.keep, trip.banned))
    return tuple(bans)
