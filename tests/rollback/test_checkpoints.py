"""Checkpoints: every so many tokens, at whole text only, and as if what is forgotten never was."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.rollback import CheckpointStack, checkpoint_interval
from sluicegate.schemas import Sampling

JOB = Sampling(temperature=0.7)
COOLER = Sampling(temperature=0.3)

# Whether the text is whole behind each token. Mostly it is.
wholeness = st.lists(st.sampled_from([True, True, True, False]), max_size=80)


def offer(stack: CheckpointStack, whole: list[bool]) -> None:
    """More tokens, two characters each; parameters change half way, as after a rollback."""
    for is_whole in whole:
        tokens = stack.tokens + 1
        stack.offer(tokens, 2 * tokens, JOB if tokens < 20 else COOLER, (1, tokens), is_whole)


def seen(stack: CheckpointStack) -> list[Any]:
    """Everything that a stack can say."""
    places = range(-1, stack.tokens + 3)
    return [(stack.at_or_before(n), stack.cut(n)) for n in places] + [stack.tokens, len(stack)]


@settings(deadline=None)
@given(st.integers(1, 10), wholeness, wholeness, st.integers(-1, 90))
def test_forgetting_leaves_what_was(
    interval: int, first: list[bool], then: list[bool], keep: int
) -> None:
    stack = CheckpointStack(interval, JOB, (1,))
    offer(stack, first)
    stack.truncate(keep)
    offer(stack, then)
    fresh = CheckpointStack(interval, JOB, (1,))
    offer(fresh, first[: max(keep, 0)] + then)
    assert seen(stack) == seen(fresh)


@settings(deadline=None)
@given(st.integers(1, 10), wholeness, st.integers(0, 90))
def test_they_lie_at_whole_text_an_interval_apart(
    interval: int, whole: list[bool], place: int
) -> None:
    stack = CheckpointStack(interval, JOB)
    offer(stack, whole)
    is_whole = [True, *whole]
    found = stack.at_or_before(place)
    assert found.tokens <= place
    assert is_whole[found.tokens]
    assert found.characters == 2 * found.tokens
    below = stack.before(found)
    if found.tokens:
        assert found.tokens - below.tokens >= interval
    else:
        assert below == found
    # As soon as the text is whole again there is one: none is left out.
    behind = [n for n in range(found.tokens + interval, len(is_whole)) if is_whole[n]]
    if behind:
        assert stack.at_or_before(behind[0]).tokens == behind[0]


@settings(deadline=None)
@given(wholeness, st.integers(-3, 90))
def test_a_cut_is_the_nearest_whole_place(whole: list[bool], place: int) -> None:
    stack = CheckpointStack(5, JOB)
    offer(stack, whole)
    is_whole = [True, *whole]
    wanted = min(max(place, 0), len(whole))
    assert stack.cut(place) == max(n for n in range(wanted + 1) if is_whole[n])


def test_parameters_and_seeds_are_shared_not_copied() -> None:
    stack = CheckpointStack(1, JOB)
    path = (4, 5)
    stack.offer(1, 3, COOLER, path, whole=True)
    assert stack.at_or_before(1).parameters is COOLER
    assert stack.at_or_before(1).seed_path is path
    assert stack.at_or_before(0).parameters is JOB


def test_there_are_no_more_than_one_each_interval() -> None:
    stack = CheckpointStack(8, JOB)
    offer(stack, [True] * 10_000)
    assert len(stack) == 1 + 10_000 // 8
    assert repr(stack) == "<CheckpointStack 1251 over 10000 tokens, every 8>"


def test_each_token_is_offered_once_and_in_order() -> None:
    stack = CheckpointStack(3, JOB)
    stack.offer(1, 1, JOB, (), whole=True)
    for wrong in (1, 3):
        with pytest.raises(ValueError, match=f"token {wrong} offered after 1"):
            stack.offer(wrong, 1, JOB, (), whole=True)
    with pytest.raises(ValueError, match="every 0 tokens"):
        CheckpointStack(0, JOB)


def test_intervals_by_length() -> None:
    lengths = (1, 64, 65, 512, 513, 4096, 4097, 100_000)
    assert [checkpoint_interval(n) for n in lengths] == [3, 3, 5, 5, 8, 8, 10, 10]
    assert checkpoint_interval(100_000, configured=4) == 4
