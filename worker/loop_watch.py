"""Whether the event loop keeps up: a loop that is busy with something else starves heartbeats."""

import asyncio
import time
from typing import Final

from .metrics import LOOP_DELAYS, LOOP_LAG

_BEAT_S: Final = 0.5
_STUCK_S: Final = 30.0


class LoopWatch:
    """Beats in the loop; asked from another thread whether it still does."""

    def __init__(self) -> None:
        self._beat = time.monotonic()

    async def run(self) -> None:
        """Beat until cancelled, and export how late each beat came."""
        while True:
            due = time.monotonic() + _BEAT_S
            await asyncio.sleep(_BEAT_S)
            self._beat = time.monotonic()
            late_s = max(0.0, self._beat - due)
            LOOP_LAG.set(late_s)
            LOOP_DELAYS.observe(late_s)

    def trouble(self) -> str | None:
        """None while the loop beats."""
        silent_s = time.monotonic() - self._beat
        return f"the event loop is stuck since {silent_s:.0f} s" if silent_s > _STUCK_S else None
