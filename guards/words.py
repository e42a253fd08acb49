"""Whether words are whole: sequences of letters that no word has.

A list of words has as few function words and as little grammar as token salad, but its words are
whole; in salad pieces of words are glued to each other. `words.bin` has the sequences of four
characters, blanks before and behind the word among them, that happen in words: in three different
ones of good texts, in one of two letters, or within one token that begins a word.
`ops/build_ngrams.py` made it.
"""

import zlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Final

import regex

from .ngrams import ORDER

_NO_WORD: Final = regex.compile(r"\P{Latin}+")
_PER: Final = 100


def sequences(text: str) -> set[str]:
    """The different sequences in the words of a text, all in small letters. Words that the text's
    edge cuts off have none that says so."""
    plain = _NO_WORD.sub(" ", text.lower())
    grams = {plain[at : at + ORDER] for at in range(len(plain) - ORDER + 1)}
    return {gram for gram in grams if " " not in gram[1:-1]}


def broken(text: str) -> float:
    """How many different sequences of a text no word has, per hundred characters. O(length)."""
    return _PER * len(sequences(text) - known()) / len(text) if text else 0.0


@cache
def known() -> frozenset[str]:
    """The sequences of the built-in file."""
    data = (files(__package__ or "") / "words.bin").read_bytes()
    held = zlib.decompress(data).decode()
    return frozenset(held[at : at + ORDER] for at in range(0, len(held), ORDER))


def pack_words(grams: Iterable[str]) -> bytes:
    """The content of `words.bin` for these sequences."""
    return zlib.compress("".join(sorted(set(grams))).encode(), 9)
