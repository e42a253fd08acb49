"""Ids out of range, denied ids, and tokens without text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.finding import Flaw, Level
from sluicegate.guards.tokens import TokenGate

from .gate_law import assert_law, feed, steps

tokens = st.lists(st.tuples(st.integers(-1, 6), st.sampled_from(["", "", "a"])), max_size=40)


def small_gate() -> TokenGate:
    return TokenGate(6, {3}, silent_tokens=3)


@given(before=tokens, then=tokens, data=st.data())
def test_the_law(
    before: list[tuple[int, str]], then: list[tuple[int, str]], data: st.DataObject
) -> None:
    assert_law(small_gate, before, data.draw(st.integers(0, len(before))), then)


@pytest.mark.parametrize(
    ("token_id", "flaw"),
    [
        (-1, Flaw.ID_OUT_OF_RANGE),
        (6, Flaw.ID_OUT_OF_RANGE),
        (4_294_967_293, Flaw.ID_OUT_OF_RANGE),
        (3, Flaw.DENIED_TOKEN),
    ],
)
def test_an_id_that_must_not_be(token_id: int, flaw: Flaw) -> None:
    found = feed(small_gate(), steps([(0, "a"), (token_id, "bc"), (5, "d")]))
    assert found[0] is None
    assert found[2] is None
    assert found[1] is not None
    assert found[1].flaw is flaw
    assert found[1].level is Level.TOKEN
    assert found[1].tokens == (1, 2)
    assert found[1].chars == (1, 3)


def test_silence_is_counted_from_the_last_text() -> None:
    found = feed(small_gate(), steps([(1, "a"), (1, ""), (1, ""), (1, "b"), *[(1, "")] * 4]))
    assert [one is not None for one in found] == [False] * 6 + [True, True]
    assert found[6] is not None
    assert found[6].flaw is Flaw.SILENT_TOKENS
    assert found[6].tokens == (4, 7)
    assert found[6].chars == (2, 2)
    assert not any(feed(TokenGate(6, silent_tokens=0), steps([(1, "")] * 500)))


def test_half_characters_are_no_silence() -> None:
    assert not any(feed(TokenGate(6), steps([(1, ""), (2, ""), (3, "😀")] * 200)))
