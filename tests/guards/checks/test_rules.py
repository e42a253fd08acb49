"""Business rules: phrases whatever their form, lengths in each unit, functions of one's own."""

import unicodedata
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.checks import own_rules
from sluicegate.guards.checks.lengths import count_words
from sluicegate.guards.checks.phrases import (
    Folded,
    check_must_include,
    check_must_not_include,
    fold,
)
from sluicegate.guards.checks.subject import Subject

from .subjects import bad, flaws, judged, limits, subject


@pytest.mark.parametrize(
    ("text", "phrase", "found"),
    [
        ("Best REGARDS, Ann", "best regards", "Best REGARDS"),
        ("Best\n  regards", "Best regards", "Best\n  regards"),
        ("non\u00a0breaking", "non breaking", "non\u00a0breaking"),
        ("In der STRASSE dort", "straße", "STRASSE"),
        ("Die Straße", "STRASSE", "Straße"),
        ("Cafe\u0301 zu", "café", "Cafe\u0301"),
        ("Café zu", "cafe\u0301", "Café"),
        ("한국어로", "한국어", "한국어"),
        ("İstanbul'da", "i\u0307stanbul", "İstanbul"),
        ("ΟΔΟΣ", "οδος", "ΟΔΟΣ"),
        ("a.b", "a.b", "a.b"),
    ],
)
def test_phrases_that_are_there(text: str, phrase: str, found: str) -> None:
    assert [text[slice(*place)] for place in Folded(text).places(phrase)] == [found]
    assert flaws(subject(text, rules={"must_include": (phrase,)})) == []
    (record,) = bad(subject(text, rules={"must_not_include": (phrase,)}))
    assert record.flaw == "forbidden_text"
    assert text[slice(*record.evidence[0].chars)] == found


@pytest.mark.parametrize(
    ("text", "phrase"), [("Café", "cafe"), ("axb", "a.b"), ("foobar", "foo bar"), ("", "a")]
)
def test_phrases_that_are_not(text: str, phrase: str) -> None:
    (record,) = bad(subject(text, rules={"must_include": (phrase,)}))
    assert record.flaw == "missing_text"
    assert repr(phrase) in record.detail
    assert flaws(subject(text, rules={"must_not_include": (phrase,)})) == []


@given(st.text(max_size=20), st.text(min_size=1, max_size=8), st.text(max_size=20))
def test_a_phrase_is_found_where_it_was_put(before: str, phrase: str, after: str) -> None:
    """Between letters that nothing composes with, in any form and case."""
    for form in ("NFC", "NFD"):
        # The "x": a mark at the beginning of what comes after would belong to the bar.
        text = f"{before}|{unicodedata.normalize(form, phrase)}|x{after}"
        places = Folded(text).places(f"|{phrase}|")
        assert places
        assert all(fold(text[a:b]).split() == fold(f"|{phrase}|").split() for a, b in places)


def test_a_long_run_of_blanks_takes_no_time() -> None:
    text = "a" + " " * 200_000 + "b"
    assert Folded(text).places("a b") == [(0, len(text))]
    assert Folded(text).places(" c") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's a well-known fact, e.g. 3.14.", 6),
        ("", 0),
        ("  \n — !", 0),
        ("今天天气很好。", 6),
        ("これはテストです", 6),
        ("한국어 문장입니다", 2),
        ("Übergröße naïve", 2),
        ("नमस्ते दुनिया", 2),
        ("สวัสดีชาวโลก", 3),
    ],
)
def test_words(text: str, words: int) -> None:
    assert count_words(text) == words


@pytest.mark.parametrize(
    ("rules", "flaw", "score"),
    [
        ({"min_characters": 12}, "too_short", 11),
        ({"max_characters": 10}, "too_long", 11),
        ({"min_words": 3}, "too_short", 2),
        ({"max_words": 1}, "too_long", 2),
        ({"min_tokens": 8}, "too_short", 7),
        ({"max_tokens": 6}, "too_long", 7),
    ],
)
def test_lengths(rules: dict[str, int], flaw: str, score: int) -> None:
    (record,) = bad(subject("Hello world", rules=rules, tokens=7))
    assert (record.flaw, record.score, record.threshold) == (flaw, score, *rules.values())


