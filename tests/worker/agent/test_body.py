"""The state as a message: within the limit, or a clear error."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.schemas import AgentContext, CallSample, RoundSample, ToolCall, decode, encode
from sluicegate.schemas.agents import Monitoring
from sluicegate.schemas.limits import MAX_CONTEXT_BYTES, MAX_SUMMARY_CHARS
from sluicegate.worker.agent.body import within_limit
from sluicegate.worker.agent.final import close_open_calls
from sluicegate.worker.agent.folding import ContextFull

from .contexts import START, a_round, call, context, contexts, replace

LONG = "\x1b" * 20_000  # six bytes a character in JSON


def size(this: AgentContext) -> int:
    return len(msgspec.json.encode(this))


def full(number: int, calls: int = 64) -> list[ToolCall]:
    return [call(number, index, content="r" * 20_000) for index in range(calls)]


def test_what_is_small_is_left_alone() -> None:
    this = context(*(a_round(number) for number in range(1, 9)))
    assert within_limit(this) is this


def test_older_results_go_first_and_no_more_than_needed() -> None:
    this = context(*(a_round(number, *full(number, 40)) for number in range(1, 6)))
    assert size(this) > MAX_CONTEXT_BYTES
    after = within_limit(this)
    assert size(after) <= MAX_CONTEXT_BYTES
    before, now = this.execution.rounds, after.execution.rounds
    assert before[0] != now[0]
    assert before[2:] == now[2:]
    result = now[0].calls[0].result
    assert result is not None
    assert len(result.content) == 2_000
    assert result.whole_chars == 20_000
    assert decode(encode(after), AgentContext) == after


def test_a_round_of_64_calls_with_the_longest_results() -> None:
    this = context(
        *(
            a_round(
                number,
                *(call(number, index, content=LONG) for index in range(64)),
                said=LONG,
                prose=LONG,
            )
            for number in range(1, 11)
        )
    )
    after = within_limit(this)
    assert size(after) <= MAX_CONTEXT_BYTES
    assert len(after.execution.rounds[-1].calls) == 64
    assert decode(encode(after), AgentContext) == after


def test_arguments_of_closed_calls_go_and_those_of_open_ones_stay() -> None:
    big = {"text": "a" * 60_000}
    old = [call(1, index, arguments=big) for index in range(64)]
    new = [call(2, index, arguments=big, status=None) for index in range(20)]
    after = within_limit(context(a_round(1, *old), a_round(2, *new)))
    assert after.execution.rounds[1].calls == tuple(new)
    cut = after.execution.rounds[0].calls[0].arguments
    assert list(cut) == ["shortened"]
    assert cut["shortened"].startswith('{"text":"aaa')


def test_an_open_round_that_is_too_large_is_an_error_that_says_so() -> None:
    big = {"text": "a" * 60_000}
    new = [call(2, index, arguments=big, status=None) for index in range(64)]
    this = context(a_round(1), a_round(2, *new))
    with pytest.raises(ContextFull, match=r"the latest round 3,8\d\d,\d\d\d") as error:
        within_limit(this)
    assert "the job 1" in error.value.detail
    # Once the job is ended there is nothing that could not be cut.
    assert size(within_limit(close_open_calls(this))) <= MAX_CONTEXT_BYTES


def test_what_the_watchdog_keeps_of_older_rounds_goes_before_any_result() -> None:
    words = tuple("w" * 64 for _ in range(32))
    sample = CallSample(tool="t", key="k", at=START, words=words)
    samples = tuple(
        RoundSample(number=number, at=START, prose="p" * MAX_SUMMARY_CHARS, calls=(sample,) * 64)
        for number in range(30)
    )
    this = replace(context(a_round(1, *full(1))), monitoring=Monitoring(samples=samples))
    after = within_limit(this)
    assert after.execution == this.execution
    assert len(after.monitoring.samples) == 30
    assert after.monitoring.samples[-8:][0].calls == samples[-8].calls
    assert len(after.monitoring.samples[0].prose) == 500


@settings(max_examples=60)
@given(contexts(is_open=True), st.integers(18_000, 60_000))
def test_whatever_the_limit_it_is_kept_or_said(this: AgentContext, limit: int) -> None:
    try:
        after = within_limit(this, limit)
    except ContextFull:
        return
    assert size(after) <= limit
    assert (after is this) == (size(this) <= limit - 16 * 1024)
    assert decode(encode(after), AgentContext) == after
    # Every call is there, with its status, and what is open is whole.
    for old, new in zip(this.execution.rounds, after.execution.rounds, strict=True):
        for before, now in zip(old.calls, new.calls, strict=True):
            assert (before.id, before.name, before.effect_id) == (now.id, now.name, now.effect_id)
            if before.result is None:
                assert before == now
            else:
                assert now.result is not None
                assert before.result.status == now.result.status
