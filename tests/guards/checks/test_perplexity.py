"""Perplexity over the whole and over the worst window, on made scores."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.checks.perplexity import check_perplexity, check_window, measures, worst
from sluicegate.guards.checks.scores import TextScores
from sluicegate.guards.checks.subject import Subject
from sluicegate.guards.checks.thresholds import Thresholds, thresholds
from sluicegate.schemas import CheckRecord, Flaw


def limits(**changes: float) -> Thresholds:
    own = {"perplexity_max": 6.0, "perplexity_window_max": 8.0, "perplexity_window_tokens": 40}
    return msgspec.structs.replace(thresholds("chat"), **own | changes)


def scored(surprises: list[float], *, gap_at: int = -1, gap: int = 1000) -> Subject:
    """A text of four characters a token."""
    chars = [
        (4 * at + gap * (0 <= gap_at <= at), 4 * at + 4 + gap * (0 <= gap_at <= at))
        for at in range(len(surprises))
    ]
    logprobs = tuple(-value for value in surprises)
    scores = TextScores(model="m", chars=tuple(chars), logprobs=logprobs)
    length = chars[-1][1] if chars else 0
    return Subject(text="abc " * (length // 4), scores=scores)


def test_one_rotten_paragraph_in_a_good_text_is_found_where_it_is() -> None:
    subject = scored([3.0] * 200 + [10.0] * 60 + [3.0] * 200)
    assert check_perplexity(subject, limits()).outcome == "passed"
    record = check_window(subject, limits())
    assert (record.outcome, record.flaw) == ("rejected", Flaw.HIGH_PERPLEXITY)
    assert record.score == pytest.approx(10)
    begin, end = record.evidence[0].chars
    assert 800 <= begin < end <= 1040
    assert end - begin == 160
    assert "22,026 over 40 tokens" in record.detail


def test_a_text_that_is_rotten_all_over() -> None:
    record = check_perplexity(scored([7.0] * 100), limits())
    assert (record.outcome, record.score, record.threshold) == ("rejected", 7.0, 6.0)
    assert record.evidence[0].chars == (0, 400)


def test_a_limit_is_still_within() -> None:
    assert check_perplexity(scored([6.0] * 100), limits()).outcome == "passed"
    assert check_window(scored([8.0] * 100), limits()).outcome == "passed"


def test_a_text_shorter_than_the_window_is_one_window() -> None:
    assert check_window(scored([9.0] * 35), limits()).score == pytest.approx(9)


def test_too_short_to_say() -> None:
    subject = scored([20.0] * 20)
    assert measures(subject, limits()) == {}
    for check in (check_perplexity, check_window):
        assert check(subject, limits()).outcome == "skipped"


@pytest.mark.parametrize("check", [check_perplexity, check_window])
def test_without_scores_or_threshold_it_is_skipped(
    check: Callable[[Subject, Thresholds], CheckRecord],
) -> None:
    assert check(Subject(text="some text"), limits()).detail == "no scores"
    off = limits(perplexity_max=0.0, perplexity_window_max=0.0)
    assert check(scored([20.0] * 100), off).detail == "switched off"


def test_no_window_reaches_over_what_was_not_scored() -> None:
    # 30 tokens at either side of the gap are too few for a window; together they would be one.
    subject = scored([3.0] * 70 + [12.0] * 30 + [12.0] * 30 + [3.0] * 70, gap_at=100)
    assert subject.scores is not None
    found = worst(subject.scores, 40)
    assert found is not None
    assert not found.begin < 100 < found.end
    assert found.mean == pytest.approx((30 * 12 + 10 * 3) / 40)


@given(
    st.lists(st.floats(0, 30), min_size=32, max_size=120),
    st.integers(8, 60),
)
def test_the_worst_window_is_the_worst(surprises: list[float], size: int) -> None:
    subject = scored(surprises)
    assert subject.scores is not None
    width = min(size, len(surprises))
    every = [sum(surprises[at : at + width]) / width for at in range(len(surprises) - width + 1)]
    found = worst(subject.scores, size)
    assert found is not None
    assert found.mean == pytest.approx(max(every), abs=1e-9)
    assert every[found.begin] == pytest.approx(found.mean, abs=1e-9)
    assert found.end - found.begin == width


@given(st.lists(st.floats(0, 30), min_size=32, max_size=80), st.data())
def test_more_surprise_never_lowers_a_score(surprises: list[float], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(surprises) - 1))
    more = [value + (place == at) * 5 for place, value in enumerate(surprises)]
    before, after = (measures(scored(each), limits()) for each in (surprises, more))
    assert all(after[name] >= before[name] - 1e-9 for name in before)


@pytest.mark.parametrize("surprise", [3.0, 12.0])
def test_it_says_that_a_part_was_not_looked_at(surprise: float) -> None:
    whole, part = scored([surprise] * 200), scored([surprise] * 200, gap_at=150)
    said = "only 800 of the 1,800 characters were looked at"
    for check in (check_perplexity, check_window):
        assert "looked at" not in check(whole, limits()).detail
        assert check(part, limits()).detail.endswith(said)
    assert part.scores is not None
    longer = msgspec.structs.replace(part, text=part.text + "abcd" * 100)
    assert "800 of the 2,200" in check_perplexity(longer, limits()).detail
