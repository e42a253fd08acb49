"""One candidate while it waits or is looked at, and who waits for it to settle."""

import asyncio
import time
from typing import Final

from ..producer.subscription import Delivery
from ..schemas import Candidate
from .registry import Key
from .suspects import Standing

# About 4,096 tokens: as many as are scored.
_SCORED_CHARACTERS: Final = 16_000


class Examination:
    """A candidate that waits or is looked at. A second delivery of it joins."""

    def __init__(self, candidate: Candidate, delivery: Delivery) -> None:
        self.candidate = candidate
        self.deliveries = [delivery]
        self.since = time.monotonic()
        # Until it is looked at, or settled without.
        self.waits = True
        self.over = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Examination of attempt {self.candidate.job.attempt} of {self.candidate.job.id}>"

    @property
    def key(self) -> Key:
        """What makes two deliveries the same candidate."""
        return self.candidate.job.id, self.candidate.job.attempt

    @property
    def characters(self) -> int:
        """How much there is to look at: longer texts are not scored whole."""
        return min(len(self.candidate.result.text), _SCORED_CHARACTERS)

    def standing(self) -> Standing:
        """With how often it was returned before this examination."""
        return Standing(self.key, self.deliveries[0].times_returned)
