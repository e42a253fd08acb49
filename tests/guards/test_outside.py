"""NaN and flat rows, seen by the sampled token's logprob alone."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.finding import Finding, Flaw
from sluicegate.guards.gate import Step
from sluicegate.guards.outside import OutsideGate

VOCABULARY = 50_000
FLAT = -math.log(VOCABULARY)
logprobs = st.lists(st.sampled_from([-0.1, -9.0, FLAT, FLAT + 0.9, math.nan, None]), max_size=30)


def steps(values: list[float | None], before: int = 0) -> list[Step]:
    return [
        Step(7, "ab", before + at, 2 * (before + at), logprob) for at, logprob in enumerate(values)
    ]


def feed(values: list[float | None], gate: OutsideGate | None = None) -> list[Finding | None]:
    gate = gate or OutsideGate(VOCABULARY)
    return [gate.feed(step) for step in steps(values)]


@given(first=logprobs, then=logprobs, data=st.data())
def test_the_law(first: list[float | None], then: list[float | None], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(first)))
    gate, whole = OutsideGate(VOCABULARY), OutsideGate(VOCABULARY)
    feed(first, gate)
    gate.truncate(cut)
    feed(first[:cut], whole)
    more = steps(then, cut)
    assert [gate.feed(step) for step in more] == [whole.feed(step) for step in more]
    assert gate.suspected() == whole.suspected()


@pytest.mark.parametrize("value", [math.nan, -math.inf, math.inf])
def test_a_logprob_that_is_no_number_is_found_at_once(value: float) -> None:
    found = feed([-0.5, value])
    assert found[0] is None
    assert found[1]
    assert (found[1].flaw, found[1].tokens, found[1].chars) == (
        Flaw.NON_FINITE_LOGITS,
        (1, 2),
        (2, 4),
    )


def test_blind_draws_are_found_as_a_streak_from_its_beginning() -> None:
    found = feed([-0.5, FLAT, -1.0, FLAT, FLAT + 0.9, FLAT - 0.9, FLAT])
    assert found[:6] == [None] * 6
    assert found[6]
    assert (found[6].flaw, found[6].tokens, found[6].chars) == (
        Flaw.UNIFORM_LOGITS,
        (3, 7),
        (6, 14),
    )


@pytest.mark.parametrize("ending", [None, -1.0, FLAT + 1.5])
def test_anything_else_ends_a_streak(ending: float | None) -> None:
    assert feed([FLAT, FLAT, FLAT, ending] * 3) == [None] * 12


def test_a_streak_is_suspected_from_its_beginning() -> None:
    gate = OutsideGate(VOCABULARY)
    assert gate.suspected() is None
    feed([-1.0, FLAT, FLAT], gate)
    assert gate.suspected() == 1
    gate.truncate(1)
    assert gate.suspected() is None
