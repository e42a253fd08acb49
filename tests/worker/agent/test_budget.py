"""Hard budgets, at the very edge of each."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.schemas import AgentContext, Budget, Reason, Sampling, Usage
from sluicegate.schemas.agents import Spent
from sluicegate.worker.agent.budget import calls_left, hard_stop, reserve, room

from .contexts import START, a_round, context, later, replace

BUDGET = Budget(tokens=1_000, tool_calls=10, rounds=7, wall_s=100.0, answer_share=0.2)


def at(
    *, phase: str = "thinking", tokens: int = 0, waiting: float | None = None, **spent: Any
) -> AgentContext:
    this = context(
        budget=BUDGET, spent=Spent(usage=Usage(prompt_tokens=tokens), **spent), deadline=None
    )
    since = None if waiting is None else later(waiting)
    orchestration = replace(this.orchestration, phase=phase, waiting_since=since)
    return replace(this, orchestration=orchestration)


def detail(this: AgentContext, seconds: float = 0.0, coming: int = 0) -> str | None:
    stop = hard_stop(this, later(seconds), next_prompt_tokens=coming)
    if stop is None:
        return None
    assert stop.reason is Reason.BUDGET_SPENT
    return stop.detail


def test_tokens() -> None:
    assert detail(at(tokens=799)) is None
    assert detail(at(tokens=800)) == (
        "800 of 1,000 tokens are used, and 200 of them are kept for the final answer"
    )
    assert detail(at(tokens=999, phase="finishing")) is None
    assert detail(at(tokens=1_000, phase="finishing")) == "1,000 of 1,000 tokens are used"


def test_the_prompt_that_comes() -> None:
    assert detail(at(tokens=500), coming=299) is None
    said = detail(at(tokens=500), coming=300)
    assert said is not None
    assert said.startswith("500 of 1,000 tokens are used and the next prompt has 300")


def test_tokens_of_every_kind_count() -> None:
    usage = Usage(
        prompt_tokens=400,
        cached_tokens=390,
        completion_tokens=300,
        wasted_tokens=100,
        reasoning_tokens=200,
    )
    assert detail(context(budget=BUDGET, spent=Spent(usage=usage))) is not None
    less = replace(usage, wasted_tokens=99)
    assert detail(context(budget=BUDGET, spent=Spent(usage=less))) is None


def test_tool_calls() -> None:
    assert detail(at(tool_calls=9)) is None
    assert detail(at(tool_calls=10)) == "10 of 10 tool calls are used"
    assert [calls_left(at(tool_calls=number)) for number in (0, 9, 10, 12)] == [10, 1, 0, 0]


def test_a_job_without_calls_can_still_answer() -> None:
    this = context(budget=replace(BUDGET, tool_calls=0), spent=Spent())
    assert detail(this) is None
    assert calls_left(this) == 0


def test_rounds() -> None:
    assert detail(at(rounds=6)) is None
    assert detail(at(rounds=7)) == "7 of 7 rounds are used"


def test_wall_time() -> None:
    assert detail(at(), 79.9) is None
    assert detail(at(), 80.0) == (
        "80.0 of 100.0 s are used, and 20.0 s of them are kept for the final answer"
    )
    assert detail(at(phase="finishing"), 99.9) is None
    assert detail(at(phase="finishing"), 100.0) == "100.0 of 100.0 s are used"


def test_waiting_for_a_person_does_not_count() -> None:
    assert detail(at(waited_s=1_000.0), 1_079.0) is None
    assert detail(at(waited_s=1_000.0), 1_080.0) is not None
    assert detail(at(waiting=50.0), 10_000.0) is None
    assert detail(at(waiting=80.0), 10_000.0) is not None


def with_deadline(seconds: float, phase: str = "thinking") -> AgentContext:
    this = at(phase=phase)
    return replace(this, job=replace(this.job, deadline=later(seconds)))


def test_the_deadline_and_the_time_before_it_for_the_answer() -> None:
    # A fifth of 40 s, which is less than a fifth of the budget's 100 s.
    assert hard_stop(with_deadline(40.0), later(31.9)) is None
    stop = hard_stop(with_deadline(40.0), later(32.0))
    assert stop is not None
    assert stop.reason is Reason.DEADLINE_PASSED
    assert stop.detail == (
        "the deadline 2026-03-01T12:00:40+00:00 is near, and the last 8.0 s are kept for the final "
        "answer"
    )
    assert hard_stop(with_deadline(40.0, "finishing"), later(39.9)) is None
    stop = hard_stop(with_deadline(40.0, "finishing"), later(40.0))
    assert stop is not None
    assert stop.detail == "the deadline 2026-03-01T12:00:40+00:00 has passed"
    # Of a far one, no more than the reserve is kept.
    assert hard_stop(with_deadline(90.0), later(71.9)) is None
    assert hard_stop(with_deadline(-5.0), START) is not None


@given(st.integers(1, 10**9), st.floats(0.001, 0.999), st.floats(0.1, 600_000))
def test_the_reserve_is_something_and_not_more_than_all(
    tokens: int, share: float, wall_s: float
) -> None:
    budget = Budget(tokens=tokens, answer_share=share, wall_s=wall_s)
    kept, seconds = reserve(budget)
    assert 1 <= kept <= tokens
    assert kept >= tokens * share - 1e-6 * tokens
    assert 0 < seconds < wall_s


@pytest.mark.parametrize(
    ("prompt", "model", "phase", "most"),
    [
        (100, 8_000, "thinking", 64),  # the job's max_tokens
        (100, 130, "thinking", 30),  # the model
        (290, 8_000, "thinking", 10),  # the budget, less the reserve
        (290, 8_000, "finishing", 64),
        (490, 8_000, "finishing", 10),
        (700, 8_000, "finishing", 0),
        (9_000, 8_000, "thinking", 0),
    ],
)
def test_room_for_an_answer(prompt: int, model: int, phase: str, most: int) -> None:
    this = at(phase=phase, tokens=500)
    this = replace(this, job=replace(this.job, sampling=Sampling(max_tokens=64)))
    assert room(this, prompt, room_tokens=model) == most


def test_a_stop_says_so_however_long_the_job_is() -> None:
    this = context(a_round(1), budget=replace(BUDGET, rounds=1))
    assert detail(this) == "1 of 1 rounds are used"
