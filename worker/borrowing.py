"""How many jobs a lane may hold beyond its share: as many as the others leave idle.

A lane's own consumer asks for its share, always. A second one, the borrower, asks for more while
the lane is at its share and the others were not at theirs for a while. It asks for no more than
that many at once, so that nothing waits here which another worker could run.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ..producer.subscription import Subscription
from ..schemas import Lane

# Who holds a borrower that has nothing to borrow.
IDLE: Final = "nothing to borrow"
# So long back a lane's highest need counts: it may come again at once.
WINDOW_S: Final = 2.0
_TICK_S: Final = 0.2


class Needs:
    """What each lane held at most within the last seconds. Pure but for the time it is told."""

    def __init__(self, shares: Mapping[Lane, int], window_s: float = WINDOW_S) -> None:
        self._shares = shares
        self._window_s = window_s
        self._seen: dict[Lane, deque[tuple[float, int]]] = {lane: deque() for lane in shares}

    def see(self, now: float, held: Mapping[Lane, int]) -> None:
        """Note what each lane holds."""
        for lane, seen in self._seen.items():
            while seen and seen[0][0] < now - self._window_s:
                seen.popleft()
            # Of those before, only what is higher can still be the highest.
            while seen and seen[-1][1] <= held[lane]:
                seen.pop()
            seen.append((now, held[lane]))

    def allowance(self, lane: Lane) -> int:
        """How many a lane may borrow: none while it is not at its share."""
        if self._highest(lane) < self._shares[lane]:
            return 0
        others = sum(self._highest(other) for other in self._shares if other != lane)
        return max(0, sum(self._shares.values()) - self._shares[lane] - others)

    def _highest(self, lane: Lane) -> int:
        seen = self._seen[lane]
        return seen[0][1] if seen else 0


@dataclass(frozen=True, slots=True)
class LaneConsumers:
    """A lane's own consumer, and its borrower."""

    own: Subscription
    borrower: Subscription

    @property
    def held(self) -> int:
        """Jobs of the lane that are here."""
        return self.own.unacknowledged + self.borrower.unacknowledged


async def lend(shares: Mapping[Lane, int], get: Callable[[], Mapping[Lane, LaneConsumers]]) -> None:
    """Let borrowers ask for what is idle, until cancelled. `get` gives the consumers of now; none
    where there are none, or where there is one lane alone."""
    needs = Needs(shares)
    slots = sum(shares.values())
    while True:
        if consumers := get():
            held: dict[Lane, int] = {lane: each.held for lane, each in consumers.items()}
            needs.see(time.monotonic(), held)
            idle = slots - sum(held.values())
            for lane, each in consumers.items():
                _adjust(each.borrower, needs.allowance(lane), idle)
        await asyncio.sleep(_TICK_S)


def _adjust(borrower: Subscription, allowed: int, idle: int) -> None:
    """What a consumer was given before does not count against a new one, or one that asks anew:
    so it asks for what is allowed beyond that."""
    more = allowed - borrower.unacknowledged
    if more <= 0:
        if allowed < borrower.prefetch:
            borrower.hold(IDLE)
    elif borrower.is_held_by(IDLE) or allowed < borrower.prefetch:
        borrower.widen(more)
        borrower.release(IDLE)
    elif borrower.prefetch < allowed and (idle > 0 or borrower.unacknowledged == 0):
        borrower.widen(more)
