"""The budget is counted exactly, and shrinks only where nothing new comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.finding import Flaw, Level
from sluicegate.guards.reasoning.budget import BudgetGate, StaleRule

from ..gate_law import assert_law, feed, steps

STALE = StaleRule(window=12, least=0.5, cost=3.0, share=0.5)


def words(ids: list[int]) -> list[tuple[int, str]]:
    return [(token, " ab") for token in ids]


@given(
    first=st.lists(st.integers(0, 2), max_size=80),
    then=st.lists(st.integers(0, 2), max_size=80),
    cap=st.integers(0, 60),
    data=st.data(),
)
def test_the_law(first: list[int], then: list[int], cap: int, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(first)))
    assert_law(lambda: BudgetGate(cap, STALE), words(first), cut, words(then))


@given(ids=st.lists(st.integers(0, 3), max_size=80), cap=st.integers(0, 60))
def test_without_the_soft_signal_exactly_the_cap_stays(ids: list[int], cap: int) -> None:
    found = feed(BudgetGate(cap), steps(words(ids)))
    assert [one is not None for one in found] == [at >= cap for at in range(len(ids))]
    assert all(one.tokens == (at, at + 1) for at, one in enumerate(found) if one)


@given(ids=st.lists(st.integers(0, 3), max_size=200), cap=st.integers(0, 120))
def test_never_more_than_the_cap_and_never_less_than_its_share(ids: list[int], cap: int) -> None:
    found = feed(BudgetGate(cap, STALE), steps(words(ids)))
    first = next((at for at, one in enumerate(found) if one), len(ids))
    assert first <= cap
    assert first >= min(len(ids), cap - int(cap * STALE.share))


def test_a_finding_says_all() -> None:
    found = feed(BudgetGate(3), steps(words([1, 2, 3, 4])))
    assert found[:3] == [None] * 3
    last = found[3]
    assert last is not None
    assert (last.level, last.flaw) == (Level.REASONING, Flaw.REASONING_CAP)
    assert (last.tokens, last.chars) == ((3, 4), (9, 12))
    assert (last.score, last.threshold, last.detail) == (4, 3, "")


def test_a_cap_of_none_trips_at_once() -> None:
    found = BudgetGate(0, STALE).feed(steps(words([1]))[0])
    assert found is not None
    assert found.tokens == (0, 1)


def test_what_is_new_has_the_whole_budget() -> None:
    found = feed(BudgetGate(400, STALE), steps(words(list(range(500)))))
    assert next(at for at, one in enumerate(found) if one) == 400


def test_what_says_nothing_new_has_less_and_the_finding_says_so() -> None:
    found = [one for one in feed(BudgetGate(400, STALE), steps(words([1, 2, 3] * 200))) if one]
    kept = found[0].tokens[0]
    assert 200 <= kept < 400
    assert "little was new for long: 400 tokens became" in found[0].detail


def test_what_was_stale_long_ago_does_not_count() -> None:
    ids = [*([1, 2, 3] * 60), *range(500, 800)]
    found = feed(BudgetGate(400, STALE), steps(words(ids)))
    assert next(at for at, one in enumerate(found) if one) == 400


@pytest.mark.parametrize("digits", ["7", " 7"])
def test_numbers_are_new(digits: str) -> None:
    some = [(5, digits), (6, digits)] * 300
    found = feed(BudgetGate(400, STALE), steps(some))
    assert next(at for at, one in enumerate(found) if one) == 400
