"""Exact loops are found, whatever their unit; what only looks like one is left alone."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.finding import Flaw
from sluicegate.guards.loops import LONG_UNITS, SHORT_UNITS, LoopGate, LoopRule

from .gate_law import assert_law, feed, steps

SMALL = LoopRule(max_period=6, min_copies=3, min_tokens=6, min_chars=6)


def words(ids: list[int]) -> list[tuple[int, str]]:
    return [(token, "ab") for token in ids]


def small_gate() -> LoopGate:
    return LoopGate((SMALL,))


@given(
    first=st.lists(st.integers(0, 3), max_size=60),
    then=st.lists(st.integers(0, 3), max_size=60),
    data=st.data(),
)
def test_the_law(first: list[int], then: list[int], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(first)))
    assert_law(small_gate, words(first), cut, words(then))


@given(data=st.data())
def test_the_law_over_many_cuts(data: st.DataObject) -> None:
    gate = small_gate()
    kept: list[tuple[int, str]] = []
    for _ in range(5):
        more = words(data.draw(st.lists(st.integers(0, 2), max_size=25)))
        feed(gate, steps([*kept, *more])[len(kept) :])
        kept = [*kept, *more]
        kept = kept[: data.draw(st.integers(0, len(kept)))]
        gate.truncate(len(kept))
    tail = words(data.draw(st.lists(st.integers(0, 2), max_size=25)))
    fresh = small_gate()
    found = feed(fresh, steps([*kept, *tail]))[len(kept) :]
    assert feed(gate, steps([*kept, *tail])[len(kept) :]) == found


@given(
    unit=st.lists(st.integers(0, 3), min_size=1, max_size=200),
    before=st.lists(st.integers(0, 3), max_size=40),
)
def test_every_loop_is_found_not_long_after_it_qualifies(
    unit: list[int], before: list[int]
) -> None:
    needed = max(SHORT_UNITS.min_tokens, SHORT_UNITS.min_copies * len(unit))
    # A candidate may be wrong for a turn or two before the right one holds.
    tokens = before + unit * (needed // len(unit) + 3)
    findings = [found for found in feed(LoopGate(), steps(words(tokens))) if found]
    assert findings
    first = findings[0]
    assert first.flaw is Flaw.LOOP
    assert first.score >= SHORT_UNITS.min_tokens


@given(
    unit=st.lists(st.integers(0, 50_000), min_size=1, max_size=100, unique=True),
    before=st.lists(st.integers(50_001, 60_000), max_size=40, unique=True),
)
def test_the_span_begins_where_the_loop_does(unit: list[int], before: list[int]) -> None:
    tokens = before + unit * (100 // len(unit) + 8)
    found = next(found for found in feed(LoopGate(), steps(words(tokens))) if found)
    assert found.tokens[0] == len(before)
    assert found.chars == (2 * found.tokens[0], 2 * found.tokens[1])
    # Never before the rule allows it, and at the first token that does.
    assert found.tokens[1] == len(before) + max(96, 6 * len(unit))


def test_long_units_need_fewer_copies() -> None:
    unit = list(range(400))
    found = [found for found in feed(LoopGate(), steps(words(unit * 4))) if found]
    assert found[0].tokens == (0, 1600)
    assert "400 tokens came 4 times" in found[0].detail
    assert LONG_UNITS.min_copies == 4


@pytest.mark.parametrize(
    "tokens",
    [
        [7] * 90,
        [1, 2, 3, 4] * 20,
        [1, 2, 3, 4] * 23 + [5] + [1, 2, 3, 4] * 23,
        list(range(30)) * 5,
        list(range(600)) * 6,
        [token for number in range(200) for token in (1, 2, 1000 + number, 3, 4)],
    ],
    ids=[
        "too few tokens",
        "too few tokens in all",
        "broken in the middle",
        "too few copies",
        "too long a unit",
        "rows with one new cell",
    ],
)
def test_what_is_no_loop_by_the_rules(tokens: list[int]) -> None:
    assert not any(feed(LoopGate(), steps(words(tokens))))


def test_tokens_that_bring_little_text_are_let_be() -> None:
    # Thirty emoji of three tokens each: many tokens, few characters.
    siren = [(1, ""), (2, ""), (3, "\N{POLICE CARS REVOLVING LIGHT}")]
    assert not any(feed(LoopGate(), steps(siren * 33)))
    assert any(feed(LoopGate(), steps(siren * 120)))


def test_noise_never_trips() -> None:
    generator = random.Random(7)
    for alphabet in (5, 50, 50_000):
        tokens = [generator.randrange(alphabet) for _ in range(20_000)]
        assert not any(feed(LoopGate(), steps(words(tokens))))


def test_truncating_to_the_onset_ends_the_trip() -> None:
    gate = LoopGate()
    text = words([*range(100, 140), *([1, 2, 3] * 60)])
    found = next(found for found in feed(gate, steps(text)) if found)
    gate.truncate(found.tokens[0])
    kept = text[: found.tokens[0]]
    assert not any(feed(gate, steps([*kept, *words(list(range(200, 400)))])[len(kept) :]))


@given(
    tokens=st.lists(st.integers(0, 2), max_size=60),
    copies=st.integers(0, 2),
    least=st.integers(0, 2),
    characters=st.integers(0, 2),
    period=st.integers(1, 8),
)
def test_the_lowest_thresholds_are_no_fault(
    tokens: list[int], copies: int, least: int, characters: int, period: int
) -> None:
    rule = LoopRule(max_period=period, min_copies=copies, min_tokens=least, min_chars=characters)
    found = [one for one in feed(LoopGate((rule,)), steps(words(tokens))) if one]
    if not copies or not least:
        assert not found
    assert all(one.tokens[0] < one.tokens[1] - period_of(one.detail) for one in found)


def period_of(detail: str) -> int:
    return int(detail.split()[3])
