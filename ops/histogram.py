"""Two distributions in a terminal, side by side on one scale, with a threshold among them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

_ROWS: Final = 14
# The scale leaves out this share of the values at either end: they are in the outermost rows.
_TAIL: Final = 0.01
_LEAST_BAR: Final = 8
_EDGE_CHARS: Final = 10
_COUNT_CHARS: Final = 7


def side_by_side(
    good: Sequence[float], bad: Sequence[float], threshold: float, *, width: int
) -> Iterator[str]:
    """Lines of at most `width` characters, if that is 60 or more: a row for each step of the scale,
    bars by the share of their side, and `<` at the row with the threshold (0: none)."""
    if not good and not bad:
        return
    low, high = _scale([*good, *bad], threshold)
    step = (high - low) / _ROWS or 1.0
    counts = [Counter(_row(value, low, step) for value in values) for values in (good, bad)]
    most = max(
        count / len(values)
        for values, counted in zip((good, bad), counts, strict=True)
        for count in counted.values()
    )
    bar = max(_LEAST_BAR, (width - _EDGE_CHARS - 2 * _COUNT_CHARS - 11) // 2)
    marked = _row(threshold, low, step) if threshold else None
    side = _COUNT_CHARS + 1 + bar
    yield f"{'from':>{_EDGE_CHARS + 2}}  {f'good ({len(good):,})':<{side}}  bad ({len(bad):,})"
    for row in range(_ROWS):
        cells = [
            f"{counted[row] or '':>{_COUNT_CHARS}} {_bar(counted[row], len(values), most, bar)}"
            for values, counted in zip((good, bad), counts, strict=True)
        ]
        edge = f"{low + row * step:.3g}" if row else "less"
        mark = "<" if row == marked else " "
        yield f"  {edge:>{_EDGE_CHARS}} {mark}{cells[0]:<{side}}  {cells[1]}".rstrip()


def _scale(values: Sequence[float], threshold: float) -> tuple[float, float]:
    """From where to where, the threshold within."""
    ordered = sorted(values)
    cut = int(_TAIL * len(ordered))
    low, high = ordered[cut], ordered[len(ordered) - 1 - cut]
    return (min(low, threshold), max(high, threshold)) if threshold else (low, high)


def _row(value: float, low: float, step: float) -> int:
    # Infinity is in a row as well.
    return int(min(max((value - low) / step, 0), _ROWS - 1))


def _bar(count: int, of: int, most: float, width: int) -> str:
    """What is there is seen."""
    if not count:
        return ""
    return "#" * int(count / of / most * width) or "."
