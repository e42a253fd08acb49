"""Two texts beside each other in a terminal, with parts of them marked."""

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest
from typing import Final

import click

_GAP: Final = " │ "
_LEAST_WIDTH: Final = 20
# Of more marked characters than these, the beginning and a little of the end are shown.
_MARKED: Final = 600
_MARKED_START: Final = 480
_MARKED_END: Final = 80
# A character and whether it is marked.
Cell = tuple[str, bool]


def columns(
    left: str,
    right: str,
    *,
    marked: tuple[int, int],
    insert: str = "",
    width: int,
    colour: bool,
) -> Iterator[str]:
    """Lines of at most `width` columns. Characters `marked` (half open) of the left text are red,
    or in double angle brackets where there is no colour, the middle of many left out; an empty span
    is where `insert` is put."""
    each = column_width(width)
    start, end = marked
    bad = _without_middle(left[start:end]) or insert
    cells = [
        *((character, False) for character in left[:start]),
        *((character, True) for character in (bad if colour or not bad else f"⟦{bad}⟧")),
        *((character, False) for character in left[end:]),
    ]
    plain = [(character, False) for character in right]
    for one, other in zip_longest(_wrapped(cells, each), _wrapped(plain, each), fillvalue=()):
        padding = " " * (each - sum(_columns(character) for character, _ in one))
        line = f"{_styled(one, colour=colour)}{padding}{_GAP}{_styled(other, colour=colour)}"
        yield line.rstrip()


def row(left: str, right: str, width: int) -> str:
    """One line of the same columns, where both parts are short."""
    return f"{left.ljust(column_width(width))}{_GAP}{right}".rstrip()


def rule(width: int) -> str:
    """A line under the heads of the columns."""
    each = column_width(width)
    return f"{'─' * each}─┼─{'─' * each}"


def column_width(width: int) -> int:
    """How many columns of a terminal's each of the two has."""
    return max(_LEAST_WIDTH, (width - len(_GAP)) // 2)


def _without_middle(text: str) -> str:
    if len(text) <= _MARKED:
        return text
    gone = len(text) - _MARKED_START - _MARKED_END
    return f"{text[:_MARKED_START]} […{gone:,} characters…] {text[-_MARKED_END:]}"


def _wrapped(cells: Sequence[Cell], width: int) -> Iterator[Sequence[Cell]]:
    """Lines of at most `width` columns, broken at spaces where there are any."""
    line: list[Cell] = []
    used = 0
    for character, mark in cells:
        if character == "\n":
            yield line
            line, used = [], 0
            continue
        shown = _shown(character)
        if used + _columns(shown) > width:
            cut = _last_space(line) + 1 or len(line)
            yield line[:cut]
            line = line[cut:]
            used = sum(_columns(each) for each, _ in line)
        if not (shown == " " and not line):
            line.append((shown, mark))
            used += _columns(shown)
    if line:
        yield line


def _last_space(line: Sequence[Cell]) -> int:
    return next((at for at in range(len(line) - 1, -1, -1) if line[at][0] == " "), -1)


def _shown(character: str) -> str:
    """What a terminal would obey, or not show at all, as a character that it shows."""
    if character == "\t":
        return " "
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(character) in _UNSEEN else character


_UNSEEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})


def _columns(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _styled(line: Sequence[Cell], *, colour: bool) -> str:
    return "".join(
        click.style(text, fg="red", bold=True) if mark and colour else text
        for mark, cells in groupby(line, key=lambda cell: cell[1])
        if (text := "".join(character for character, _ in cells))
    )
