"""How surprised the scoring model is, in nats a token: over the whole text, and over its worst
window, so that one rotten paragraph in a good text is found.

By token, and not by character or byte: a language that the model doesn't know falls into short
tokens, each of which surprises it little; token salad is made of whole tokens, each of which
surprises it much. Of 122 texts of a model out of control 96% were beyond all of 998 good ones in
76 languages by their worst window in nats a token, none in nats a byte.
"""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

from msgspec import Struct

from ...schemas import CheckRecord, Flaw
from .records import SWITCHED_OFF, evidence, passed, rejected, skipped
from .scores import TextScores
from .subject import Subject
from .thresholds import Thresholds

PERPLEXITY: Final = "perplexity"
WINDOW: Final = "perplexity_window"
# With fewer tokens one rare word decides.
_LEAST: Final = 32
# Characters that are not scored between two tokens that still are neighbours: white space, in the
# tokens of some models.
_GAP: Final = 64


class Worst(Struct, frozen=True):
    """The window of the highest mean, in nats a token; tokens half open."""

    mean: float
    begin: int
    end: int


def check_perplexity(subject: Subject, thresholds: Thresholds) -> CheckRecord:
    """The mean over the whole text."""
    limit = thresholds.perplexity_max
    if not limit:
        return skipped(PERPLEXITY, SWITCHED_OFF)
    score = measures(subject, thresholds).get(PERPLEXITY)
    if score is None:
        return skipped(PERPLEXITY, _no_score(subject))
    part = _part(subject)
    if score <= limit:
        return passed(PERPLEXITY, score, limit, part)
    return rejected(
        PERPLEXITY,
        Flaw.HIGH_PERPLEXITY,
        f"the scoring model expects none of it: perplexity {math.exp(score):,.0f} over all"
        + (f"; {part}" if part else ""),
        score=score,
        threshold=limit,
        evidence=[evidence(subject.text, 0, len(subject.text))],
    )


def check_window(subject: Subject, thresholds: Thresholds) -> CheckRecord:
    """The mean over the worst window; it is the evidence."""
    limit = thresholds.perplexity_window_max
    if not limit:
        return skipped(WINDOW, SWITCHED_OFF)
    scores = subject.scores
    found = worst(scores, thresholds.perplexity_window_tokens) if scores else None
    if scores is None or found is None:
        return skipped(WINDOW, _no_score(subject))
    part = _part(subject)
    if found.mean <= limit:
        return passed(WINDOW, found.mean, limit, part)
    begin, end = scores.chars[found.begin][0], scores.chars[found.end - 1][1]
    return rejected(
        WINDOW,
        Flaw.HIGH_PERPLEXITY,
        f"the scoring model expects none of a part of it: perplexity {math.exp(found.mean):,.0f} "
        f"over {found.end - found.begin} tokens" + (f"; {part}" if part else ""),
        score=found.mean,
        threshold=limit,
        evidence=[evidence(subject.text, begin, end)],
    )


def measures(subject: Subject, thresholds: Thresholds) -> dict[str, float]:
    """Both, by the names of their checks; none for a text that is too short to say."""
    scores = subject.scores
    if scores is None or len(scores.logprobs) < _LEAST:
        return {}
    found = {PERPLEXITY: -math.fsum(scores.logprobs) / len(scores.logprobs)}
    window = worst(scores, thresholds.perplexity_window_tokens)
    if window is not None:
        found[WINDOW] = window.mean
    return found


def worst(scores: TextScores, size: int) -> Worst | None:
    """The worst window of `size` tokens that stand together; a stretch that is shorter, but not
    too short, is one window. None without any. O(tokens)."""
    sums = [0.0, *accumulate(scores.logprobs)]
    found: Worst | None = None
    for begin, end in _stretches(scores.chars):
        if end - begin < _LEAST:
            continue
        width = min(size, end - begin)
        for at in range(begin, end - width + 1):
            mean = (sums[at] - sums[at + width]) / width
            if found is None or mean > found.mean:
                found = Worst(mean, at, at + width)
    return found


def _stretches(chars: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Tokens that follow each other in the text, half open: of a long text the middle is not
    scored."""
    edges = [0]
    edges += [at for at in range(1, len(chars)) if chars[at][0] - chars[at - 1][1] > _GAP]
    edges.append(len(chars))
    return list(pairwise(edges))


def _part(subject: Subject) -> str:
    """What to say where not all of the text was scored, "" where it was."""
    scores, length = subject.scores, len(subject.text)
    if scores is None:
        return ""
    edges = [0, *(edge for pair in scores.chars for edge in pair), length]
    left_out = sum(
        gap for a, b in zip(edges[::2], edges[1::2], strict=True) if (gap := b - a) > _GAP
    )
    if not left_out:
        return ""
    return f"only {length - left_out:,} of the {length:,} characters were looked at"


def _no_score(subject: Subject) -> str:
    return "no scores" if subject.scores is None else "too short to say"
