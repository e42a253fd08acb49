"""Synthetic traces of agents that ask the same in other words, and of loops in other languages."""

import random
from collections.abc import Callable, Sequence
from typing import Final

from .agent_trace_parts import BEHIND, call, one, page, reading, step, trace
from .agent_trace_words import Words
from .agent_traces import Trace


def paraphrased(draw: random.Random, words: Words) -> Trace:
    """The question and what is said of it are reworded, and the answer is the same."""
    return _paraphrased("paraphrased", draw, words, "en", telling=True)


def paraphrased_short(draw: random.Random, words: Words) -> Trace:
    """The same, with an answer that says little."""
    return _paraphrased("paraphrased, short result", draw, words, "en", telling=False)


def synonyms(draw: random.Random, words: Words) -> Trace:
    """Hardly a word is the same, and the short answer is."""
    ways = draw.choice(words.questions["synonyms"])
    found = f"{words.topics[3]}: {draw.randrange(1000, 9000)} on average, one source says"
    rounds = [
        one(says, call("search", {"query": query}, found))
        for query, says in zip(
            _shuffled(draw, ways), _shuffled(draw, words.says["en"]), strict=True
        )
    ]
    return trace("synonyms", rounds, onset=2)


def paraphrased_chinese(draw: random.Random, words: Words) -> Trace:
    """In Chinese."""
    return _paraphrased("paraphrased zh", draw, words, "zh", telling=True)


def paraphrased_russian(draw: random.Random, words: Words) -> Trace:
    """In Russian."""
    return _paraphrased("paraphrased ru", draw, words, "ru", telling=True)


def paraphrased_japanese(draw: random.Random, words: Words) -> Trace:
    """In Japanese."""
    return _paraphrased("paraphrased ja", draw, words, "ja", telling=True)


def chinese(draw: random.Random, words: Words) -> Trace:
    """The same call, with a Chinese sentence."""
    return _in(draw, words, "zh")


def russian(draw: random.Random, words: Words) -> Trace:
    """In Russian."""
    return _in(draw, words, "ru")


def japanese(draw: random.Random, words: Words) -> Trace:
    """In Japanese."""
    return _in(draw, words, "ja")


def _in(draw: random.Random, words: Words, language: str) -> Trace:
    topic = draw.choice(words.apart[language])
    found = call("search", {"query": topic}, page(draw, words, topic))
    good = [reading(draw, words, each, language) for each in words.apart[language][:3]]
    again = one(step(draw, words, topic, language), found)
    return trace(f"same call {language}", [*good, *[again] * (1 + BEHIND)], onset=5)


def _paraphrased(
    kind: str, draw: random.Random, words: Words, language: str, *, telling: bool
) -> Trace:
    ways = draw.choice(words.questions[language])
    found = page(draw, words, ways[0], 10) if telling else "3 documents: a.pdf, b.pdf, c.pdf"
    rounds = [
        one(says, call("search", {"query": query}, found))
        for query, says in zip(
            _shuffled(draw, ways), _shuffled(draw, words.says[language]), strict=True
        )
    ]
    return trace(kind, rounds, onset=2)


def _shuffled(draw: random.Random, values: Sequence[str]) -> list[str]:
    """Enough of them, none twice in a row."""
    found: list[str] = []
    while len(found) < 1 + BEHIND:
        some = draw.sample(values, len(values))
        if not found or found[-1] != some[0]:
            found += some
    return found[: 1 + BEHIND]


REWORDINGS: Final[tuple[Callable[[random.Random, Words], Trace], ...]] = (
    paraphrased,
    paraphrased_short,
    synonyms,
    paraphrased_chinese,
    paraphrased_russian,
    paraphrased_japanese,
    chinese,
    russian,
    japanese,
)
"""Every kind."""
