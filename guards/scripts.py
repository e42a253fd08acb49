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
# A run of letters of one script with what has no script: blanks, digits, punctuation.
_RUN: Final = regex.compile(
    "|".join(rf"((?:(?=\p{{L}})[{one}])[{one}\p{{Common}}\p{{Inherited}}]*+)" for one in _SCRIPTS)
)
# Whether there are two scripts at all. Most texts end here.
_OTHER: Final = regex.compile(r"[^\p{Latin}\p{Common}\p{Inherited}]")
_LETTER: Final = regex.compile(r"\p{L}")
# How a sentence goes on: a letter, a blank, a word that is no address and no label.
_AT_A_BLANK: Final = regex.compile(r"[\p{L}\p{M}] \Z")
_WORD: Final = regex.compile(r"[\p{L}\p{M}]+(?:[\s,，、]|[.。](?!\p{L})|\Z)")
# Scripts that Latin letters stand in without a blank, or take endings from.
HOSTS: Final = frozenset({_HAN, 8, 9, 19, 20, 21})
_ENDS: Final = regex.compile(r"[\p{L}\p{M}]{2}\Z")
_BEGINS: Final = regex.compile(r"\p{L}[\p{L}\p{M}]")
# The stretches beside a splice, in characters, and how many letters of its own each must have; a
# Chinese character says as much as a few letters.
_STRETCH: Final = 90
_LETTERS: Final = 40
_DENSE_LETTERS: Final = 24
_OF: Final = tuple(regex.compile(rf"(?=\p{{L}})[{one}]") for one in _SCRIPTS)


@cache
def script_of(character: str) -> int | None:
    """Which of the scripts a character is a letter of; None where it is no letter. Letters of a
    script that is not listed make one more."""
    if not _LETTER.match(character):
        return None
    return next((n for n, one in enumerate(_OF) if one.match(character)), len(_OF))


class Break(Struct, frozen=True, gc=False):
    """Where one script goes over into another; `spliced`: in long stretches on both sides."""

    place: int
    spliced: bool


def may_break(plain: str) -> bool:
    """A quick look, at what `ngrams.stand_ins` makes of a text, whether two scripts meet in it."""
    return not plain.isascii() and _MEETING.search(plain) is not None


def breaks(text: str) -> list[Break]:
    """The breaks in a text, in order. `place` is the first character of the new script."""
    if text.isascii() or not _OTHER.search(text):
        return []
    found: list[Break] = []
    before = LATIN
    last = ""
    for run in _RUN.finditer(text):
        script, now = (run.lastindex or 1) - 1, run[0]
        if last and script != before:
            if _is_glued(before, last, script, now):
                found.append(Break(run.start(), False))
            elif _is_spliced(text, run.start(), before, script):
                found.append(Break(run.start(), True))
        before, last = script, now
    return found


def _is_glued(before: int, last: str, script: int, now: str) -> bool:
    if LATIN in (before, script) and not HOSTS.isdisjoint((before, script)):
        return False
    return bool(_ENDS.search(last) and _BEGINS.match(now))


def _is_spliced(text: str, place: int, before: int, script: int) -> bool:
    """Whether a sentence goes on in another script, with a pure stretch of one on either side."""
    behind = text[max(0, place - _STRETCH) : place].rpartition("\n")[2]
    ahead = text[place : place + _STRETCH]
    if not _AT_A_BLANK.search(behind) or not _WORD.match(ahead):
        return False
    return _is_in(before, behind) and _is_in(script, ahead)


def _is_in(script: int, stretch: str) -> bool:
    letters = len(_LETTER.findall(stretch))
    of_it = len(_OF[script].findall(stretch))
    least = _DENSE_LETTERS if script == _HAN else _LETTERS
    return of_it >= least and of_it == letters
