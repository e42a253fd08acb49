"""Bounds that a sample gives, against what is known of them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.ops.intervals import (
    expected_harm,
    harm_bound,
    needed,
    percent,
    wilson,
    with_interval,
)


@pytest.mark.parametrize(
    ("hits", "of"), [(0, 10), (0, 38), (0, 900), (10, 10), (38, 38), (3, 7), (1, 5000)]
)
def test_wilson_holds_the_rate_within_0_and_1(hits: int, of: int) -> None:
    interval = wilson(hits, of)
    assert interval is not None
    low, high = interval
    assert 0 <= low <= hits / of <= high <= 1
    assert (low == 0) == (hits == 0)
    assert (high == 1) == (hits == of)


def test_wilson_of_nothing() -> None:
    assert wilson(0, 0) is None
    assert with_interval(None, None) == "- (no such texts)"
    assert with_interval(0.5, wilson(1, 2)) == "50.00% (95%: 9.45% to 90.55%)"
    assert (percent(None), percent(0.125)) == ("-", "12.50%")


def test_the_bound_is_the_rule_of_three_for_one_threshold_and_no_text_harmed() -> None:
    for of in (10, 300, 3000):
        assert harm_bound(0, of) == pytest.approx(1 - 0.05 ** (1 / of))
    assert harm_bound(0, 3000) == pytest.approx(3 / 3000, rel=0.01)
    # Clopper and Pearson's, one-sided, from tables.
    assert harm_bound(1, 10) == pytest.approx(0.3942, abs=1e-4)
    assert harm_bound(0, 0, 0) == 0
    assert harm_bound(0, 3, 4) == 1
    assert harm_bound(2, 3) == pytest.approx(0.9830, abs=1e-4)


@given(st.integers(0, 50), st.integers(1, 5000), st.integers(1, 12))
def test_more_texts_bound_more_and_more_harm_or_thresholds_bound_less(
    harmed: int, of: int, thresholds: int
) -> None:
    bound = harm_bound(harmed, of, thresholds)
    assert bound >= min(1, harmed / of)
    assert harm_bound(harmed, of + 1, thresholds) <= bound
    assert harm_bound(harmed + 1, of, thresholds) >= bound
    assert harm_bound(harmed, of, thresholds + 1) >= bound


@pytest.mark.parametrize(("rate", "thresholds"), [(0.001, 1), (0.001, 8), (0.05, 3), (0.5, 1)])
def test_as_many_as_are_needed_are_enough_and_one_fewer_is_not(
    rate: float, thresholds: int
) -> None:
    count = needed(rate, thresholds)
    assert expected_harm(0, count, thresholds) <= rate + 1e-12
    assert expected_harm(0, count - 1, thresholds) > rate


def test_one_in_a_thousand_takes_a_thousand_for_each_threshold() -> None:
    assert [needed(0.001, count) for count in (1, 2, 10)] == [999, 1999, 9999]
    assert expected_harm(0, 2, 5) == 1


@given(st.integers(0, 50), st.integers(1, 60_000), st.integers(1, 12))
def test_the_bound_is_above_what_is_expected_and_at_most_three_times_as_much(
    harmed: int, of: int, thresholds: int
) -> None:
    expected = expected_harm(harmed, of, thresholds)
    assert expected <= harm_bound(harmed, of, thresholds) <= 3 * expected


def test_the_bound_holds_as_often_as_it_says() -> None:
    """Two thresholds at the worst of 200 texts by two scores: what they reject of all texts is
    known, and is over the bound in one sample of twenty."""
    draw = random.Random(1)
    bound = harm_bound(0, 200, 2)
    over = 0
    for _ in range(2000):
        one, other = (max(draw.random() for _ in range(200)) for _ in range(2))
        over += 1 - one * other > bound
    assert 0.03 < over / 2000 < 0.07
