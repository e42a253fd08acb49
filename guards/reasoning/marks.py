"""What the texts of tokens and sentences are made of, in any script: where sentences end, and what
their words are."""

import re
from typing import Final

# What a token's text has, as bits: a blank first; a mark that ends a sentence if a blank follows;
# one that ends it in any case; one that ends a clause; letters of a word; a line end; numbers
# or signs of formulas; letters of a script that writes words without blanks; any letter; and
# nothing but closing quotes and brackets, if that.
BLANK: Final = 1
STOP: Final = 2
HARD: Final = 4
CLAUSE: Final = 8
WORDS: Final = 16
LINE: Final = 32
SYMBOLS: Final = 64
RUN: Final = 128
LETTER: Final = 256
SILENT: Final = 512
ENDS: Final = STOP | HARD
# As many texts as the largest vocabularies have tokens.
_MOST_KINDS: Final = 1 << 18

_UNSPACED: Final = (
    r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Chinese, Japanese
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
)
_IS_HARD: Final = re.compile(r"[\n\r。！？｡։۔।॥؟]|[.!?…]['\"”’»)\]*_]*\s")
_IS_STOP: Final = re.compile(r"[.!?…]['\"”’»)\]*_]*\Z")
_IS_SILENT: Final = re.compile(r"\A['\"”’»)\]*_]*\Z")
_IS_CLAUSE: Final = re.compile(r"[,;:،؛、，；：—–]")
SENTENCE_END: Final = re.compile(r"[.!?…]\s+|\s*[\n\r。！？｡։۔।॥؟]\s*")
IS_WORDS: Final = re.compile(rf"[^\W\d_]{{2}}|[{_UNSPACED}]|[^\x00-\u02ff\W\d_]")
_IS_LETTER: Final = re.compile(r"[^\W\d_]")
_ASCII_ITEM: Final = re.compile(r"[a-z]+|\d+(?:[.,]\d+)*")
# Whatever is no blank, digit or sign is part of a word: marks are, on which \w breaks Hindi.
_ITEM: Final = re.compile(
    rf"\d+(?:[.,]\d+)*|[{_UNSPACED}]+"
    rf"|[^\s\d\x00-\x40\x5b-\x60\x7b-\xbf×÷{_UNSPACED}"
    r"\u2000-\u2bff\u3000-\u303f\uff00-\uff20۔।॥؟،؛]+"
)
_ITEM_OR_SIGN: Final = re.compile(rf"{_ITEM.pattern}|[a-z]+|[^\s\w]")
_IS_UNSPACED: Final = re.compile(f"[{_UNSPACED}]")
# Characters of a stretch without blanks that are taken for a word: two are one in Chinese; an
# alphabet takes more.
_IDEOGRAPHS: Final = 2
_LETTERS: Final = 4
_FIRST_IDEOGRAPH: Final = "\u3040"
# How many tokens a character has under a tokenizer that knows the language (as one of a hundred
# thousand tokens and more does, roughly): letters and blanks of scripts that have blanks; and
# ideographs, syllables and letters of scripts that have none. A digit or a sign of
# ASCII is one.
_PER_LETTER: Final = 1 / 3
_PER_DENSE: Final = 0.65
_IS_DENSE: Final = re.compile(rf"[{_UNSPACED}\uac00-\ud7af]")  # and Korean
_NO_SIGNS: Final = bytes(
    byte for byte in range(256) if byte > 127 or chr(byte).isalpha() or chr(byte).isspace()
)
_IS_SYMBOL: Final = re.compile(r"[\d=<>^|()\[\]{}→⇒+*/\\∧∨¬∈]")


def frame_of(items: tuple[str, ...]) -> tuple[str, ...]:
    """The words of a sentence without its numbers and letters."""
    return tuple([item for item in items if len(item) > 1 and not item[0].isdecimal()])


def items_of(text: str) -> tuple[str, ...]:
    """Words and numbers. Where no blanks part the words, overlapping pieces of the length of a word
    are taken for them."""
    if text.isascii():
        return tuple(_ASCII_ITEM.findall(text))
    items: list[str] = _ITEM.findall(text)
    if _IS_UNSPACED.search(text) is None:
        return tuple(items)
    made: list[str] = []
    for item in items:
        if _IS_UNSPACED.match(item):
            length = _IDEOGRAPHS if item >= _FIRST_IDEOGRAPH else _LETTERS
            made += [item[at : at + length] for at in range(max(1, len(item) - length + 1))]
        else:
            made.append(item)
    return tuple(made)


def size_of(text: str) -> float:
    """How many tokens a text would have under a tokenizer that knows its language. One that doesn't
    makes several times as many of Japanese or Hindi as of English that says the same."""
    signs = len(text.encode("utf-8", "replace").translate(None, _NO_SIGNS))
    dense = 0 if text.isascii() else len(_IS_DENSE.findall(text))
    return (len(text) - signs - dense) * _PER_LETTER + signs + dense * _PER_DENSE


def signs_of(text: str) -> tuple[str, ...]:
    """Words, numbers and signs."""
    return tuple(_ITEM_OR_SIGN.findall(text))


def pieces_of_word(text: str) -> int:
    """How many of the items of a text are about a word: 1, or more where no blanks part words."""
    found = None if text.isascii() else _IS_UNSPACED.search(text)
    if found is None:
        return 1
    return _IDEOGRAPHS if found[0] >= _FIRST_IDEOGRAPH else _LETTERS


_HAS: Final = (
    (re.compile(r"\A\s"), BLANK),
    (_IS_SILENT, SILENT),
    (_IS_CLAUSE, CLAUSE),
    (_IS_LETTER, LETTER),
    (IS_WORDS, WORDS),
    (re.compile(r"[\n\r]"), LINE),
    (_IS_UNSPACED, RUN),
    (_IS_SYMBOL, SYMBOLS),
)


def kind_of(text: str) -> int:
    """What a token's text has that matters for where sentences end, as bits."""
    kind = HARD if _IS_HARD.search(text) else STOP if _IS_STOP.search(text) else 0
    for pattern, bit in _HAS:
        if pattern.search(text):
            kind |= bit
    return kind


class _Kinds(dict[str, int]):
    """Kinds of texts seen before: a look costs half of what a cache with an order does."""

    def __missing__(self, text: str) -> int:
        if len(self) >= _MOST_KINDS:
            self.clear()
        self[text] = kind = kind_of(text)
        return kind


KINDS: Final = _Kinds()
