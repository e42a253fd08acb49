"""Where a loop begins and how much is repeated, said apart from the gates and checks that are to be
measured."""

from collections.abc import Sequence
from typing import Final

_COPIES: Final = 4
_PERIOD: Final = 110  # tokens


def loop_start(ids: Sequence[int], covered: int) -> int | None:
    """Where the unit that the ids end with comes the second time, if it comes often enough and
    covers so many tokens; None where it does not."""
    for period in range(1, min(_PERIOD, len(ids) // _COPIES) + 1):
        start = len(ids) - period
        while start > 0 and ids[start - 1] == ids[start - 1 + period]:
            start -= 1
        length = len(ids) - start
        if length >= max(covered, _COPIES * period):
            return start + period
    return None


def distinct(ids: Sequence[int]) -> float:
    """The share of 4-grams that are no repetition of an earlier one."""
    grams = [tuple(ids[at : at + 4]) for at in range(len(ids) - 3)]
    return len(set(grams)) / max(len(grams), 1)
