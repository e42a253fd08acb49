"""Runs of a character or a word, whatever the pieces."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.finding import Finding, Flaw
from sluicegate.guards.runs import RunGate, RunRules

from .gate_law import assert_law, feed, steps

SMALL = RunRules(characters=5, lines=8, spaces=10, words=4)
tokens = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from(["a", "aa", "ab", "ba", "-", "--", " ", "", "word"])
    ),
    max_size=50,
)


def small_gate() -> RunGate:
    return RunGate(SMALL)


def first(text: str, rules: RunRules | None = None, width: int = 7) -> Finding | None:
    gate = RunGate(rules)
    cut = [(start, text[start : start + width]) for start in range(0, len(text), width)]
    return next((found for found in feed(gate, steps(cut)) if found), None)


@given(before=tokens, then=tokens, data=st.data())
def test_the_law(
    before: list[tuple[int, str]], then: list[tuple[int, str]], data: st.DataObject
) -> None:
    assert_law(small_gate, before, data.draw(st.integers(0, len(before))), then)


@given(
    text=st.text("ab-", max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=20),
)
def test_a_run_is_found_whatever_the_pieces(text: str, cuts: list[int]) -> None:
    """Found exactly where there is one, and never later than with the piece that completes it."""
    at = sorted({0, *(cut for cut in cuts if cut < len(text)), len(text)})
    cut = [(0, text[start:end]) for start, end in pairwise(at)]
    gate = RunGate(RunRules(characters=5, lines=8, spaces=10, words=0))
    found = [one for one in feed(gate, steps(cut)) if one]
    ends = [text.find("a" * 5) + 5, text.find("b" * 5) + 5, text.find("-" * 8) + 8]
    there = [end for end, run in zip(ends, ("a" * 5, "b" * 5, "-" * 8), strict=True) if run in text]
    assert bool(found) == bool(there)
    if found:
        start, end = found[0].chars
        assert len(set(text[start:end])) == 1
        assert found[0].score == end - start
        piece = next(place for place in at if place >= min(there))
        assert found[0].tokens[1] == at.index(piece)


@pytest.mark.parametrize("width", [1, 7, 64, 5000])
@pytest.mark.parametrize(
    ("character", "length"),
    [
        ("!", 100),
        ("！", 100),
        ("郦", 100),
        ("0", 400),
        ("\n", 100),
        ("-", 240),
        ("█", 240),
        (" ", 1000),
    ],
)
def test_from_which_length_on(character: str, length: int, width: int) -> None:
    assert first(f"text{character * (length - 1)}end", width=width) is None
    found = first(f"text{character * length}end", width=width)
    assert found is not None
    assert found.flaw is Flaw.CHARACTER_RUN
    assert found.chars[0] == 4
    assert found.tokens[0] == 4 // width


@pytest.mark.parametrize("rule", ["characters", "lines", "spaces", "words"])
def test_zero_switches_one_off(rule: str) -> None:
    text = {"characters": "!", "lines": "-", "spaces": " "}.get(rule, "!") * 3000
    rules = RunRules(**{"characters": 0 if rule == "words" else 100, rule: 0})
    assert first(text, rules) is None


def test_a_word_again_and_again() -> None:
    found = [one for one in feed(RunGate(), steps([(1, "So"), *[(7, " adjusts")] * 20])) if one]
    assert found[0].flaw is Flaw.WORD_RUN
    assert found[0].tokens == (1, 21)
    assert found[0].chars == (2, 2 + 20 * len(" adjusts"))


@pytest.mark.parametrize(
    "some",
    [
        [(7, " badger")] * 19,
        [(7, " ha")] * 60,
        [(7, "哈哈")] * 40,
        [(1, " no"), (2, ",")] * 60,
        [(3, "0,")] * 60,
        [(5, "")] * 60,
    ],
    ids=["a song", "laughter", "more laughter", "a row with commas", "digits", "silence"],
)
def test_what_is_no_word_run(some: list[tuple[int, str]]) -> None:
    assert not any(feed(RunGate(), steps(some)))
