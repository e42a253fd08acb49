"""Coherence over sentences, on made scores."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.checks.coherence import check_coherence, measures
from sluicegate.guards.checks.scores import SentenceScore, TextScores
from sluicegate.guards.checks.subject import Subject
from sluicegate.guards.checks.thresholds import Thresholds, thresholds
from sluicegate.schemas import Flaw, Level, TripRecord

SENTENCE = "Some ordinary words make a sentence here. "
CODE = "```python\n" + "value = compute(value)\n" * 8 + "```\n"


def limits(least: float = 0.5) -> Thresholds:
    return msgspec.structs.replace(thresholds("chat"), coherence_min=least)


def note(level: Level = Level.COHERENCE) -> TripRecord:
    return TripRecord(
        segment=0,
        gate="coherence",
        level=level,
        flaw=Flaw.INCOHERENT,
        tokens=(0, 9),
        chars=(0, 40),
        score=1.0,
        threshold=0.5,
        action="note",
    )


def scored(gains: list[float], *, notes: int = 0, tokens: int = 10) -> Subject:
    """A first sentence, and one for each gain."""
    size = len(SENTENCE)
    sentences = tuple(
        SentenceScore((size * at, size * at + size), -5.0, -5.0 + gain, tokens)
        for at, gain in enumerate(gains, 1)
    )
    scores = TextScores(model="m", chars=(), logprobs=(), sentences=sentences)
    text = SENTENCE * (len(gains) + 1)
    return Subject(text=text, scores=scores, notes=(note(),) * notes)


def test_sentences_that_have_nothing_to_do_with_each_other() -> None:
    record = check_coherence(scored([0.4, 0.1, 0.3, -0.2, 0.4]), limits())
    assert (record.outcome, record.flaw) == ("rejected", Flaw.DISJOINTED)
    assert record.score == pytest.approx(0.2)
    size = len(SENTENCE)
    assert [place.chars[0] // size for place in record.evidence] == [4, 2, 3, 1]


def test_sentences_that_follow_from_each_other() -> None:
    assert check_coherence(scored([1.5] * 6), limits()).outcome == "passed"


def test_long_sentences_weigh_more() -> None:
    subject = scored([1.0, 1.0, 1.0, 1.0])
    assert subject.scores is not None
    long = msgspec.structs.replace(subject.scores.sentences[0], after=-4.8, tokens=90)
    sentences = (long, *subject.scores.sentences[1:])
    scores = msgspec.structs.replace(subject.scores, sentences=sentences)
    score = measures(msgspec.structs.replace(subject, scores=scores), limits())["coherence"]
    assert score == pytest.approx((90 * 0.2 + 30 * 1.0) / 120)


def test_soft_findings_of_the_streaming_gates_weigh_against_it() -> None:
    gains = [0.65] * 5
    assert check_coherence(scored(gains), limits()).outcome == "passed"
    record = check_coherence(scored(gains, notes=2), limits())
    assert record.outcome == "rejected"
    assert "2 soft findings" in record.detail


def test_soft_findings_alone_are_no_proof() -> None:
    assert check_coherence(scored([1.5] * 5, notes=16), limits()).outcome == "passed"


def test_what_was_acted_on_is_weighed_no_more() -> None:
    subject = scored([0.65] * 5)
    others = (note(Level.TEXT), msgspec.structs.replace(note(), action="rollback"))
    noted = msgspec.structs.replace(subject, notes=others)
    assert measures(noted, limits()) == measures(subject, limits())


def test_code_is_no_prose() -> None:
    begin = len("```python\n")
    size = len("value = compute(value)\n")
    sentences = tuple(
        SentenceScore((begin + size * at, begin + size * at + size), -5.0, -6.0, 10)
        for at in range(8)
    )
    scores = TextScores(model="m", chars=(), logprobs=(), sentences=sentences)
    assert measures(Subject(text=CODE, scores=scores), limits()) == {}


@pytest.mark.parametrize("subject", [Subject(text=SENTENCE * 9), scored([]), scored([-3.0] * 3)])
def test_too_little_to_say(subject: Subject) -> None:
    assert check_coherence(subject, limits()).outcome == "skipped"


def test_switched_off() -> None:
    assert check_coherence(scored([-3.0] * 9), limits(0.0)).detail == "switched off"


@given(st.lists(st.floats(-5, 5), min_size=4, max_size=12), st.integers(0, 5), st.floats(0, 3))
def test_gains_raise_the_score_and_notes_lower_it(
    gains: list[float], notes: int, more: float
) -> None:
    def score(values: list[float], count: int) -> float:
        return measures(scored(values, notes=count), limits())["coherence"]

    assert score([gains[0] + more, *gains[1:]], notes) >= score(gains, notes) - 1e-9
    assert score(gains, notes + 1) <= score(gains, notes)
