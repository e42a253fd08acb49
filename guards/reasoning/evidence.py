"""Evidence that grows and fades."""


class Evidence:
    """A sum that never falls below 0 (a CUSUM, Page 1954): what speaks for a fault adds, what
    speaks against it takes away. `start` is where the sum last left 0, and with it the likeliest
    onset; `reach` is the first place that what adds to it refers back to."""

    def __init__(self) -> None:
        self._states: list[tuple[float, int, int]] = [(0.0, 0, 0)]

    @property
    def score(self) -> float:
        """The sum."""
        return self._states[-1][0]

    @property
    def start(self) -> int:
        """The position with which it began to grow."""
        return self._states[-1][1]

    @property
    def reach(self) -> int:
        """The first position that was referred to since."""
        return self._states[-1][2]

    def add(self, weight: float, position: int, reference: int | None = None) -> float:
        """The sum with what is found at a position, which refers back to an earlier one."""
        score, start, reach = self._states[-1]
        if score <= 0:
            start = reach = position
        if reference is not None and reference < reach:
            reach = reference
        self._states.append((max(0.0, score + weight), start, reach))
        return self._states[-1][0]

    def clear(self, position: int) -> None:
        """Nothing speaks for a fault any more."""
        self._states.append((0.0, position, position))

    def forget(self) -> None:
        """Take the last addition back."""
        self._states.pop()


def onset_of(total: Evidence, again: Evidence) -> int:
    """Where the second copy begins of what `total` has found to be there three times: where things
    `again` began to be said once more, but not before what was referred to."""
    if again.score <= 0:
        return total.reach
    return max(total.reach, min(total.start, again.start))
