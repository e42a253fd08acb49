"""Script breaks: where the writing goes over into another script as nobody's writing does.

Texts in two scripts are everywhere: quotations, names, terms, glossaries, whole bilingual pages.
But their writers set one off from the other: with a quotation mark, a bracket, a colon, a new line.
And Latin stands within Chinese, Japanese, Korean and Thai with nothing in between. What is left is
two accidents:

- *glued*: two letters and more of one alphabet and two and more of another make one word
  (`таблицKorua`); once is a typo, many times is a vocabulary drawn from blindly;
- *spliced*: a long stretch in one script goes over, at a mere blank, into a long one in another.
"""

import re
from functools import cache
from typing import Final

import regex
from msgspec import Struct

from .ngrams import SCRIPT_LETTERS

# Japanese is one script here, and Chinese with it.
_SCRIPTS: Final = (
    r"\p{Latin}",
    r"\p{Cyrillic}",
    r"\p{Greek}",
    r"\p{Armenian}",
    r"\p{Georgian}",
    r"\p{Hebrew}",
    r"\p{Arabic}",
    r"\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}",
    r"\p{Hangul}",
    r"\p{Thai}",
    r"\p{Devanagari}",
    r"\p{Bengali}",
    r"\p{Tamil}",
    r"\p{Telugu}",
    r"\p{Gujarati}",
    r"\p{Gurmukhi}",
    r"\p{Kannada}",
    r"\p{Malayalam}",
    r"\p{Sinhala}",
    r"\p{Khmer}",
    r"\p{Lao}",
    r"\p{Myanmar}",
    r"\p{Ethiopic}",
)
LATIN: Final = 0
_HAN: Final = 7
# Letters of two scripts, in the model's stand-ins, side by side or with a blank in between.
_MEETING: Final = re.compile(
    "|".join(rf"{letter} ?[^\W\d_{letter}]" for letter in SCRIPT_LETTERS)
    + rf"|[A-Za-z\u00c0-\u024f] ?[{SCRIPT_LETTERS}]"
)
_LETTER: Final = regex.compile(r"\p{L}")
# How a sentence goes on: a letter, a blank, a word that is no address and no label.
_AT_A_BLANK: Final = regex.compile(r"[\p{L}\p{M}] \Z")
_WORD: Final = regex.compile(r"[\p{L}\p{M}]+(?:[\s,，、]|[.。](?!\p{L})|\Z)")
# Scripts that Latin letters stand in without a blank, or take endings from.
HOSTS: Final = frozenset({_HAN, 8, 9, 19, 20, 21})
_ENDS: Final = regex.compile(r"[\p{L}\p{M}]{2}")
_BEGINS: Final = regex.compile(r"\p{L}[\p{L}\p{M}]")
# The stretches beside a splice, in characters, and how many letters of its own each must have; a
# Chinese character says as much as a few letters.
_STRETCH: Final = 90
_LETTERS: Final = 40
_DENSE_LETTERS: Final = 24
# Letters of one script, with what is no letter, in `script_codes`.
_RUN: Final = re.compile(r"(\S)(?:\1| )*")
_OF: Final = tuple(regex.compile(rf"(?=\p{{L}})[{one}]") for one in _SCRIPTS)


@cache
def script_of(character: str) -> int | None:
    """Which of the scripts a character is a letter of; None where it is no letter. Letters of a
    script that is not listed make one more."""
    if not _LETTER.match(character):
        return None
    return next((n for n, one in enumerate(_OF) if one.match(character)), len(_OF))


class _Codes(dict[int, str]):
    """For `str.translate`: made as characters come."""

    def __missing__(self, code: int) -> str:
        script = script_of(chr(code))
        stands = self[code] = " " if script is None else _code(script)
        return stands


def _code(script: int) -> str:
    return chr(ord("A") + script)


_CODES: Final = _Codes()
_ASCII_CODES: Final = bytes(ord(_CODES[code]) for code in range(128)) + bytes(128)
_HAN_CODE: Final = _code(_HAN)
_UNLISTED: Final = _code(len(_SCRIPTS))
_LATIN_CODE: Final = _code(LATIN)
_HOST_CODES: Final = frozenset(map(_code, HOSTS))


class Break(Struct, frozen=True, gc=False):
    """Where one script goes over into another; `spliced`: in long stretches on both sides."""

    place: int
    spliced: bool


def may_break(plain: str) -> bool:
    """A quick look, at what `ngrams.stand_ins` makes of a text, whether two scripts meet in it."""
    return not plain.isascii() and _MEETING.search(plain) is not None


def script_codes(text: str) -> str:
    """A letter for the script of each letter, a blank for all else. Of a text's parts it is the
    parts of the text's."""
    if text.isascii():
        return text.encode().translate(_ASCII_CODES).decode()
    return text.translate(_CODES)


def breaks(text: str, codes: str | None = None) -> list[Break]:
    """The breaks in a text, in order. `place` is the first character of the new script. `codes`:
    its `script_codes`, where they are at hand."""
    if text.isascii():
        return []
    if codes is None:
        codes = script_codes(text)
    found: list[Break] = []
    before = ""
    start = end = 0
    for run in _RUN.finditer(codes):
        now, place = run[1], run.start()
        if now == _UNLISTED:
            continue
        if before and now != before:
            if text[place - 1] == " ":
                if _is_spliced(text, codes, place, before, now):
                    found.append(Break(place, True))
            elif _is_glued(before, text[max(start, end - 2) : end], now, text[place : run.end()]):
                found.append(Break(place, False))
        before, start, end = now, place, run.end()
    return found


def _is_glued(before: str, last: str, script: str, now: str) -> bool:
    if _LATIN_CODE in (before, script) and not _HOST_CODES.isdisjoint((before, script)):
        return False
    return bool(_ENDS.fullmatch(last) and _BEGINS.match(now))


def _is_spliced(text: str, codes: str, place: int, before: str, script: str) -> bool:
    """Whether a sentence goes on in another script, with a pure stretch of one on either side."""
    if not _is_in(script, codes[place : place + _STRETCH]):
        return False
    behind = text[max(0, place - _STRETCH) : place].rpartition("\n")[2]
    if not _is_in(before, codes[place - len(behind) : place]):
        return False
    return bool(_AT_A_BLANK.search(behind) and _WORD.match(text, place, place + _STRETCH))


def _is_in(script: str, stretch: str) -> bool:
    letters = len(stretch) - stretch.count(" ")
    of_it = stretch.count(script)
    least = _DENSE_LETTERS if script == _HAN_CODE else _LETTERS
    return of_it >= least and of_it == letters
