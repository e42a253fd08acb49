"""Business rules: those of the job and those of the profile, both in force."""

from collections.abc import Iterator

from ...schemas import CheckRecord, Rules
from .lengths import check_length
from .own_rules import check_own
from .patterns import Budget, check_must_match, check_must_not_match
from .phrases import Folded, check_must_include, check_must_not_include
from .subject import Subject
from .thresholds import Thresholds


def check_rules(subject: Subject, thresholds: Thresholds) -> Iterator[CheckRecord]:
    """A record or more for each kind of rule that the job or its profile has, none for others."""
    text = Folded(subject.text)
    budget = Budget(thresholds.pattern_seconds)
    for rules in (subject.rules, thresholds.rules):
        yield from _check(subject, text, rules, budget)


def _check(subject: Subject, text: Folded, rules: Rules, budget: Budget) -> Iterator[CheckRecord]:
    yield from check_length("length", subject, rules)
    if rules.must_include:
        yield check_must_include("must_include", text, rules.must_include)
    if rules.must_not_include:
        yield check_must_not_include("must_not_include", text, rules.must_not_include)
    if rules.must_match:
        yield from check_must_match("must_match", subject.text, rules.must_match, budget)
    if rules.must_not_match:
        patterns = rules.must_not_match
        yield from check_must_not_match("must_not_match", subject.text, patterns, budget)
    for name in rules.own:
        yield check_own(f"own:{name}"[:64], subject, name)
