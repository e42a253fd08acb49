"""Whose turn a free slot is. Each lane has a share of the slots that it can count on; what one
leaves idle, another may borrow.

The rule: a free slot goes to a lane that runs fewer jobs than its share, the neediest first; only
where none of those waits, to one that has its share already. So a lane that waits with less than
its share gets the next slot that comes free, however busy the others are, and no slot is idle while
anything waits. What is borrowed is given back as jobs end: nothing is interrupted for it.
"""

import asyncio
from collections import deque
from collections.abc import Mapping

from ..schemas import Lane
from ..schemas.topology import LANES


def next_lane(
    shares: Mapping[Lane, int], running: Mapping[Lane, int], waiting: Mapping[Lane, int]
) -> Lane | None:
    """The lane whose turn it is; None where no slot is free, or nobody waits. In doubt the lane
    that comes first in `LANES`, which is the interactive one."""
    if sum(running.values()) >= sum(shares.values()):
        return None
    wanting: list[Lane] = [lane for lane in LANES if lane in shares and waiting.get(lane, 0) > 0]
    short: list[Lane] = [lane for lane in wanting if running[lane] < shares[lane]]
    if short:
        return min(short, key=lambda lane: running[lane] / shares[lane])
    return wanting[0] if wanting else None


class LaneSlots:
    """The slots, to be waited for; within a lane first come, first served."""

    def __init__(self, shares: Mapping[Lane, int]) -> None:
        self._shares = dict(shares)
        self._running = dict.fromkeys(shares, 0)
        self._waiting: dict[Lane, deque[asyncio.Future[None]]] = {lane: deque() for lane in shares}

    def __repr__(self) -> str:
        return f"<LaneSlots {self.running} of {sum(self._shares.values())} taken>"

    @property
    def running(self) -> int:
        """How many are taken."""
        return sum(self._running.values())

    async def acquire(self, lane: Lane) -> None:
        """Wait for a slot and take it. A lane that was not named when this was made has no share,
        and takes what is left over."""
        self._know(lane)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[lane].append(turn)
        self._grant()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(lane)
            elif turn in self._waiting[lane]:
                # Else its turn came between the cancelling and this moment, and was passed over.
                self._waiting[lane].remove(turn)
            raise

    def release(self, lane: Lane) -> None:
        """Give a slot back."""
        self._running[lane] -= 1
        self._grant()

    def _know(self, lane: Lane) -> None:
        self._shares.setdefault(lane, 0)
        self._running.setdefault(lane, 0)
        self._waiting.setdefault(lane, deque())

    def _grant(self) -> None:
        while True:
            waiting: dict[Lane, int] = {lane: len(turns) for lane, turns in self._waiting.items()}
            lane = next_lane(self._shares, self._running, waiting)
            if lane is None:
                return
            turn = self._waiting[lane].popleft()
            if not turn.done():
                self._running[lane] += 1
                turn.set_result(None)
