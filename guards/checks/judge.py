"""The verdict on one text: every check in a fixed order, cheap ones first, none able to break it.

No check is left out because an earlier one rejected the text: whoever reads the verdict, or changes
the next attempt by it, sees all that is wrong.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from ...schemas import CheckRecord, Verdict
from ...schemas.limits import MAX_CHECKS
from . import coherence, language, paragraphs, perplexity, relevance, repetition, structure
from .records import SWITCHED_OFF, failed
from .rules import check_rules
from .subject import Subject
from .thresholds import Thresholds

Check = Callable[[Subject, Thresholds], CheckRecord | Iterable[CheckRecord]]


def _check_json(subject: Subject, thresholds: Thresholds) -> Iterator[CheckRecord]:
    """By the job's rules or its structured output, and by the profile's rules."""
    yield structure.check_json(subject, thresholds)
    if thresholds.rules.asks_for_json:
        theirs = replace(subject, rules=thresholds.rules, structured=None)
        yield structure.check_json(theirs, thresholds)


# The name is for the record of one that breaks.
_CHECKS: Final[tuple[tuple[str, str, Check], ...]] = (
    ("check_structure", "json", _check_json),
    ("check_structure", "fences", structure.check_fences),
    ("check_structure", "cut_off", structure.check_cut_off),
    ("check_rules", "rules", check_rules),
    ("check_repetition", repetition.NGRAM, repetition.check_ngrams),
    ("check_repetition", repetition.COMPRESSION, repetition.check_compression),
    ("check_repetition", paragraphs.PARAGRAPHS, paragraphs.check_paragraphs),
    ("check_language", language.WHOLE, language.check_whole),
    ("check_language", language.PASSAGE, language.check_passages),
    ("check_perplexity", perplexity.PERPLEXITY, perplexity.check_perplexity),
    ("check_perplexity", perplexity.WINDOW, perplexity.check_window),
    ("check_relevance", relevance.RELEVANCE, relevance.check_relevance),
    ("check_relevance", relevance.SIMILARITY, relevance.check_similarity),
    ("check_coherence", coherence.COHERENCE, coherence.check_coherence),
)
# One place is left for whoever has something to add to the verdict.
_MOST: Final = MAX_CHECKS - 1


def judge(
    subject: Subject,
    thresholds: Thresholds,
    *,
    checker: str,
    model: str,
    at: datetime,
    seconds: float,
) -> Verdict:
    """What all checks that are switched on say; one that raises is a record "failed".

    `checker` and `model` are the names of who judges, `seconds` since the text came in.
    """
    records = list(check_all(subject, thresholds))
    outcomes = {record.outcome for record in records}
    if len(records) > _MOST:
        records = sorted(records, key=lambda record: record.outcome in ("passed", "skipped"))
    return Verdict(
        outcome="rejected"
        if "rejected" in outcomes
        else "failed"
        if "failed" in outcomes
        else "passed",
        checks=tuple(records[:_MOST]),
        checker=checker,
        model=model,
        at=at,
        seconds=max(0.0, seconds),
    )


def check_all(subject: Subject, thresholds: Thresholds) -> Iterator[CheckRecord]:
    """The records of all checks, in order; none of what is switched off."""
    if subject.rules.language is None and thresholds.rules.language is not None:
        rules = replace(subject.rules, language=thresholds.rules.language)
        subject = replace(subject, rules=rules)
    for switch, name, check in _CHECKS:
        if getattr(thresholds, switch):
            yield from (each for each in _safely(name, check, subject, thresholds) if _is_on(each))


def needs_scores(subject: Subject, thresholds: Thresholds) -> bool:
    """Whether a check that wants the scoring model is on, and there is anything to score."""
    wanted = (
        thresholds.check_perplexity
        and (thresholds.perplexity_max or thresholds.perplexity_window_max),
        thresholds.check_relevance
        and (thresholds.relevance_min or thresholds.relevance_similarity_min),
        thresholds.check_coherence and thresholds.coherence_min,
    )
    return any(wanted) and bool(subject.text.strip())


def measures(subject: Subject, thresholds: Thresholds) -> dict[str, float]:
    """Every score that a threshold is calibrated for, by the names in `thresholds.CALIBRATED`, as
    far as the text has one. Thresholds don't matter, but for sizes of windows and the like."""
    parts = (repetition, paragraphs, language, perplexity, relevance, coherence)
    return {
        name: score for part in parts for name, score in part.measures(subject, thresholds).items()
    }


def _safely(name: str, check: Check, subject: Subject, thresholds: Thresholds) -> list[CheckRecord]:
    records: list[CheckRecord] = []
    try:
        made = check(subject, thresholds)
        # What a check said before it broke stands.
        for record in (made,) if isinstance(made, CheckRecord) else made:
            records.append(record)  # noqa: PERF402
    except Exception as error:
        detail = f"the check raised {type(error).__name__}: {error}"
        records.append(failed(name, detail, error))
    return records


def _is_on(record: CheckRecord) -> bool:
    return record.outcome != "skipped" or record.detail != SWITCHED_OFF
