"""What the heavy set is made from: good answers of the model, documents, and rot."""

import random
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from .heavy_line import Pair, Rot
from .line import Line
from .passages import ended
from .repeats import distinct

# Share of 4-grams: below the first an answer has begun to repeat itself, below the other it does
# nothing else.
_SOUND, _LOOPING = 0.6, 0.4
_LEAST_CHARS: Final = 60
_LEAST_CHARS_FACT: Final = 30
# Languages that are told apart from each other by a hundred letters or two; those in one group are
# not set against each other.
_GROUPS: Final = ("de", "en", "es pt", "fr", "it", "nl", "pl", "sv", "fi", "hu", "tr", "cs", "ro")
_OTHER_GROUPS: Final = ("ru uk", "el", "ja", "ko", "zh", "ar", "he")
LATIN: Final = frozenset(" ".join(_GROUPS).split())
CLEAR: Final = LATIN | frozenset(" ".join(_OTHER_GROUPS).split())


class Answer(Struct, frozen=True, kw_only=True):
    """A good answer: whole, and no loop."""

    kind: str
    profile: str
    subject: str
    prompt: str
    text: str


class Material(Struct, frozen=True, kw_only=True):
    """`languages`: texts by ISO 639 code, of CLEAR ones; `cut`: answers that the limit on tokens
    ended; `loops`: answers that went round in circles; `words`: tokens that are words of ASCII
    letters, most with the blank before them."""

    answers: Sequence[Answer]
    documents: Sequence[Line]
    languages: dict[str, list[Line]]
    cut: Sequence[Pair]
    loops: Sequence[Pair]
    rot: Sequence[str]
    words: Sequence[str]


def material(
    documents: Sequence[Line], pairs: Sequence[Pair], rot: Sequence[Rot], tokenizer: Any
) -> Material:
    """Sorted out of what there is."""
    languages: dict[str, list[Line]] = {}
    for line in documents:
        code = language_code(line)
        if code in CLEAR:
            languages.setdefault(code, []).append(line)
    return Material(
        answers=[one for pair in pairs if (one := answer(pair)) is not None],
        documents=documents,
        languages=languages,
        cut=[pair for pair in pairs if pair.finish_reason == "length" and _is_cut(pair)],
        loops=[pair for pair in pairs if len(pair.ids) > 100 and distinct(pair.ids) < _LOOPING],
        rot=[one.text.strip() for one in rot if one.surprise > one.usual],
        words=_words(tokenizer),
    )


def answer(pair: Pair) -> Answer | None:
    """The answer as far as it is whole; None for one that is too short or repeats itself, and where
    the beginning is no good without the end or so small a model seldom does well."""
    task = pair.task
    if task.kind == "translate" or (task.kind == "json" and pair.finish_reason == "length"):
        return None
    text = pair.text if pair.finish_reason == "stop" else ended(pair.text)
    least = _LEAST_CHARS_FACT if task.kind == "fact" else _LEAST_CHARS
    if len(text.strip()) < least or distinct(pair.ids) < _SOUND or text.count("```") % 2:
        return None
    return Answer(
        kind=task.kind, profile=task.profile, subject=task.subject, prompt=task.prompt, text=text
    )


def language_code(line: Line) -> str | None:
    """ISO 639 of a text whose language is known from its source."""
    if line.kind.startswith("language:"):
        return line.kind.removeprefix("language:").partition("_")[0]
    return "en" if line.kind == "prose:documents" else None


def related(one: str, other: str) -> bool:
    """Whether the two are hard to tell apart."""
    return any({one, other} <= set(group.split()) for group in (*_GROUPS, *_OTHER_GROUPS))


def pick(draw: random.Random, of: Iterable[Any]) -> Any:
    """One of them, or None where there is none."""
    there = list(of)
    return draw.choice(there) if there else None


def _is_cut(pair: Pair) -> bool:
    return distinct(pair.ids) >= _SOUND and pair.text.rstrip()[-1:].isalnum()


def _words(tokenizer: Any) -> list[str]:
    found: list[str] = []
    for token in range(17, tokenizer.vocabulary_size):
        text: str = tokenizer.tokenizer.decode([token])
        if text.strip().isalpha() and text.isascii() and len(text) > 2:
            found.append(text)
    return found
