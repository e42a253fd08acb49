"""A small model of what good text looks like, in any language and in code.

It has a weight for each sequence of four characters that tells good text from token salad: positive
where it is commoner in salad. `ops/build_ngrams.py` trained it, as a linear classifier of windows
of 200 characters, and says from what. Only Latin letters stand for themselves; the letters of any
other script stand for that script, digits for a digit. So what the model knows is how words, marks
and blanks follow each other, and about words it has never seen it has nothing to say.
"""

import unicodedata
import zlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec
import regex
from msgspec import Struct

ORDER: Final = 4

_LATIN: Final = regex.compile(r"\p{Latin}")
_LETTER: Final = regex.compile(r"[\p{L}\p{M}]")
# One letter each that stands for all of its script.
_SCRIPTS: Final = tuple(
    (regex.compile(pattern), letter)
    for pattern, letter in (
        (r"\p{Cyrillic}", "\u0436"),
        (r"\p{Greek}", "\u03b3"),
        (r"\p{Arabic}", "\u0639"),
        (r"\p{Hebrew}", "\u05d0"),
        (r"[\p{Han}\p{Hiragana}\p{Katakana}]", "\u4e2d"),
        (r"\p{Hangul}", "\ud55c"),
        (r"\p{Thai}", "\u0e01"),
    )
)
_OTHER_LETTER: Final = "\u0e2d"
# All letters that stand for a script.
SCRIPT_LETTERS: Final = "".join(letter for _, letter in _SCRIPTS) + _OTHER_LETTER
_OTHER_MARK: Final = "\u2026"
_OTHER_SIGN: Final = "\u00a4"


class _Table(dict[int, str]):
    """For `str.translate`: made as characters come."""

    def __missing__(self, code: int) -> str:
        stands = self[code] = _stands_for(chr(code))
        return stands


_TABLE: Final = _Table()
_ASCII: Final = bytes.maketrans(b"0123456789", b"0" * 10)


class File(Struct, frozen=True):
    """What `ngrams.bin` holds, compressed: the sequences of each weight, one behind the other."""

    weights: dict[int, str]


class Ngrams:
    """Weights of sequences of four characters."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights = dict(weights)

    def __repr__(self) -> str:
        return f"<Ngrams {len(self._weights)}>"

    def total(self, plain: str) -> int:
        """The sum of the weights of all sequences in a text of `stand_ins`. O(length)."""
        weight = self._weights.get
        return sum([weight(plain[at : at + ORDER], 0) for at in range(len(plain) - ORDER + 1)])

    def distinct_total(self, plain: str) -> int:
        """The same, but each sequence counts once, however often it comes."""
        weight = self._weights.get
        return sum(weight(one, 0) for one in {plain[at : at + ORDER] for at in range(len(plain))})


@cache
def built_in() -> Ngrams:
    """The model that is part of this package."""
    data = (files(__package__ or "") / "ngrams.bin").read_bytes()
    held = msgspec.msgpack.decode(zlib.decompress(data), type=File)
    return Ngrams(
        {
            grams[start : start + ORDER]: weight
            for weight, grams in held.weights.items()
            for start in range(0, len(grams), ORDER)
        }
    )


def stand_ins(text: str) -> str:
    """The text as the model reads it, as long as before."""
    if text.isascii():
        # Twice as fast as the other way, and most text is.
        return text.encode().translate(_ASCII).decode()
    return text.translate(_TABLE)


def pack(weights: Mapping[str, int]) -> bytes:
    """The content of `ngrams.bin` for these weights."""
    by_weight: dict[int, list[str]] = {}
    for gram, weight in sorted(weights.items()):
        by_weight.setdefault(weight, []).append(gram)
    held = File({weight: "".join(grams) for weight, grams in sorted(by_weight.items())})
    return zlib.compress(msgspec.msgpack.encode(held), 9)


def _stands_for(character: str) -> str:
    if character.isascii():
        return "0" if character.isdigit() else character
    if character.isdigit():
        return "0"
    if _LATIN.match(character):
        return character
    for pattern, letter in _SCRIPTS:
        if pattern.match(character):
            return letter
    if _LETTER.match(character):
        return _OTHER_LETTER
    return _OTHER_MARK if unicodedata.category(character).startswith("P") else _OTHER_SIGN
