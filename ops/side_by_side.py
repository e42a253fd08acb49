"""Two texts beside each other in a terminal, with parts of them marked."""

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest
from typing import Final

import click

_GAP: Final = " │ "
_LEAST_WIDTH: Final = 20
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
    or in double angle brackets where there is no colour; an empty span is where `insert` is put."""
    each = max(_LEAST_WIDTH, (width - len(_GAP)) // 2)
    start, end = marked
    bad = left[start:end] or insert
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
