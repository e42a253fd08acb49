"""Repetition over the whole text: runs of words said three times, and how far the text compresses.

Rows, code, data, verse and short items are alike because they must be, so running prose alone is
judged, and a refrain comes twice because it is one: a run of words counts from its third time on.
Loops of short lines are for the streaming gates, which see that they are exact. Time and memory
are proportional to the text, of which at most the last 200,000 characters are judged.
"""

import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final

from ...schemas import CheckRecord, Evidence, Flaw
from .prose import Word, blocks, words
from .records import SWITCHED_OFF, evidence, passed, rejected, skipped
from .subject import Subject
from .thresholds import Thresholds

NGRAM: Final = "repetition_ngram"
COMPRESSION: Final = "repetition_compression"
# Words a run has. Good texts share shorter ones: with four, of 9,078 the worst was at 0.55, with
# eight at 0.23, where the median of texts that loop is 0.85 either way.
_RUN: Final = 8
_TIMES: Final = 2
_WORDS: Final = 20
_MOST: Final = 200_000
# Places shown.
_SHOWN: Final = 4


def check_ngrams(subject: Subject, thresholds: Thresholds) -> CheckRecord:
    """Which share of the words stands in a run that was there twice before."""
    limit = thresholds.repetition_ngram_max
    if not limit:
        return skipped(NGRAM, SWITCHED_OFF)
    found = list(_words(subject.text))
    if _too_short(found, thresholds):
        return skipped(NGRAM, "too little prose to say")
    covered = _repeated(found)
    score = len(covered) / len(found)
    if score <= limit:
        return passed(NGRAM, score, limit)
    return rejected(
        NGRAM,
        Flaw.REPETITIVE,
        f"{score:.0%} of the words are in runs of {_RUN} words said three times or more",
        score=score,
        threshold=limit,
        evidence=_spans(subject.text, found, covered),
    )


def check_compression(subject: Subject, thresholds: Thresholds) -> CheckRecord:
    """How many times smaller the prose gets when it is packed, a byte a character."""
    limit = thresholds.repetition_compression_max
    if not limit:
        return skipped(COMPRESSION, SWITCHED_OFF)
    score = _packed(subject.text, thresholds)
    if score is None:
        return skipped(COMPRESSION, "too little prose to say")
    if score <= limit:
        return passed(COMPRESSION, score, limit)
    return rejected(
        COMPRESSION,
        Flaw.REPETITIVE,
        f"the prose packs into a {score:.1f}th of its length: it says little that is new",
        score=score,
        threshold=limit,
        evidence=[evidence(subject.text, 0, len(subject.text))],
    )


def measures(subject: Subject, thresholds: Thresholds) -> dict[str, float]:
    """Both scores by the names of their checks; none where there is too little prose."""
    found = list(_words(subject.text))
    scores: dict[str, float] = {}
    if not _too_short(found, thresholds):
        scores[NGRAM] = len(_repeated(found)) / len(found)
    if (packed := _packed(subject.text, thresholds)) is not None:
        scores[COMPRESSION] = packed
    return scores


def compression(prose: str) -> float:
    """Length in characters by length when packed with zlib. Of each character the low byte counts,
    which tells the letters of a script apart: in UTF-8 every other script would pack better than
    Latin, for its bytes are alike."""
    low = prose.encode("utf-16-le", "surrogatepass")[::2]
    return len(low) / len(zlib.compress(low)) if low else 0.0


def _packed(text: str, thresholds: Thresholds) -> float | None:
    """None where there is too little prose, or it is a few long words: laughter, a scream."""
    text = text[-_MOST:]
    prose = "\n".join(text[line.start : line.end] for block in blocks(text) for line in block)
    some = list(islice(words(prose, 0, len(prose)), _WORDS))
    if len(prose) < thresholds.repetition_characters or len(some) < _WORDS:
        return None
    return compression(prose)


def _words(text: str) -> Iterator[Word]:
    skip = max(0, len(text) - _MOST)
    for block in blocks(text[skip:]):
        for line in block:
            yield from words(text, skip + line.start, skip + line.end)


def _too_short(found: list[Word], thresholds: Thresholds) -> bool:
    letters = sum(word.end - word.start for word in found)
    return len(found) < _RUN or letters < thresholds.repetition_characters


def _repeated(found: list[Word]) -> list[int]:
    """The words, by index, that stand in a run said for the third time or more."""
    seen: Counter[int] = Counter()
    covered: list[int] = []
    folded = [word.folded for word in found]
    for first in range(len(folded) - _RUN + 1):
        run = hash(tuple(folded[first : first + _RUN]))
        seen[run] += 1
        if seen[run] > _TIMES:
            after = covered[-1] + 1 if covered else 0
            covered.extend(range(max(first, after), first + _RUN))
    return covered


def _spans(text: str, found: list[Word], covered: list[int]) -> list[Evidence]:
    """The longest stretches of words side by side, in order."""
    stretches: list[list[int]] = []
    for index in covered:
        if stretches and index == stretches[-1][1] + 1:
            stretches[-1][1] = index
        else:
            stretches.append([index, index])
    longest = sorted(stretches, key=lambda ends: ends[0] - ends[1])[:_SHOWN]
    return [evidence(text, found[a].start, found[b].end) for a, b in sorted(longest)]
