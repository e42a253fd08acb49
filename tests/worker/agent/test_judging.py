"""What a model is told of calls that may not be made."""

from collections.abc import Iterable

import msgspec
import pytest
from sluicegate.schemas import AgentContext, Round, ToolCall, ToolSpec, ToolStatus
from sluicegate.schemas.agents import Spent
from sluicegate.worker.agent.judging import is_waiting, judged

from .contexts import START, a_round, call, context

replace = msgspec.structs.replace


def asked(calls: int, made: int = 0) -> AgentContext:
    """A round that calls `pay` so many times, which was called before."""
    this: Round = a_round(2, *(call(2, n, name="pay", status=None) for n in range(calls)))
    at = context(this)
    spent = Spent(tool_calls=made, by_tool={"pay": made} if made else {})
    job = replace(at.job, tools=("pay",))
    return replace(at, job=job, orchestration=replace(at.orchestration, spent=spent))


def judge(at: AgentContext, spec: ToolSpec) -> tuple[ToolCall, ...]:
    def fits(_name: str, _arguments: dict[str, object]) -> None: ...

    return judged(at, {"pay": spec}, ["pay"], fits, START)


def refusals(calls: Iterable[ToolCall]) -> list[str]:
    found = [one.result for one in calls if one.result is not None]
    assert {each.status for each in found} <= {ToolStatus.QUOTA_SPENT}
    return [each.content for each in found]


def test_calls_that_wait_for_a_person_count_and_are_not_told_as_made() -> None:
    done = judge(asked(4), ToolSpec(name="pay", quota=2, needs_approval=True))
    assert [is_waiting(one) for one in done] == [True, True, False, False]
    (text, _) = refusals(done)
    assert text == (
        "2 calls of pay are asked for already, and more than 2 may not be made in one task."
    )


@pytest.mark.parametrize(
    ("made", "quota", "said"),
    [
        (2, 2, ["may be called 2 times in one task, and was"] * 2),
        (1, 1, ["may be called 1 time in one task, and was"] * 2),
        (1, 2, ["1 call of pay is asked for already and 1 call made before, and more than 2"]),
        (0, 0, ["pay may not be called"] * 2),
        (0, 2, []),
        (5, None, []),
    ],
)
def test_a_quota_is_told_as_it_is(made: int, quota: int | None, said: list[str]) -> None:
    done = refusals(judge(asked(2, made), ToolSpec(name="pay", quota=quota)))
    assert len(done) == len(said)
    for text, part in zip(done, said, strict=True):
        assert part in text
