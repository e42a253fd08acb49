"""Exact loops in reasoning: the first copy stays."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.guards.finding import Flaw, Level
from sluicegate.guards.loops import LoopRule
from sluicegate.guards.pipeline import Pipeline
from sluicegate.guards.profiles import profile
from sluicegate.guards.reasoning.exact import ReasoningLoopGate
from sluicegate.guards.reasoning.guard import reasoning_gates

from ..gate_law import assert_law, feed, steps
from . import traces

SMALL = LoopRule(max_period=6, min_copies=3, min_tokens=6, min_chars=6)
NAMES = ("0 ", "ab", "- ", "c7")


def words(ids: list[int]) -> list[tuple[int, str]]:
    return [(token, NAMES[token % 4]) for token in ids]


def small_gate() -> ReasoningLoopGate:
    return ReasoningLoopGate((SMALL,), symbols=15)


@given(
    first=st.lists(st.integers(0, 3), max_size=60),
    then=st.lists(st.integers(0, 3), max_size=60),
    data=st.data(),
)
def test_the_law(first: list[int], then: list[int], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(first)))
    assert_law(small_gate, words(first), cut, words(then))


@settings(deadline=None)
@given(
    unit=st.lists(st.integers(0, 50_000), min_size=1, max_size=400, unique=True),
    before=st.lists(st.integers(50_001, 60_000), max_size=40, unique=True),
)
def test_units_of_any_length_are_found_and_the_first_copy_stays(
    unit: list[int], before: list[int]
) -> None:
    gate = Pipeline([reasoning_gates(profile("chat"), 10_000)])
    text = [(token, " word") for token in before + unit * (400 // len(unit) + 5)]
    found = next(one for one in feed(gate, steps(text)) if one)
    assert (found.level, found.flaw) == (Level.REASONING, Flaw.REASONING_LOOP)
    assert found.tokens[0] == len(before) + len(unit)
    assert found.chars == (5 * found.tokens[0], 5 * found.tokens[1])
    delay = found.tokens[1] - len(before)
    assert delay <= (256 if len(unit) <= 64 else max(384, 4 * len(unit)))


def test_signs_alone_may_come_oftener() -> None:
    signs = steps([(1, "0, "), (2, "0\n")] * 40)
    found = [one for one in feed(small_gate(), signs) if one]
    assert found[0].score == 15
    letters = steps([(1, "a, "), (2, "a\n")] * 40)
    found = [one for one in feed(small_gate(), letters) if one]
    assert found[0].score == 6


@pytest.mark.parametrize("tokens", [17, 40])
def test_what_comes_again_is_suspected_through_the_pipeline(tokens: int) -> None:
    gates = reasoning_gates(profile("chat"), 1_000)
    before = [(token, f" w{token}") for token in range(100, 130)]
    unit = [(token, f" u{token}") for token in range(50)]
    feed(gates, steps([*before, *unit, *unit[:tokens]]))
    assert gates.suspected() == 30


def test_steps_of_a_machine_may_come_round_oftener() -> None:
    steps_of_it = [(at, f" w{at}") for at in range(10)]
    unit = [*steps_of_it, (20, " a.\n"), *steps_of_it, (21, " b.\n")]
    prose = [(at, f" {chr(97 + at) * 3}") for at in range(20)] + [(20, " so.\n"), (21, " on.\n")]
    scores: list[float] = []
    for text in (unit, prose):
        found = feed(reasoning_gates(profile("chat"), 9_000), steps(text * 40))
        loops = [one for one in found if one and one.flaw is Flaw.REASONING_LOOP]
        scores.append(loops[0].score)
    assert scores == [480, 192]


@pytest.mark.parametrize("named", ["chat", "data"])
@pytest.mark.parametrize(
    "unit",
    [
        "Is it 12? No, it is 15. Is it 15? No, it is 12. ",
        "Wait, 17 * 23 = 391. Let me check that again. ",
        "The answer is 7. ",
    ],
)
def test_units_with_words_are_found_whatever_else_they_have(named: str, unit: str) -> None:
    gate = reasoning_gates(profile(named), 9_000)
    found = next(one for one in feed(gate, steps(traces.tokens(unit * 80))) if one)
    assert found.tokens[1] <= 256


def test_contexts_with_the_same_hash_are_no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    # Modulo 1 all contexts are the same.
    monkeypatch.setattr("sluicegate.guards.loops._MASK", 0)
    gate = ReasoningLoopGate((LoopRule(max_period=40, min_copies=2, min_tokens=8, min_chars=1),), 8)
    assert not any(feed(gate, steps([(token, " word") for token in range(400)])))
