"""Labelled reasoning traces: what thinks on and looks like a loop, and what goes in circles."""

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from .line import Line
from .reasoning_bad import LOOPS, Count, Loop, Looped, looping
from .reasoning_bank import Split, Voice, banks
from .reasoning_dev_problems import CASES
from .reasoning_dev_search import SEARCHES
from .reasoning_held_out_problems import HELD_OUT
from .reasoning_texts import TEXTS

Problem = Callable[[Voice], str]

PROBLEMS: Final[dict[Split, tuple[Problem, ...]]] = {
    "dev": CASES + SEARCHES + TEXTS,
    "held-out": HELD_OUT + TEXTS,
}
# Texts of each problem in each language, joined ones in each language, and loops in all.
_EACH: Final = 16
_JOINED: Final = 50
_LOOPS: Final = 700
# Tokens of a good text.
_LEAST, _MOST = 150, 4000
_TRIES: Final = 50


class ReasoningLine(Line, frozen=True, kw_only=True, omit_defaults=True):
    """A trace. `unit`: the tokens of one round of its loop."""

    unit: int | None = None


def reasoning_lines(
    split: Split, seed_of: Callable[[str], random.Random], count: Count, scale: float
) -> list[Line]:
    """The lines of a split; `count` gives the tokens of a text. None is there twice."""
    lines: list[Line] = []
    for language in sorted(banks(split)):
        draw = seed_of(f"{split}:{language}")
        writer = _Writer(split, language, count, draw)
        lines += writer.good(scale) + writer.bad(scale / len(banks(split)))
    return lines


def _different(make: Callable[[], str], number: int, seen: set[str]) -> Iterator[str]:
    """So many texts that were not seen; fewer where the maker has no more."""
    tries = 0
    while number and tries < _TRIES:
        text = make()
        tries += 1
        if text not in seen:
            seen.add(text)
            number -= 1
            tries = 0
            yield text


class _Writer:
    """What writes the traces of one language."""

    def __init__(self, split: Split, language: str, count: Count, draw: random.Random) -> None:
        self._split = split
        self._language = language
        self._bank = banks(split)[language]
        self._count = count
        self._draw = draw
        self.problems = [one for one in PROBLEMS[split] if one.__name__ in self._bank]

    def good(self, scale: float) -> list[Line]:
        """Traces that get on, of each problem alone and of several."""
        seen: set[str] = set()
        lines: list[Line] = []
        makers = [(one.__name__, partial(self.single, one), _EACH) for one in self.problems]
        for name, make, number in [*makers, ("joined", self.joined, _JOINED)]:
            some = _different(make, max(1, round(number * scale)), seen)
            lines += [self._line(f"progress:{name}", at, text) for at, text in enumerate(some)]
        return lines

    def bad(self, share: float) -> list[Line]:
        """Traces that go in circles."""
        return [
            self._line(loop.kind, at, self.looping(loop))
            for loop in LOOPS
            for at in range(max(1, round(_LOOPS * share * loop.share)))
        ]

    def _line(self, kind: str, number: int, said: str | Looped) -> ReasoningLine:
        looped = None if isinstance(said, str) else said
        return ReasoningLine(
            id=f"{self._split}:{self._language}:{kind}:{number}",
            text=said if isinstance(said, str) else said.text,
            label="bad" if looped else "good",
            kind=kind,
            profile="chat",
            onset=looped.onset if looped else None,
            unit=looped.unit if looped else None,
            source=f"made.reasoning.{self._language}",
        )

    def _voice(self) -> Voice:
        return Voice(self._language, self._bank, self._draw)

    def single(self, problem: Problem) -> str:
        """One problem; one that is too short has another kind behind it."""
        for _ in range(_TRIES):
            text = problem(self._voice())
            if _LEAST <= self._count(text) <= _MOST:
                return text
        return self._honest(self._voice(), (_LEAST, _MOST), 2, first=problem)

    def joined(self) -> str:
        """Several problems, one after the other."""
        return self._honest(self._voice(), (_LEAST, _MOST), self._draw.randint(2, 6))

    def looping(self, loop: Loop) -> Looped:
        """A loop behind a good beginning."""
        return looping(self._voice(), loop, self._begin, self._count)

    def _begin(self, voice: Voice, tokens: tuple[int, int]) -> str:
        return self._honest(voice, tokens, self._draw.randint(1, 3))

    def _honest(
        self, voice: Voice, tokens: tuple[int, int], number: int, first: Problem | None = None
    ) -> str:
        """So many problems, or more or fewer for the sake of the length; of no kind two, for the
        same plan made twice would be a loop."""
        least, most = tokens
        while True:
            some = self._draw.sample(self.problems, min(number, len(self.problems)))
            if first is not None:
                some = [first, *(one for one in some if one is not first)]
            parts = [problem(voice) for problem in some]
            for at in range(1, len(parts)):
                aside = self._draw.choice(voice.list("asides"))
                parts[at] = f"{aside}{voice.space}{parts[at]}"
            text = "\n\n".join(parts)
            tokens_now = self._count(text)
            if least <= tokens_now <= most:
                return text
            number = max(1, number + (1 if tokens_now < least else -1))
