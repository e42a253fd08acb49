"""Labelled texts as the checks of whole texts see them, with their scores."""

from collections.abc import Sequence

from msgspec.structs import replace

from ..guards.checks.scores import TextScores
from ..guards.checks.subject import Subject
from ..guards.checks.thresholds import Thresholds
from ..schemas import TripRecord
from ..worker.scoring import Scorer, ScoreRequest, ScoringFailed, Wants
from .evaluation import Labelled


def subject_of(
    line: Labelled, profile: str, *, tokens: int, notes: tuple[TripRecord, ...] = ()
) -> Subject:
    """What the checks look at. `tokens`: where the line does not say how many there are."""
    return Subject(
        text=line.text,
        prompt=line.prompt or "",
        profile=profile,
        rules=line.rules,
        finish_reason=line.finish_reason or "stop",
        tokens=tokens if line.tokens is None else line.tokens,
        notes=notes,
    )


def wants(thresholds: Sequence[Thresholds]) -> Wants:
    """What any of them needs of the scoring model."""
    return Wants(
        perplexity=any(each.check_perplexity for each in thresholds),
        relevance=any(each.check_relevance for each in thresholds),
        coherence=any(each.check_coherence for each in thresholds),
        similarity=any(each.check_relevance for each in thresholds),
    )


def scored(scorer: Scorer, subjects: Sequence[Subject], wanted: Wants) -> list[Subject | str]:
    """Each with its scores, or why the scoring model has none; an empty text has none to have. One
    pass over all of them."""
    asking = [index for index, each in enumerate(subjects) if each.text.strip()]
    if not asking:
        return list(subjects)
    requests = [ScoreRequest(subjects[index].prompt, subjects[index].text) for index in asking]
    reasons: dict[int, str] = {}
    try:
        scores: list[TextScores | None] = list(scorer.score(requests, wanted))
    except ScoringFailed as error:
        reasons, scores = error.failed, error.scores
    results: list[Subject | str] = list(subjects)
    for at, (index, found) in enumerate(zip(asking, scores, strict=True)):
        subject = subjects[index]
        results[index] = reasons[at] if found is None else replace(subject, scores=found)
    return results
