"""The verdict: total, in order, whatever the text, and whatever a check does."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.guards.checks import judge as judging
from sluicegate.guards.checks.judge import measures, needs_scores
from sluicegate.guards.checks.records import evidence, failed, skipped, tame
from sluicegate.guards.checks.scores import SentenceScore, TextScores
from sluicegate.guards.checks.thresholds import CALIBRATED, profile_names
from sluicegate.schemas import Verdict
from sluicegate.schemas.limits import MAX_CHECKS

from .subjects import bad, flaws, judged, limits, subject

SHARP: dict[str, Any] = {
    "perplexity_max": 1.0,
    "perplexity_window_max": 1.0,
    "relevance_min": 0.5,
    "relevance_similarity_min": 0.5,
    "coherence_min": 0.5,
}
NONE: dict[str, Any] = dict.fromkeys(SHARP, 0.0)
RULES: dict[str, Any] = {
    "must_include": ("x",),
    "must_match": (r"\w",),
    "must_not_match": (r"\d$",),
    "min_words": 2,
    "json": True,
    "language": "en",
}


def scored(text: str) -> TextScores:
    """As a scoring model would, a token a character."""
    spans = tuple((at, at + 1) for at in range(len(text)))
    return TextScores(
        model="made",
        chars=spans,
        logprobs=(-3.0,) * len(text),
        given_prompt=(-3.0,) * len(text),
        sentences=tuple(SentenceScore(span, -3.0, -3.0, 1) for span in spans),
        scored_chars=len(text),
        similarity=0.1,
    )


def surrogates() -> st.SearchStrategy[str]:
    return st.text(st.characters() | st.sampled_from('\x00\ud800\udfff`~{}[]"\\\n '), max_size=200)


@settings(deadline=None, max_examples=200)
@given(
    text=surrogates(),
    prompt=surrogates(),
    profile=st.sampled_from(profile_names()),
    with_scores=st.booleans(),
)
def test_every_text_gets_a_verdict_that_travels(
    text: str, prompt: str, profile: str, *, with_scores: bool
) -> None:
    about = subject(
        text,
        prompt=prompt,
        profile=profile,
        rules=RULES,
        finish_reason="length",
        scores=scored(text) if with_scores else None,
    )
    by = limits(profile, language_letters=50, language_passage_letters=50, **SHARP)
    verdict = judged(about, by)
    sent = msgspec.json.encode(verdict)
    assert msgspec.json.decode(sent, type=Verdict) == verdict
    bad(about, by)
    assert all(math.isfinite(score) for score in measures(about, by).values())


def test_the_order_is_fixed_and_what_is_off_leaves_no_record() -> None:
    text = "This is the end of it."
    checks = [each.check for each in judged(subject(text, rules=RULES)).checks]
    assert checks[:7] == [
        "json",
        "fences",
        "length",
        "must_include",
        "must_match",
        "must_not_match",
        "repetition_ngram",
    ]
    assert "cut_off" not in checks
    assert [each.check for each in judged(subject(text, profile="off")).checks] == []
    assert judged(subject(text, profile="off")).outcome == "passed"


def test_rejected_is_worse_than_failed_and_that_than_passed() -> None:
    assert judged(subject("fine")).outcome == "passed"
    broken = {"must_match": ("(",)}
    assert judged(subject("fine", rules=broken)).outcome == "failed"
    verdict = judged(subject("fine", rules=broken | {"must_include": ("x",)}))
    assert verdict.outcome == "rejected"
    worst = verdict.worst()
    assert worst is not None
    assert worst.flaw == "missing_text"
    assert verdict.flaws() == ("missing_text", "check_failed")


def test_a_check_that_raises_is_a_record_with_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: Any) -> Any:
        raise RuntimeError("half \ud800 and \x00 " + "x" * 9000)

    def half(*_: Any) -> Any:
        yield failed("one", "said before")
        raise RuntimeError("later")

    checks = (("check_rules", "breaks", breaks), ("check_rules", "half", half))
    monkeypatch.setattr(judging, "_CHECKS", checks)
    verdict = judged(subject("fine"))
    assert verdict.outcome == "failed"
    first, said, last = verdict.checks
    assert (first.check, first.outcome, first.flaw) == ("breaks", "failed", "check_failed")
    assert len(first.trace) == 4000
    assert first.trace.endswith("xxx\n")
    assert first.detail.startswith("the check raised RuntimeError: half \ufffd and \ufffd")
    assert (said.check, said.detail) == ("one", "said before")
    assert "in half" in last.trace
    assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict) == verdict


def test_bad_records_come_first_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    def many(*_: Any) -> Any:
        yield from (skipped(f"s{n}", "why") for n in range(2 * MAX_CHECKS))
        yield failed("last", "broke")

    monkeypatch.setattr(judging, "_CHECKS", (("check_rules", "many", many),))
    verdict = judged(subject("fine"))
    assert verdict.outcome == "failed"
    assert len(verdict.checks) == MAX_CHECKS - 1
    assert verdict.checks[0].check == "last"


def test_the_scoring_model_is_asked_only_where_it_is_needed() -> None:
    about = subject("Some text.")
    for key, value in SHARP.items():
        assert needs_scores(about, limits(**(NONE | {key: value})))
    assert not needs_scores(about, limits(**NONE))
    off: dict[str, Any] = {
        f"check_{name}": False for name in ("perplexity", "relevance", "coherence")
    }
    assert not needs_scores(about, limits(**SHARP, **off))
    assert not needs_scores(subject(" \n"), limits(**SHARP))
    assert not needs_scores(about, limits("off"))


def test_scores_by_the_model_count() -> None:
    text = "This is a text of some length. It has sentences, and they are quite a few. " * 2
    about = subject(text, prompt="Tell me something about texts.", scores=scored(text))
    by = limits(**SHARP, check_repetition=False)
    found = set(flaws(about, by))
    assert {"high_perplexity", "irrelevant"} <= found


def test_measures_are_those_that_calibration_knows() -> None:
    text = "The town had a market, and the market had a square of its own.\n\n" * 20
    about = subject(text, prompt="Tell me about it.", rules={"language": "en"}, scores=scored(text))
    found = measures(about, limits())
    known = {each.score for each in CALIBRATED}
    assert set(found) <= known
    assert {"repetition_ngram", "repetition_compression", "language_other", "perplexity"} <= set(
        found
    )


def test_records_are_cut_and_tame() -> None:
    text = "a" * 150 + "\x00\ud800" + "b" * 150
    place = evidence(text, 0, len(text))
    assert place.chars == (0, len(text))
    assert len(place.quote) <= 200
    assert place.quote.startswith("aaa")
    assert place.quote.endswith("bbb")
    assert evidence(text, 149, 153).quote == "a\ufffd\ufffdb"
    assert tame("fine — 好") == "fine — 好"
