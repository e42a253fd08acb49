"""What a retry says to the model: sentences of the table, filled in from the job's rules."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from ..schemas import Rules, Sampling
from ..schemas.errors import tame
from ..schemas.limits import MAX_INSTRUCTION_CHARS
from .languages import language_name

PLACES: Final = ("language", "required", "forbidden", "least", "most", "words")
_PLACE: Final = re.compile(r"\{([^{}]*)\}")
# Of a list of phrases, in characters: two of them leave room for the sentences around.
_MAX_LIST: Final = 400
# Words for a token: English has about 0.75. What must fit is said with room to spare.
_WORDS_AT_MOST: Final = 0.5
_WORDS_AT_LEAST: Final = 0.75


def places_of(sentence: str) -> list[str]:
    """The names in braces."""
    return _PLACE.findall(sentence)


def instruction(sentences: Sequence[str], rules: Rules, sampling: Sampling) -> str:
    """The sentences, one a line, each once, as many as fit in a mutation's instruction.

    One that has a place with nothing to say is left out. Deterministic.
    """
    values = _values(rules, sampling)
    filled = (_filled(sentence, values) for sentence in sentences)
    text = ""
    for line in dict.fromkeys(line for line in filled if line):
        longer = f"{text}\n{line}" if text else line
        if len(longer) <= MAX_INSTRUCTION_CHARS:
            text = longer
    return text


def _filled(sentence: str, values: dict[str, str]) -> str:
    if not all(values[place] for place in places_of(sentence)):
        return ""
    # One pass: braces in a phrase are no places.
    return _PLACE.sub(lambda place: values[place[1]], sentence)


def _values(rules: Rules, sampling: Sampling) -> dict[str, str]:
    language = rules.language
    return {
        "language": language_name(language) if language else "the language of the question",
        "required": _quoted(rules.must_include),
        "forbidden": _quoted(rules.must_not_include),
        "least": _length(
            rules.min_words, rules.min_characters, int(rules.min_tokens * _WORDS_AT_LEAST)
        ),
        "most": _length(
            rules.max_words, rules.max_characters, int(rules.max_tokens * _WORDS_AT_MOST)
        ),
        "words": str(max(1, int(sampling.max_tokens * _WORDS_AT_MOST))),
    }


def _length(words: int, characters: int, words_of_tokens: int) -> str:
    """Models count words better than characters, and no tokens at all."""
    if words or not characters:
        words = words or words_of_tokens
        return f"{words} words" if words else ""
    return f"{characters} characters"


def _quoted(phrases: Iterable[str]) -> str:
    """As many of them as fit, on one line, with nothing in them that acts instead of showing."""
    text = ""
    for phrase in phrases:
        quoted = f'"{tame(" ".join(phrase.split()))}"'
        longer = f"{text}, {quoted}" if text else quoted
        if len(longer) <= _MAX_LIST:
            text = longer
    return text
