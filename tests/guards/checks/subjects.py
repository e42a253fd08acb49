"""Subjects and verdicts for the tests of the checks."""

from datetime import UTC, datetime
from typing import Any

from sluicegate.guards.checks.judge import judge
from sluicegate.guards.checks.subject import Subject
from sluicegate.guards.checks.thresholds import Thresholds, thresholds
from sluicegate.schemas import CheckRecord, Rules, Verdict
from sluicegate.schemas.limits import MAX_QUOTE_CHARS

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def subject(text: str, *, rules: dict[str, Any] | None = None, **fields: Any) -> Subject:
    return Subject(text=text, rules=Rules(**(rules or {})), **fields)


def limits(profile: str = "chat", **changed: Any) -> Thresholds:
    return thresholds(profile, deployment={"base": changed, profile: changed})


def judged(about: Subject, by: Thresholds | None = None) -> Verdict:
    by = by or thresholds(about.profile)
    return judge(about, by, checker="here", model="none", at=NOW, seconds=0.5)


def bad(about: Subject, by: Thresholds | None = None) -> list[CheckRecord]:
    """What was not content, well-formed."""
    found = [each for each in judged(about, by).checks if each.outcome in ("rejected", "failed")]
    for record in found:
        assert record.flaw is not None
        assert record.detail
        for place in record.evidence:
            start, end = place.chars
            assert 0 <= start <= end <= len(about.text)
            assert len(place.quote) <= MAX_QUOTE_CHARS
    return found


def flaws(about: Subject, by: Thresholds | None = None) -> list[str]:
    return [str(each.flaw) for each in bad(about, by)]


def quotes(record: CheckRecord) -> list[str]:
    return [place.quote for place in record.evidence]
