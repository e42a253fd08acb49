"""Deliveries on which services ended before. One of them may be what ends them, and the broker
counts each end against all that were under way: were they begun together again, the innocent would
go to the dead letters with the guilty. So they are taken one by one, each settled before the next,
in one order this time and in the other the next: who stands behind the guilty one now is done
before it then.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from msgspec import Struct

# Returned once is what every restart does.
_SUSPECT: Final = 2
# The others of a lost service come within this time, in seconds.
GATHER_S: Final = 0.2
T = TypeVar("T")
Key = tuple[str, int]


class Standing(Struct, frozen=True):
    """Which attempt a delivery is of, how often it was returned, and how often an engine was lost
    under it: one that is started anew in its worker returns nothing."""

    key: Key
    returned: int
    losses: int = 0

    @property
    def ends(self) -> int:
        """How often something ended that had it."""
        return self.returned + self.losses

    @property
    def suspect(self) -> bool:
        """Whether it is to be taken alone. An engine is seldom lost: once is enough."""
        return self.returned >= _SUSPECT or self.losses > 0


def parts(batch: Sequence[T], standing: Callable[[T], Standing]) -> list[Sequence[T]]:
    """A batch in the parts that should be done one after the other: together those that are beyond
    suspicion, then each of the others alone."""
    trusted = [each for each in batch if not standing(each).suspect]
    suspects = [each for each in batch if standing(each).suspect]
    turned = _is_turned([standing(each) for each in suspects])
    suspects.sort(key=lambda each: standing(each).key, reverse=turned)
    return [*([trusted] if trusted else []), *([each] for each in suspects)]


def _is_turned(suspects: Sequence[Standing]) -> bool:
    """Whether this time the order is the other one: the guilty has been there every time."""
    return max((each.ends for each in suspects), default=0) % 2 == 1


class Turns:
    """One at a time for attempts under suspicion. All others are let through.

    Who has waited `limit_s` seconds goes on all the same: the broker wants every delivery back in
    its time.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._waiting: dict[asyncio.Future[None], Standing] = {}
        self._taken = False

    def __repr__(self) -> str:
        return f"<Turns: {len(self._waiting)} waiting>"

    @asynccontextmanager
    async def turn(self, standing: Standing) -> AsyncGenerator[None, None]:
        """Wait for the turn, and have it until the end of the block."""
        if not standing.suspect:
            yield
            return
        mine = await self._wait(standing)
        try:
            yield
        finally:
            if mine:
                self._pass_on()

    async def _wait(self, standing: Standing) -> bool:
        """Whether it is a turn that must be passed on."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting[turn] = standing
        loop.call_later(GATHER_S, self._give)
        try:
            await asyncio.wait([turn], timeout=self._limit_s)
        except asyncio.CancelledError:
            if turn.done():
                self._pass_on()
            raise
        finally:
            self._waiting.pop(turn, None)
        return turn.done()

    def _pass_on(self) -> None:
        self._taken = False
        self._give()

    def _give(self) -> None:
        if self._taken or not self._waiting:
            return
        choose = max if _is_turned(list(self._waiting.values())) else min
        turn, _ = choose(self._waiting.items(), key=lambda item: item[1].key)
        del self._waiting[turn]
        self._taken = True
        turn.set_result(None)
