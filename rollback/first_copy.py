"""Where the first copy of a loop ends, for a cut behind a later one."""

from collections.abc import Sequence
from typing import Final

# Units up to so many tokens are looked for: longer ones are not said again in vain within a window.
_LONGEST: Final = 512


def first_copy(tokens: Sequence[int], keep: int) -> int:
    """How many tokens to keep so that of a loop that goes on behind `keep` no more than one copy
    stays: a thought that was thought once. `keep` itself where what comes behind it is no copy of
    what stands before. A unit is at most 512 tokens; O(512) where nothing comes round."""
    ahead = tokens[keep : keep + _LONGEST]
    least = keep
    for unit in range(1, min(len(ahead), keep) + 1):
        copy = tokens[keep - unit : keep]
        if copy[0] != ahead[0] or copy != ahead[:unit]:
            continue
        # A short unit may be no more than the seam of a longer one.
        start = keep
        while start >= 2 * unit and tokens[start - 2 * unit : start - unit] == copy:
            start -= unit
        least = min(least, start)
    return least
