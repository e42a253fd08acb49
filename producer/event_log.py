"""The events of one job as they come in, kept in a bounded buffer and followed by any number."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Final

from ..schemas.events import Finished, JobEvent

EVENTS_KEPT: Final = 1000
# Events and results come through different queues: the last events may be a little behind.
GRACE_S: Final = 1.0


class EventLog:
    """Appended to by one, followed by many; the oldest events go when it is full.

    A follower that is too slow, or comes too late, misses the oldest: it sees `seq` and `offset`
    jump, and `dropped` counts them.
    """

    def __init__(self, keep: int = EVENTS_KEPT) -> None:
        self._kept: deque[JobEvent] = deque(maxlen=keep)
        self._total = 0
        self._over = False
        self._changed = asyncio.Event()
        self._last_call: float | None = None

    @property
    def dropped(self) -> int:
        """How many events had to go because the buffer was full."""
        return self._total - len(self._kept)

    def add(self, event: JobEvent) -> None:
        self._kept.append(event)
        self._total += 1
        self._wake()

    def end_soon(self) -> None:
        """The result is there: followers wait a moment for the last events, no longer."""
        if self._last_call is None:
            self._last_call = asyncio.get_running_loop().time() + GRACE_S
            self._wake()

    def end(self) -> None:
        """Nothing will come any more."""
        self._over = True
        self._wake()

    async def follow(self, *, beyond: bool = False) -> AsyncGenerator[JobEvent]:
        """All kept events and then those to come, up to the one that says "finished"; or `beyond`
        it, for as long as the log lives: the verdict on an observed text comes later."""
        position = 0
        while True:
            # The event is taken before the buffer is read: nothing can slip in between.
            changed = self._changed
            while position < self._total:
                position = max(position, self.dropped)
                event = self._kept[position - self.dropped]
                position += 1
                yield event
                if isinstance(event.event, Finished) and not beyond:
                    return
                changed = self._changed
            last_call = None if beyond else self._last_call
            if self._over or not await self._until(changed, last_call):
                return

    async def _until(self, changed: asyncio.Event, last_call: float | None) -> bool:
        try:
            async with asyncio.timeout_at(last_call):
                await changed.wait()
        except TimeoutError:
            return False
        return True

    def _wake(self) -> None:
        woken, self._changed = self._changed, asyncio.Event()
        woken.set()
