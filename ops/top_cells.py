"""Cells of a table on a terminal: so many columns, whatever is in the text. Pure."""

import unicodedata
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from .columns import columns, fit

GAP: Final = 2
LEAST_NAME: Final = 12
# It turns the character before it into a picture, which some terminals draw two columns wide.
_SELECTORS: Final = str.maketrans("", "", "\ufe0e\ufe0f")


class Column(Struct, frozen=True):
    """A column: its title, whether its text stands at the right, and how gladly it is left out
    where there is no room (0: never; otherwise the largest goes first). The one that `stretches`
    is cut where all others are whole."""

    title: str
    right: bool = True
    spare: int = 0
    stretches: bool = False


def cut(text: str, width: int) -> str:
    """The text on one line of at most so many columns; nothing in it acts on a terminal."""
    if width <= 0:
        return ""
    return fit("".join(map(_known, text.translate(_SELECTORS))), width)


def _known(char: str) -> str:
    """Nobody can tell how a terminal draws what has no meaning yet, or a private one."""
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(char) in ("Cn", "Co") else char


def cell(text: str, width: int, *, right: bool = False) -> str:
    """The text in exactly so many columns."""
    shown = cut(text, width)
    room = " " * (width - columns(shown))
    return room + shown if right else shown + room


def table(spec: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """A line of titles and one for each row, none wider than `width`."""
    kept = list(range(len(spec)))
    widths = [
        max(columns(cut(text, 10_000)) for text in (spec[at].title, *(row[at] for row in rows)))
        for at in kept
    ]
    while _least(spec, widths, kept) > width:
        spare = max(kept, key=lambda at: spec[at].spare)
        if not spec[spare].spare:
            break
        kept.remove(spare)
    for at in kept:
        if spec[at].stretches:
            others = sum(widths[each] + GAP for each in kept if each != at)
            widths[at] = min(widths[at], max(LEAST_NAME, width - others))
    lines: list[str] = []
    for row in ([each.title for each in spec], *rows):
        cells = [cell(row[at], widths[at], right=spec[at].right) for at in kept]
        lines.append(cut_right((" " * GAP).join(cells), width))
    return lines


def _least(spec: Sequence[Column], widths: Sequence[int], kept: Sequence[int]) -> int:
    return sum(
        (min(widths[at], LEAST_NAME) if spec[at].stretches else widths[at]) + GAP for at in kept
    ) - (GAP if kept else 0)


def cut_right(line: str, width: int) -> str:
    """A line of our own cells, cut at so many columns; the spaces in it stay."""
    if columns(line) <= width:
        return line.rstrip()
    shown, used = "", 0
    for char in line:
        used += columns(char)
        if used > width:
            break
        shown += char
    return shown.rstrip()


def span(seconds: float) -> str:
    """A duration in at most four characters: `8s`, `12m`, `3h`, `5d`."""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{min(seconds / size, 999):.0f}{unit}"
    return f"{seconds:.0f}s"


def number(value: int | None) -> str:
    """A count in at most seven characters; `-` where it is not known."""
    if value is None:
        return "-"
    if value < 100_000:
        return f"{value:,}"
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 1000)):
        if value >= size:
            return f"{value / size:.{0 if value >= 100 * size else 1}f}{unit}"
    return str(value)
