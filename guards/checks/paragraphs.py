"""Paragraphs that say again what an earlier one said, by the shingles of words they share.

Likeness is the Jaccard index of their sets of three words side by side (Broder, "On the
resemblance and containment of documents", 1997). Paragraphs of fewer than 20 words, code, tables
and verse don't count. Time and memory are proportional to the text, of which at most the last
200,000 characters are judged: a shingle leads to four earlier paragraphs at most.
"""

from collections import Counter, defaultdict
from typing import Final

from msgspec import Struct

from ...schemas import CheckRecord, Evidence, Flaw
from .prose import Line, blocks, words
from .records import SWITCHED_OFF, evidence, passed, rejected, skipped
from .subject import Subject
from .thresholds import Thresholds

PARAGRAPHS: Final = "duplicate_paragraphs"
_WORDS: Final = 20
_CHARACTERS: Final = 80
_LEADS: Final = 4
_MOST: Final = 200_000
# Pairs shown, of two places each.
_PAIRS: Final = 4


class Repeat(Struct, frozen=True):
    """A paragraph, the earlier one that is most like it, and how like (0 to 1); places in
    characters."""

    place: tuple[int, int]
    earlier: tuple[int, int]
    likeness: float
    words: int


class _Paragraph(Struct, frozen=True):
    place: tuple[int, int]
    shingles: frozenset[tuple[str, ...]]
    words: int


def check_paragraphs(subject: Subject, thresholds: Thresholds) -> CheckRecord:
    """Which share of the words is in paragraphs nearly the same as an earlier one."""
    limit = thresholds.duplicate_paragraphs_max
    if not limit:
        return skipped(PARAGRAPHS, SWITCHED_OFF)
    text = subject.text
    found = _paragraphs(text)
    if len(found) < 2:
        return skipped(PARAGRAPHS, "fewer than two paragraphs")
    alike = repeats(found, thresholds.duplicate_paragraphs_similarity)
    score = sum(each.words for each in alike) / sum(each.words for each in found)
    if score <= limit:
        return passed(PARAGRAPHS, score, limit)
    worst = sorted(alike, key=lambda each: -each.likeness)[:_PAIRS]
    return rejected(
        PARAGRAPHS,
        Flaw.NEAR_DUPLICATES,
        f"{len(alike)} of {len(found)} paragraphs say again what an earlier one said",
        score=score,
        threshold=limit,
        evidence=_evidence(text, worst),
    )


def measures(subject: Subject, thresholds: Thresholds) -> dict[str, float]:
    """The score by the name of the check; none for a text with fewer than two paragraphs."""
    found = _paragraphs(subject.text)
    if len(found) < 2:
        return {}
    alike = repeats(found, thresholds.duplicate_paragraphs_similarity)
    return {PARAGRAPHS: sum(each.words for each in alike) / sum(each.words for each in found)}


def repeats(paragraphs: list[_Paragraph], likeness: float) -> list[Repeat]:
    """The paragraphs that are at least so like an earlier one."""
    leads: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    found: list[Repeat] = []
    for number, paragraph in enumerate(paragraphs):
        shared: Counter[int] = Counter()
        for shingle in paragraph.shingles:
            shared.update(leads[shingle])
            if len(leads[shingle]) < _LEADS:
                leads[shingle].append(number)
        best, earlier = max(
            (
                (_jaccard(paragraph, paragraphs[other], both), other)
                for other, both in shared.items()
            ),
            default=(0.0, 0),
        )
        if best >= likeness:
            found.append(Repeat(paragraph.place, paragraphs[earlier].place, best, paragraph.words))
    return found


def _jaccard(one: _Paragraph, other: _Paragraph, both: int) -> float:
    return both / (len(one.shingles) + len(other.shingles) - both)


def _paragraphs(text: str) -> list[_Paragraph]:
    skip = max(0, len(text) - _MOST)
    made = (_paragraph(text, skip, block) for block in blocks(text[skip:]))
    return [each for each in made if each is not None]


def _paragraph(text: str, skip: int, group: list[Line]) -> _Paragraph | None:
    length = sum(line.end - line.start for line in group)
    if length < _CHARACTERS:
        return None
    folded = [w.folded for line in group for w in words(text, skip + line.start, skip + line.end)]
    if len(folded) < _WORDS:
        return None
    shingles = frozenset(zip(folded, folded[1:], folded[2:], strict=False))
    return _Paragraph((skip + group[0].start, skip + group[-1].end), shingles, len(folded))


def _evidence(text: str, worst: list[Repeat]) -> list[Evidence]:
    return [evidence(text, *place) for each in worst for place in (each.earlier, each.place)]
