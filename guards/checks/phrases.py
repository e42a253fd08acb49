"""Phrases in a text, whatever their case, their form of Unicode and their white space: places.

Both are folded: NFC, case folding, NFC again (Unicode 3.13, D145 with its normalisation), and a run
of white space is as good as any other. Time is proportional to the text, for each phrase.
"""

import unicodedata
from collections.abc import Callable
from itertools import islice
from typing import Final

import regex

from ...schemas import CheckRecord, Flaw
from .records import evidence, passed, rejected

_CLUSTER: Final = regex.compile(r"\X")
_SHOWN: Final = 4
Place = tuple[int, int]


class Folded:
    """A text, folded once for many phrases, that knows where each character came from."""

    def __init__(self, text: str) -> None:
        self.text = text
        folded = text.casefold()
        # Folding makes no character shorter: of equal length, each is at its place.
        if len(folded) == len(text) and _is_composed(text) and _is_composed(folded):
            self.folded = folded
            self._place: Callable[[int, int], Place] = lambda start, end: (start, end)
        else:
            self.folded = self._fold_by_cluster()

    def places(self, phrase: str) -> list[Place]:
        """Where the phrase stands first, in characters of the text, a few places at most."""
        found = islice(_pattern(phrase).finditer(self.folded), _SHOWN)
        return [self._place(*match.span()) for match in found]

    def _fold_by_cluster(self) -> str:
        """What composes is within a cluster, so each is folded by itself."""
        parts: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        for match in _CLUSTER.finditer(self.text):
            part = fold(match[0])
            parts.append(part)
            starts += [match.start()] * len(part)
            ends += [match.end()] * len(part)
        self._place = lambda start, end: (starts[start], ends[end - 1])
        return "".join(parts)


def fold(text: str) -> str:
    """The text in the form in which phrases are compared."""
    composed = unicodedata.normalize("NFC", text).casefold()
    return unicodedata.normalize("NFC", composed)


def check_must_include(check: str, text: Folded, phrases: tuple[str, ...]) -> CheckRecord:
    """Whether every phrase is there."""
    missing = [phrase for phrase in _said(phrases) if not text.places(phrase)]
    if not missing:
        return passed(check)
    shown = ", ".join(repr(phrase) for phrase in missing[:5])
    return rejected(
        check,
        Flaw.MISSING_TEXT,
        f"the text lacks {shown}" + (f" and {len(missing) - 5} more" if missing[5:] else ""),
        evidence=[evidence(text.text, 0, len(text.text))],
    )


def check_must_not_include(check: str, text: Folded, phrases: tuple[str, ...]) -> CheckRecord:
    """Whether no phrase is there."""
    found = {phrase: places for phrase in _said(phrases) if (places := text.places(phrase))}
    if not found:
        return passed(check)
    shown = ", ".join(repr(phrase) for phrase in list(found)[:5])
    return rejected(
        check,
        Flaw.FORBIDDEN_TEXT,
        f"the text has {shown}" + (f" and {len(found) - 5} more" if len(found) > 5 else ""),
        evidence=[evidence(text.text, *place) for places in found.values() for place in places],
    )


def _said(phrases: tuple[str, ...]) -> list[str]:
    """Those that are not blank: that a text has white space says nothing of it."""
    return [phrase for phrase in phrases if phrase.strip()]


def _is_composed(text: str) -> bool:
    return unicodedata.is_normalized("NFC", text)


def _pattern(phrase: str) -> regex.Pattern[str]:
    """The folded phrase with any white space for its own; a run is gone through once."""
    pieces = regex.split(r"\s+", fold(phrase))
    blank = r"(?<!\s)\s++"
    body = blank.join(regex.escape(piece) for piece in pieces)
    return regex.compile(body)
