"""What the bad lines of the heavy set have in common."""

import random
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from ...schemas import Rules
from .heavy_material import Answer, Material, pick
from .line import Line

LEAST_TEXT: Final = 300  # characters of a text that something is put into
LEAST_ANSWER: Final = 80
_ENGLISH: Final = ("explain", "list", "letter", "story", "advice", "fact", "summary")


class Bad(NamedTuple):
    """A text with a fault from character `onset` on; 0: all of it is wrong. None: not known."""

    text: str
    onset: int | None
    profile: str = "chat"
    prompt: str | None = None
    rules: Rules = Rules()
    finish_reason: str = "stop"
    source: str | None = "SmolLM2-135M-Instruct"


Maker = Callable[[Material, random.Random], Bad | None]


def instead_of(
    one: Answer, text: str, onset: int | None, rules: Rules | None = None, end: str = "stop"
) -> Bad:
    """In place of the answer."""
    return Bad(text, onset, one.profile, one.prompt, rules or Rules(), end)


def english(made_of: Material, draw: random.Random, least: int) -> Answer | None:
    """An answer in English, with at least so many characters."""
    return pick(
        draw, (one for one in made_of.answers if one.kind in _ENGLISH and len(one.text) >= least)
    )


def good_text(made_of: Material, draw: random.Random) -> Bad | None:
    """A good text that is long enough to have something put into it."""
    one = pick(draw, made_of.answers) if draw.random() < 0.6 else None
    if one is not None and len(one.text) >= LEAST_TEXT and one.kind not in ("code", "json"):
        return instead_of(one, one.text, None)
    line: Line | None = pick(draw, made_of.languages.get("en", ()))
    if line is None or len(line.text) < LEAST_TEXT:
        return None
    return Bad(line.text, None, line.profile, source=line.source)


def split(text: str, draw: random.Random) -> tuple[str, str] | None:
    """At the end of a sentence or a line, somewhere in the middle."""
    ends = [found.end() for found in re.finditer(r"[.!?:]\s+|\n+", text)]
    at = pick(draw, (end for end in ends if 0.2 * len(text) < end < 0.65 * len(text)))
    return None if at is None else (text[:at], text[at:])
