"""The sequences of letters that words have, from good texts and from vocabularies."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import regex

from ..guards.words import sequences
from .ngram_texts import Vocabulary

_WORD: Final = regex.compile(r"\p{Latin}+")
_BEGINS_WORD: Final = regex.compile(r" \p{Latin}+")
# Of what is there once, much is misspelled or no word at all.
_TIMES: Final = 2
_WORDS: Final = 3
_LONGEST: Final = 24
# A word of two letters has a sequence of its own.
_SHORT: Final = 2
_SHORT_TIMES: Final = 20


def word_sequences(good: Iterable[str], vocabularies: Iterable[Vocabulary]) -> set[str]:
    """Those of three words that come twice, words of two letters that come often, and those within
    a token that begins a word: salad breaks where tokens meet, never within one."""
    words = Counter(word.lower() for text in good for word in _WORD.findall(text))
    counts: Counter[str] = Counter()
    for word, times in words.items():
        if times >= _TIMES and len(word) <= _LONGEST:
            counts.update(sequences(f" {word} "))
    found = {gram for gram, count in counts.items() if count >= _WORDS}
    for word, times in words.items():
        if times >= _SHORT_TIMES and len(word) == _SHORT:
            found |= sequences(f" {word} ")
    for vocabulary in vocabularies:
        for token in _beginnings(vocabulary):
            found |= sequences(token)
    return found


def _beginnings(vocabulary: Vocabulary) -> Iterator[str]:
    for number in range(vocabulary.size):
        token = vocabulary.decode([number])
        if _BEGINS_WORD.fullmatch(token):
            yield token
