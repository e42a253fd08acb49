"""How alike two texts are, by the terms that they share, whatever script they are in.

The Jaccard index of their sets of terms (Jaccard, 1912): terms that both have, by terms that either
has, 0 to 1. In scripts that set blanks a term is a word that is no stop word; in those that set
none it is a run of characters: two side by side of Han and kana, three of Thai, Lao, Khmer and
Burmese, as full-text indexes have them. Time is proportional to the texts.
"""

import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

import regex

from .stop_words import PARTICLES, STOP_WORDS

Similarity = Callable[[str, str], float]
"""Of two texts, 0 to 1: `jaccard`, or a cosine of embeddings from outside."""

_PIECE: Final = regex.compile(
    r"(?P<dense>[\p{Han}\p{Hiragana}\p{Katakana}ー々]++)"
    r"|(?P<sparse>[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]++)"
    r"|(?:(?![\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}])[\p{L}\p{M}\p{N}])++"
)
_ASKED: Final = tuple(
    (kind, regex.compile(rf"(?i)\b(?:{spaced})\b|{dense}"))
    for kind, spaced, dense in (
        (
            "count",
            "how (?:many|much|long|often)|wie ?viele?|combien|cuánt[oa]s?|сколько",
            "多少|几|いくつ|いくら",
        ),
        ("who", "who|whom|whose|wer|wen|wem|qui|quién|кто|кого", "谁|誰"),
        ("when", "when|wann|quand|cuándo|когда", "何时|什么时候|いつ"),
        ("where", "where|wo|wohin|où|dónde|где|куда", "哪里|在哪|どこ"),
        ("why", "why|warum|weshalb|pourquoi|por qué|почему|зачем", "为什么|なぜ|どうして"),
    )
)
_DENSE: Final = 2
_SPARSE: Final = 3


@lru_cache(maxsize=64)  # each output is compared with several, and with the next ones again
def terms(text: str) -> frozenset[str]:
    """The different terms of a text, without stop words."""
    return frozenset(_terms(text))


def jaccard(one: str, other: str) -> float:
    """The share of terms that two texts have in common; 0 where one of them has none."""
    return overlap(terms(one), terms(other))


def overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """The same of sets of terms."""
    both = len(one & other)
    return both / (len(one) + len(other) - both) if both else 0.0


def asked_for(text: str) -> frozenset[str]:
    """What a question asks for, in several languages: "who", "when", "where", "why" or "count"; by
    "what" and "which" it may be anything."""
    return frozenset(kind for kind, asked in _ASKED if asked.search(text))


def _terms(text: str) -> Iterator[str]:
    folded = unicodedata.normalize("NFC", text).casefold()
    for piece in _PIECE.finditer(folded):
        word = piece[0]
        if piece["dense"] is not None:
            for gram in _grams(word, _DENSE):
                if not PARTICLES.issuperset(gram):
                    yield gram
        elif piece["sparse"] is not None:
            yield from _grams(word, _SPARSE)
        elif word not in STOP_WORDS:
            yield word


def _grams(run: str, length: int) -> Iterator[str]:
    if len(run) <= length:
        yield run
        return
    for at in range(len(run) - length + 1):
        yield run[at : at + length]
