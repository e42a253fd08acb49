"""Numbers of any amount in little memory: quantiles of values, and counts over time. Pure."""

import math
from collections import Counter
from datetime import UTC, datetime
from typing import Final

# A quantile is off by this share of itself at most. The way of it: DDSketch (Masson et al., 2019).
ERROR: Final = 0.01
_GAMMA: Final = (1 + ERROR) / (1 - ERROR)
_FIRST: Final = datetime.min.replace(tzinfo=UTC).timestamp()
_LEAST, _MOST = 1e-6, 1e9
MOST_COLUMNS: Final = 96
_FIRST_WIDTH_S: Final = 60


class Sketch:
    """Quantiles of durations in seconds, in fewer than 2,000 counters, whatever comes."""

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.count = 0
        self.most = 0.0

    def add(self, value: float) -> None:
        """One more. What is below a microsecond counts as that; what is no number, not at all."""
        if math.isnan(value):
            return
        self.count += 1
        self.most = max(self.most, value)
        self._buckets[math.ceil(math.log(min(_MOST, max(_LEAST, value)), _GAMMA))] += 1

    def quantile(self, share: float) -> float | None:
        """The value that this share of all does not exceed; None of none."""
        rank = max(1, math.ceil(share * self.count))
        for bucket in sorted(self._buckets):
            rank -= self._buckets[bucket]
            if rank <= 0:
                return min(self.most, 2 * _GAMMA**bucket / (_GAMMA + 1))
        return None


class Timeline:
    """Counts by name in steps of time, as wide as it takes for few of them."""

    def __init__(self) -> None:
        self.width_s = _FIRST_WIDTH_S
        self._steps: dict[int, Counter[str]] = {}

    def add(self, at: datetime, name: str) -> None:
        """One more at this time."""
        self._steps.setdefault(self._step(at), Counter())[name] += 1
        while self._span() > MOST_COLUMNS:
            self.width_s *= 2
            before, self._steps = self._steps, {}
            for step, counter in before.items():
                self._steps.setdefault(step // 2, Counter()).update(counter)

    def columns(self) -> list[tuple[datetime, dict[str, int]]]:
        """When each step begins, and its counts; steps without any are there, too."""
        if not self._steps:
            return []
        return [
            (_begin(step * self.width_s), dict(self._steps.get(step, {})))
            for step in range(min(self._steps), max(self._steps) + 1)
        ]

    def _step(self, at: datetime) -> int:
        return math.floor(at.timestamp() / self.width_s)

    def _span(self) -> int:
        return max(self._steps) - min(self._steps) + 1


def _begin(timestamp: int) -> datetime:
    """The time; a step that begins before the calendar begins with it."""
    return datetime.fromtimestamp(max(timestamp, _FIRST), UTC)