def test_lengths_that_are_right() -> None:
    rules = {"min_characters": 11, "max_characters": 11, "min_words": 2, "max_tokens": 7}
    assert flaws(subject("Hello world", rules=rules, tokens=7)) == []


def test_rules_of_job_and_profile_both_hold() -> None:
    by = limits(rules={"must_include": ["world"], "min_words": 5, "language": "de"})
    about = subject("Hello", rules={"must_include": ("Hello", "sun"), "max_words": 3})
    assert flaws(about, by) == ["missing_text", "too_short", "missing_text"]


def test_rules_hold_under_the_profile_that_is_off() -> None:
    about = subject("```", profile="off", rules={"must_include": ("x",)})
    assert flaws(about) == ["missing_text"]
    assert flaws(about, limits("off", check_rules=False)) == []


def polite(about: Subject) -> str | None:
    return None if "please" in about.text else "it does not say please"


def broken(_about: Subject) -> str | None:
    raise KeyError("x" * 9000)


def leaving(_about: Subject) -> str | None:
    raise SystemExit(3)


def wrong(_about: Subject) -> Any:
    return False


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint(name, f"{__name__}:{name}", own_rules.GROUP)
        for name in ("polite", "broken", "leaving", "wrong", "missing_function")
    ]

    def entry_points(*, group: str, name: str | None = None) -> list[EntryPoint]:
        assert group == "sluicegate.rules"
        return [point for point in points if name in (None, point.name)]

    monkeypatch.setattr(own_rules, "entry_points", entry_points)
    functions = {"polite": polite, "broken": broken, "leaving": leaving, "wrong": wrong}

    def load(point: EntryPoint) -> Any:
        return functions[point.name]

    monkeypatch.setattr(EntryPoint, "load", load)
    own_rules.find_rule.cache_clear()


@pytest.mark.usefixtures("_installed")
def test_rules_of_ones_own() -> None:
    assert flaws(subject("Yes, please.", rules={"own": ("polite",)})) == []
    (record,) = bad(subject("Yes.", rules={"own": ("polite",)}))
    assert (record.check, record.flaw) == ("own:polite", "own_rule")
    assert record.detail == "it does not say please"


@pytest.mark.usefixtures("_installed")
def test_rules_of_ones_own_that_break() -> None:
    (record,) = bad(subject("Yes.", rules={"own": ("broken",)}))
    assert (record.outcome, record.flaw) == ("failed", "check_failed")
    assert record.detail.startswith("the rule broken raised KeyError: 'xxx")
    assert len(record.detail) == 500
    assert len(record.trace) == 4000
    (record,) = bad(subject("Yes.", rules={"own": ("leaving",)}))
    assert record.detail == "the rule leaving raised SystemExit: 3"
    (record,) = bad(subject("Yes.", rules={"own": ("wrong",)}))
    assert record.detail == "the rule wrong gave bool; it must give None or a text"
    (record,) = bad(subject("Yes.", rules={"own": ("missing_function",)}))
    assert record.detail.startswith("the rule missing_function raised KeyError")


@pytest.mark.usefixtures("_installed")
def test_a_rule_that_nobody_installed() -> None:
    about = subject("Yes.", rules={"own": ("nobody", "polite")})
    failed, refused = bad(about)
    assert failed.outcome == "failed"
    assert "there is no rule nobody" in failed.detail
    assert "(there: broken, leaving, missing_function, polite, wrong)" in failed.detail
    # A rejection is worth more than a failure.
    assert refused.flaw == "own_rule"
    assert judged(about).outcome == "rejected"


def test_without_a_stub_there_is_none() -> None:
    own_rules.find_rule.cache_clear()
    (record,) = bad(subject("Yes.", rules={"own": ("nobody",)}))
    assert "install the package that has it as an entry point" in record.detail


@pytest.mark.parametrize("blank", [" ", "\n\t", "\u00a0\u3000"])
def test_blank_phrases_say_nothing(blank: str) -> None:
    text = Folded("one two")
    assert check_must_not_include("x", text, (blank,)).outcome == "passed"
    assert check_must_include("x", Folded("one"), (blank,)).outcome == "passed"
    record = check_must_not_include("x", text, (blank, "two"))
    assert [place.quote for place in record.evidence] == ["two"]
