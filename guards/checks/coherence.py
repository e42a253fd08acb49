"""Whether each sentence follows from what is before it: how much likelier the text before makes
it, in nats a token, mean over the tokens of all sentences of prose.

Notes of the streaming gates of level 4 (a broken word, scripts in a splice, lost confidence) prove
little alone, and are weighed here: each takes something off the score.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from ...schemas import CheckRecord, Flaw, Level
from .prose import is_prose
from .records import SWITCHED_OFF, evidence, passed, rejected, skipped
from .scores import SentenceScore
from .subject import Subject
from .thresholds import Thresholds

COHERENCE: Final = "coherence"
_FENCE: Final = re.compile(r"^[ \t>]*(?:```|~~~)", re.MULTILINE)
# What a line of a list or a quotation begins with.
_MARKER: Final = re.compile(r"^[\s>#*+•–—.()\d-]+")
# Sentences with something before them: with fewer, one change of subject decides.
_LEAST: Final = 4
# What a note takes off the score, in nats a token, and how many count.
_NOTE: Final = 0.1
_NOTES: Final = 3
# Places shown, the worst first.
_SHOWN: Final = 4


def check_coherence(subject: Subject, thresholds: Thresholds) -> CheckRecord:
    """The sentences that gain least are the evidence."""
    limit = thresholds.coherence_min
    if not limit:
        return skipped(COHERENCE, SWITCHED_OFF)
    score = measures(subject, thresholds).get(COHERENCE)
    if score is None:
        return skipped(COHERENCE, "no scores, or too few sentences of prose to say")
    if score >= limit:
        return passed(COHERENCE, score, limit)
    least = sorted(_prose(subject), key=gain)[:_SHOWN]
    noted = _noted(subject)
    return rejected(
        COHERENCE,
        Flaw.DISJOINTED,
        "its sentences have little to do with each other"
        + (f", and {noted} soft findings count against it" if noted else ""),
        score=score,
        threshold=limit,
        evidence=[evidence(subject.text, *sentence.chars) for sentence in least],
    )


def measures(subject: Subject, _thresholds: Thresholds) -> dict[str, float]:
    """The score by the name of the check; none where there is too little prose."""
    found = list(_prose(subject))
    tokens = sum(sentence.tokens for sentence in found)
    if len(found) < _LEAST or not tokens:
        return {}
    mean = math.fsum(gain(sentence) * sentence.tokens for sentence in found) / tokens
    return {COHERENCE: mean - _NOTE * _noted(subject)}


def gain(sentence: SentenceScore) -> float:
    """How much likelier the text before makes it, in nats a token."""
    return sentence.after - sentence.alone


def _prose(subject: Subject) -> Iterator[SentenceScore]:
    """The sentences that are prose, and in no fenced block."""
    if subject.scores is None:
        return
    fences = [found.start() for found in _FENCE.finditer(subject.text)]
    for sentence in subject.scores.sentences:
        begin, end = sentence.chars
        fenced = bisect_right(fences, begin) % 2
        if not fenced and is_prose(_MARKER.sub("", subject.text[begin:end]).strip()):
            yield sentence


def _noted(subject: Subject) -> int:
    notes = sum(note.level is Level.COHERENCE and note.action == "note" for note in subject.notes)
    return min(notes, _NOTES)
