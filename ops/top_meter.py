"""What happened in the last minute, and how fast a number grows. Pure: time is given, in seconds of
a clock that never goes back."""

from collections import Counter, deque
from collections.abc import Mapping
from typing import Final

WINDOW_S: Final = 60
# A rate over less than this says nothing.
LEAST_S: Final = 1.0
# Of anything that is counted by name: who sends names without end must not fill the memory.
MOST_NAMES: Final = 256
OTHERS: Final = "(others)"


class Meter:
    """Counts by name, over the last minute and in all. Holds a counter for each second at most."""

    def __init__(self) -> None:
        self.total: Counter[str] = Counter()
        self._seconds: deque[tuple[int, Counter[str]]] = deque()

    def add(self, name: str, now: float, number: int = 1) -> None:
        """That many more."""
        if name not in self.total and len(self.total) >= MOST_NAMES:
            name = OTHERS
        second = int(now)
        if not self._seconds or self._seconds[-1][0] < second:
            self._seconds.append((second, Counter()))
        self._seconds[-1][1][name] += number
        self.total[name] += number
        self._forget(now)

    def minute(self, now: float) -> Counter[str]:
        """Those of the last minute, by name."""
        self._forget(now)
        found: Counter[str] = Counter()
        for _, counter in self._seconds:
            found.update(counter)
        return found

    def _forget(self, now: float) -> None:
        while self._seconds and self._seconds[0][0] <= now - WINDOW_S:
            self._seconds.popleft()


class Trend:
    """A number as it was over the last minute."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def add(self, value: int, now: float) -> None:
        """What it is now."""
        # Two a second are enough, and the newest must be one of them.
        if len(self._samples) > 1 and now - self._samples[-2][0] < 1:
            self._samples.pop()
        self._samples.append((now, value))
        # One sample older than the window is kept: it is where the window begins.
        while len(self._samples) > 2 and self._samples[1][0] <= now - WINDOW_S:
            self._samples.popleft()

    def __len__(self) -> int:
        """How many samples are kept: two a second at most."""
        return len(self._samples)

    def clear(self) -> None:
        """Forget it: the number began anew."""
        self._samples.clear()

    def per_second(self) -> float | None:
        """How fast it grew, or None while nobody can tell."""
        if not self._samples:
            return None
        (began, first), (ended, last) = self._samples[0], self._samples[-1]
        return (last - first) / (ended - began) if ended - began >= LEAST_S else None


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """What was added between two readings of counters that begin anew at 0 with their process."""
    return {
        name: value - before.get(name, 0) if value >= before.get(name, 0) else value
        for name, value in after.items()
        if value != before.get(name, 0)
    }
