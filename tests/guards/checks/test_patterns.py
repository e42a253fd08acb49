"""Patterns: found, missed, cut off when they take too long, refused when they would eat memory."""

import re
import tracemalloc
from typing import Any

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.checks.patterns import Budget, check_must_not_match, pattern_problem

from .subjects import bad, flaws, judged, limits, subject

CATASTROPHE = r"^(([a-z])+.)+[A-Z]([a-z])+$"


def test_patterns_that_must_match() -> None:
    text = "Order 4711 is on its way."
    assert flaws(subject(text, rules={"must_match": (r"\d{4}", r"(?i)ORDER")})) == []
    (record,) = bad(subject(text, rules={"must_match": (r"\d{5}", r"\d")}))
    assert record.flaw == "pattern_mismatch"
    assert record.detail == r"the pattern '\\d{5}' is found nowhere in the text"


def test_patterns_that_must_not_match() -> None:
    text = "Call 555-1234 or 555-9876."
    (record,) = bad(subject(text, rules={"must_not_match": (r"\d{3}-\d{4}", "x")}))
    assert record.flaw == "forbidden_text"
    assert [place.quote for place in record.evidence] == ["555-1234", "555-9876"]
    assert [text[slice(*place.chars)] for place in record.evidence] == ["555-1234", "555-9876"]
    assert flaws(subject(text, rules={"must_not_match": (r"\d{9}",)})) == []


@pytest.mark.parametrize("kind", ["must_match", "must_not_match"])
def test_a_catastrophic_pattern_is_cut_off(kind: str) -> None:
    about = subject("a" * 50_000, rules={kind: (CATASTROPHE, "zzz")})
    found = bad(about, limits(pattern_seconds=0.1))
    first = found[0]
    assert (first.outcome, first.flaw) == ("failed", "check_failed")
    assert first.detail.startswith("0.1 s were not enough to search for the pattern '^(([a-z])+")


def test_the_time_is_for_all_patterns_together() -> None:
    many = tuple(f"{CATASTROPHE}|{n}" for n in range(8))
    about = subject("a" * 50_000, rules={"must_match": many})
    found = bad(about, limits(pattern_seconds=0.1, rules={"must_match": list(many)}))
    outcomes = [record.outcome for record in found if record.check == "must_match"]
    assert outcomes == ["failed"] * 16


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(a{1000}){1000}", "its repeats come to 1,003,000 elements"),
        ("((a{1000}){1000}){1000}", "its repeats come to"),
        ("a{1000000000}", "its repeats come to"),
        (r"\X{49000}", "its repeats come to 49,001 elements, the limit is 5,000"),
        (r"(?fi)(?:\R|\X){6000}", "its repeats come to"),
        ("(?:" * 140 + "a" + "){2}" * 140, "its repeats come to"),
        ("(?x) ( a{1 0 0 0} ) { 1 0 0 0 }", "its repeats come to"),
        (r"(a{1000})(?#\){1000}", "its repeats come to"),
        (r"(a{1000}[)]){1000}", "its repeats come to"),
        (r"[[]((a{1000}){1000}){1000}", "its repeats come to"),
        (r"\\(a{1000}){1000}", "its repeats come to"),
        ("(?R)", "it calls itself"),
        ("(a(?1)?b)", "it calls itself"),
        ("(?P<x>a(?&x))", "it calls itself"),
        ("(" * 500 + ")" * 500, "it is nested too deeply"),
        ("(", "it is no pattern of the regex package: missing )"),
        (r"\L<words>", "it is no pattern of the regex package: undefined named list"),
        ("a{2}{3}", "it is no pattern of the regex package: multiple repeat"),
    ],
)
def test_patterns_that_are_refused(pattern: str, problem: str) -> None:
    assert (pattern_problem(pattern) or "").startswith(problem)
    (record,) = bad(subject("text", rules={"must_match": (pattern,)}))
    assert (record.outcome, record.flaw) == ("failed", "check_failed")
    assert problem in record.detail


@pytest.mark.parametrize(
    "pattern",
    [
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?(?:Z|[+-]\d{2}:\d{2})$",
        r"(([0-9a-fA-F]{1,4}:){7,7}[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,7}:)",
        r"\p{L}{3}-\p{Lu}{3}(?:\p{N}{2}){4}",
        r"(?:\d[ -]*?){13,16}",
        r"(?<=\bNo\. )\d+",
        r"(?P<a>x)(?P=a)",
        r"(?i:foo)(?-i:Bar)",
        r"(?:colour){e<=1}",
        r"^.{0,5000}$",
        r"(?s)\A.*\Z",
    ],
)
def test_patterns_of_everyday_are_fine(pattern: str) -> None:
    assert pattern_problem(pattern) is None


def test_no_pattern_is_kept() -> None:
    dear = tuple(f"\\R{{{4000 + number}}}" for number in range(16))
    by = limits(pattern_seconds=60)
    tracemalloc.start()
    try:
        assert flaws(subject("text", rules={"must_not_match": dear}), by) == []
        compiled = regex.compile(dear[0], cache_pattern=False)
        one, _ = tracemalloc.get_traced_memory()
        del compiled
        none, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert none < one / 2


def test_compiling_takes_of_the_time_that_all_patterns_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    compiled: list[str] = []

    def compiling(pattern: str, **options: Any) -> Any:
        now[0] += 0.4
        compiled.append(pattern)
        return real(pattern, **options)

    real = regex.compile
    monkeypatch.setattr("sluicegate.guards.checks.patterns.monotonic", lambda: now[0])
    monkeypatch.setattr("sluicegate.guards.checks.patterns.regex.compile", compiling)
    records = check_must_not_match("x", "text", ("a", "b", "c", "d", "e"), Budget(1.0))
    assert compiled == ["a", "b", "c"]
    assert [record.outcome for record in records] == ["failed"] * 2
    assert records[0].detail.startswith("1 s were not enough to search for the pattern 'd'")


@given(st.text(alphabet="ab(){}[]\\?*+|.,1 29^$:x", max_size=40))
def test_any_pattern_is_used_or_refused(pattern: str) -> None:
    problem = pattern_problem(pattern)
    if pattern.strip():
        by = limits(pattern_seconds=0.05)
        found = judged(subject("ab 12", rules={"must_not_match": (pattern,)}), by)
        (record,) = [each for each in found.checks if each.check == "must_not_match"]
        assert (record.outcome == "failed") == (problem is not None)


@given(st.text(max_size=30))
def test_what_is_escaped_is_found(text: str) -> None:
    pattern = re.escape(text) if "\x00" not in text else "a"
    if pattern.strip() and pattern_problem(pattern) is None:
        assert flaws(subject(f"a{text}a", rules={"must_match": (pattern,)})) == []
