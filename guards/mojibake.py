"""Mojibake: UTF-8 that was read as a one-byte code page and written again.

The test is the accident itself, undone: characters that are the code page's picture of the bytes of
one UTF-8 character. Read as cp1252, "é" becomes "Ã©", "’" becomes "â€™", "п" becomes "Ð¿"; read as
cp1251, "п" becomes "Рї".

Some of these pictures are good text too: `É»` and `é\N{NO-BREAK SPACE}»` in French, `ß“` in German,
`Рік` in Ukrainian. So letters that only run into punctuation don't count, nor does a picture that
stands alone, as in a table that explains mojibake; and cp1251 counts only where picture follows
picture.
"""

from collections.abc import Iterator
from typing import Final

import regex

# Two pictures of cp1251 may be a Ukrainian word, four in a row are none.
_ROW: Final = 4

# What may follow a letter in good text: closing punctuation, marks and superscripts.
_AFTER_A_LETTER: Final = frozenset("\xa0…’”»›–—“‘„‚«‹•·™®©°²³¹ªº")

# Â and Ã are what UTF-8 read as cp1252 looks like first of all, and few words end in them.
_TELLING: Final = frozenset("ÂÃ")


def _page(name: str, first: int, last: int) -> str:
    """The code page's characters for a range of bytes; the bytes it lacks stand for themselves."""
    made = (bytes([byte]).decode(name, errors="ignore") or chr(byte) for byte in range(first, last))
    return regex.escape("".join(made), special_only=True)


_LATIN_REST: Final = _page("cp1252", 0x80, 0xC0)
_LATIN: Final = regex.compile(
    rf"""[{_page("cp1252", 0xC2, 0xE0)}][{_LATIN_REST}]
    | [{_page("cp1252", 0xE0, 0xF0)}][{_LATIN_REST}]{{2}}
    | [{_page("cp1252", 0xF0, 0xF5)}][{_LATIN_REST}]{{3}}""",
    regex.VERBOSE,
)
_CYRILLIC: Final = regex.compile(
    rf"(?:[{_page('cp1251', 0xD0, 0xD2)}][{_page('cp1251', 0x80, 0xC0)}]){{{_ROW},}}"
)

# Without one of these in it, new text completes no picture. One search, far cheaper than the rest.
HINT: Final = regex.compile(f"[{_LATIN_REST}{_page('cp1251', 0x80, 0xC0)}]")


def pictures(text: str) -> list[int]:
    """Where in the text stands a picture of a character, and not good text that looks like one."""
    starts: list[int] = []
    for start, end, row in _rows(text):
        beside = text[start - 1 : start] + text[end : end + 1]
        if len(row) > 1 or any(map(str.isalpha, beside)):
            starts += row
    for found in _CYRILLIC.finditer(text):
        starts += range(found.start(), found.end(), 2)
    return sorted(starts)


def _rows(text: str) -> Iterator[tuple[int, int, list[int]]]:
    """Pictures that follow each other at once: where they begin and end, and where each stands."""
    row: list[int] = []
    end = 0
    for found in _LATIN.finditer(text):
        if _may_be_text(found[0]) or not _is_character(found[0]):
            continue
        if row and found.start() > end:
            yield row[0], end, row
            row = []
        row.append(found.start())
        end = found.end()
    if row:
        yield row[0], end, row


def _may_be_text(picture: str) -> bool:
    return picture[0] not in _TELLING and _AFTER_A_LETTER.issuperset(picture[1:])


def _is_character(picture: str) -> bool:
    """Whether the bytes are one character of UTF-8: not every lead byte goes with every other."""
    try:
        return len(b"".join(map(_byte, picture)).decode()) == 1
    except UnicodeDecodeError:
        return False


def _byte(character: str) -> bytes:
    try:
        return character.encode("cp1252")
    except UnicodeEncodeError:
        return character.encode("latin-1")
