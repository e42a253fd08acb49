"""Findings of the watchdog, and how a call is told in them."""

from typing import Final

import regex

from ..schemas.agents import CallSample, Finding
from ..schemas.errors import tame
from ..schemas.limits import MAX_DETAIL
from .signatures import ASKED, LONG

_LARGEST: Final = 1e12
_TOOL: Final = 64
_ARGUMENTS: Final = 60
# Between characters that are words of their own.
_DENSE: Final = r"[\p{Han}\p{Hiragana}\p{Katakana}ー\p{Thai}]"
_NO_BLANKS: Final = regex.compile(rf"(?<={_DENSE}) (?={_DENSE})")


def finding(
    metric: str, value: float, threshold: float, points: int, detail: str, *, at_least: bool = False
) -> Finding:
    """A metric's value; with points and a sentence where it is past its threshold: over it, or with
    `at_least` on it."""
    past = value >= threshold if at_least else value > threshold
    return Finding(
        metric=metric,
        value=round(min(value, _LARGEST), 4),
        threshold=threshold,
        points=points if past else 0,
        detail=tame(detail, MAX_DETAIL) if past and points else "",
    )


def shown(call: CallSample) -> str:
    """A call, cut short and fit to be read: `search(berlin weather)`."""
    exact = [_short(word) for word in call.words if "=" in word]
    said = " ".join(word for word in call.words if "=" not in word and not word.startswith(ASKED))
    said = _NO_BLANKS.sub("", said)
    about = ", ".join(part for part in (*exact, said) if part)
    tool = tame(call.tool, _TOOL)
    return f"{tool}({tame(about, _ARGUMENTS)})" if about else tool


def _short(word: str) -> str:
    name, _, value = word.partition("=")
    return f"{name}=..." if value.startswith(LONG) else word.lstrip("=")
