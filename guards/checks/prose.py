"""Prose within a text: what is left without code, tables, data and markup, at its place."""

from collections.abc import Iterator
from typing import Final

import regex
from msgspec import Struct

# Fenced code, closed or not; by possessive steps, so that the search goes over the text once.
_FENCED: Final = regex.compile(
    r"^[ \t>]*+(`{3,}+|~{3,}+).*?(?:^[ \t>]*+\1|\Z)", regex.DOTALL | regex.MULTILINE
)
# Of a line: cells, statements, markup, keys with values.
_NO_PROSE: Final = regex.compile(
    r"[|{}<>;=\\\t]|::|//|^\s*+[\"'\w.-]++\s*+[:=]\s*+\S++$|\d\s++\d", regex.MULTILINE
)
_MARKER: Final = regex.compile(r"[\s>#*+•\-–—\d.)(]*+")
# Vowels of Indian and other scripts are marks.
_LETTER: Final = regex.compile(r"[\p{L}\p{M}]")
# Scripts without blanks between words: every character is a word.
_WORD: Final = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]|[\p{L}\p{M}\p{N}'’]++"
)
# Of a long line it takes one in so many characters: a sentence may have a semicolon.
_PER: Final = 60
# Lines of verse, and items of lists, are shorter on average, in characters.
_VERSE: Final = 60
# A line of prose has so many letters, and they are at least half of it.
_LETTERS: Final = 12


class Line(Struct, frozen=True):
    """A line of prose at its place, in characters; `paragraph`: a blank line, or what is no prose,
    stands before it."""

    start: int
    end: int
    paragraph: bool


class Word(Struct, frozen=True):
    """A word, folded, at its place."""

    folded: str
    start: int
    end: int


def lines(text: str) -> Iterator[Line]:
    """The lines of prose, in order. A run of words is prose, whatever language it is in."""
    blocks = [found.span() for found in _FENCED.finditer(text)]
    at, block, new = 0, 0, True
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        while block < len(blocks) and blocks[block][1] <= at:
            block += 1
        inside = block < len(blocks) and blocks[block][0] <= at
        start = at if inside else _MARKER.match(text, at, end).end()  # pyright: ignore[reportOptionalMemberAccess]
        if inside or not is_prose(text[start:end]):
            new = True
        else:
            yield Line(start, end, new)
            new = False
        at = end + 1


def blocks(text: str) -> Iterator[list[Line]]:
    """The lines of prose that stand together, without verse and short items, in order."""
    block: list[Line] = []
    for line in lines(text):
        if line.paragraph and block:
            yield from _running(block)
            block = []
        block.append(line)
    yield from _running(block)


def _running(block: list[Line]) -> Iterator[list[Line]]:
    if block and sum(line.end - line.start for line in block) >= _VERSE * len(block):
        yield block


def is_prose(line: str) -> bool:
    """Whether a line is made of words, and of little that code or tables have."""
    marks = sum(1 for _ in _NO_PROSE.finditer(line))
    if marks * _PER > len(line):
        return False
    letters = len(_LETTER.findall(line))
    return letters >= _LETTERS and 2 * letters >= len(line)


def words(text: str, start: int, end: int) -> Iterator[Word]:
    """The words of a part of the text; a character each in scripts that set no blanks."""
    for found in _WORD.finditer(text, start, end):
        yield Word(found[0].casefold(), *found.span())
