"""Relevance by likelihood and by likeness, on made scores."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.checks.english import english
from sluicegate.guards.checks.relevance import check_relevance, check_similarity, measures
from sluicegate.guards.checks.scores import TextScores
from sluicegate.guards.checks.subject import Subject
from sluicegate.guards.checks.thresholds import Thresholds, thresholds
from sluicegate.schemas import CheckRecord, Flaw

PROMPT = "Explain to me how the tides come about."
TEXT = "The moon pulls at the water that faces it more than at the earth beneath it."


def limits(least: float = 0.1, similarity: float = 0.2) -> Thresholds:
    own = {"relevance_min": least, "relevance_similarity_min": similarity}
    return msgspec.structs.replace(thresholds("chat"), **own)


def scored(
    gain: float,
    *,
    prompt: str = PROMPT,
    text: str = TEXT,
    alone: float = -3.0,
    given: int = 64,
    similarity: float | None = None,
) -> Subject:
    scores = TextScores(
        model="m",
        chars=tuple((at, at + 1) for at in range(100)),
        logprobs=(alone,) * 64 + (-9.0,) * 36,
        given_prompt=(alone + gain,) * given,
        similarity=similarity,
    )
    return Subject(text=text, prompt=prompt, scores=scores)


def both(subject: Subject, bounds: Thresholds) -> tuple[CheckRecord, CheckRecord]:
    return check_relevance(subject, bounds), check_similarity(subject, bounds)


def test_an_answer_to_another_prompt() -> None:
    record = check_relevance(scored(-0.3), limits())
    assert (record.outcome, record.flaw) == ("rejected", Flaw.IRRELEVANT)
    assert record.score == pytest.approx(-0.3)
    assert record.evidence[0].chars == (0, len(TEXT))


def test_an_answer_to_this_one() -> None:
    record = check_relevance(scored(0.5), limits())
    assert (record.outcome, record.threshold) == ("passed", 0.1)


def test_by_an_embedding_model() -> None:
    assert check_similarity(scored(0.5, similarity=0.1), limits()).flaw is Flaw.IRRELEVANT
    assert check_similarity(scored(-0.5, similarity=0.3), limits()).outcome == "passed"


@pytest.mark.parametrize(
    "subject",
    [
        Subject(text=TEXT, prompt=PROMPT),
        scored(-2.0, prompt="", similarity=-0.5),
        scored(-2.0, prompt="Go on! 1234567890", similarity=-0.5),
        scored(-2.0, given=0),
        # A yes, a number, a name.
        scored(-2.0, given=3),
    ],
)
def test_too_little_to_say(subject: Subject) -> None:
    assert measures(subject, limits()) == {}
    assert [record.outcome for record in both(subject, limits())] == ["skipped"] * 2


@pytest.mark.parametrize(
    "subject",
    [
        scored(-0.3, prompt="name ideas for my cat"),
        scored(-0.3, prompt="Plan my Saturday"),
        scored(-0.3, prompt="Erkläre mir in einfachen Worten, wie Ebbe und Flut entstehen."),
        scored(-0.3, prompt="潮の満ち引きはどうして起こるのか、わかりやすく説明してください。"),
        scored(-0.3, text="Der Mond zieht an dem Wasser, das ihm zugewandt ist, stärker."),
        scored(-0.3, text="wkh prrq sxoov dw wkh zdwhu wkdw idfhv lw pruh wkdq dw wkh hduwk"),
        scored(-0.3, text="Miso, Biscuit, Pixel, Juniper, Waffles, Onyx, Clementine, Gizmo"),
        scored(-0.3, text="CC(=O)OC1=CC=CC=C1C(=O)O\nCN1C=NC2=C1C(=O)N(C(=O)N2C)C"),
        scored(-0.3, text=f"It is like this.\n\n```\n{'for x in a: it = x' * 9}\n```"),
        # Verse, wit, quick talk: the scoring model follows none of it.
        scored(-0.3, alone=-4.4),
    ],
)
def test_where_a_prompt_would_not_show_it_is_not_judged(subject: Subject) -> None:
    assert check_relevance(subject, limits()).outcome == "skipped"


@pytest.mark.parametrize("profile", ["code", "creative", "data", "ocr", "off"])
def test_what_no_prompt_determines_is_not_judged(profile: str) -> None:
    found = thresholds(profile)
    assert not (found.check_relevance and found.relevance_min)


@given(st.text(max_size=60))
def test_the_share_of_english_is_a_share_whatever_the_case(text: str) -> None:
    assert 0 <= english(text) <= 1
    assert english("THE " + text) >= english(text) or english(text) == 1
    assert english("The mill stood at the river, and it was old.") > 0.3


def test_switched_off() -> None:
    subject = scored(-2.0, similarity=-0.5)
    assert [each.detail for each in both(subject, limits(0.0, 0.0))] == ["switched off"] * 2


@given(st.floats(-5, 5), st.floats(0, 3), st.floats(-2, 2).filter(bool))
def test_the_more_likely_the_prompt_makes_it_the_better(
    gain: float, more: float, least: float
) -> None:
    low, high = (
        check_relevance(scored(each), limits(least)).outcome for each in (gain, gain + more)
    )
    assert (low, high) != ("passed", "rejected")
    score = measures(scored(gain), limits())["relevance"]
    assert score == pytest.approx(max(gain, -0.5), abs=1e-9)


def test_unexpected_words_do_not_outweigh_expected_ones() -> None:
    gains = (-4.0, 3.0, 0.0, 0.0) * 16
    subject = scored(0.0)
    assert subject.scores is not None
    given = tuple(-3.0 + gain for gain in gains)
    scores = msgspec.structs.replace(subject.scores, given_prompt=given)
    record = check_relevance(msgspec.structs.replace(subject, scores=scores), limits())
    assert (record.outcome, record.score) == ("passed", pytest.approx(2.5 / 4))
