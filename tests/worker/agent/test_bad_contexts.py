"""Contexts that no step of ours makes, and jobs that can't be taken further here: whoever published
them hears of it, and the operators read why."""

from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from hypothesis import given
from sluicegate.producer.confirms import ConfirmedPublisher
from sluicegate.schemas import AgentContext, Reason, ToolStatus, encode
from sluicegate.schemas import results as outcomes
from sluicegate.schemas.agents import Memory, Spent
from sluicegate.schemas.topology import DELIVERY_LIMIT
from sluicegate.worker.agent.sites import Sites
from sluicegate.worker.agent.validity import fault_of
from sluicegate.worker.tools.tool import Tool, tool

from ..conftest import Desk
from .contexts import a_round, call, context, contexts
from .troupe import WAIT_S, Troupe, answer, job, script

Put = Callable[[AgentContext], Any]
replace = msgspec.structs.replace


def phase(name: str, made: AgentContext) -> AgentContext:
    return replace(made, orchestration=replace(made.orchestration, phase=name))


def opened(number: int, index: int = 0) -> Any:
    return call(number, index, name="pay", arguments={"n": index}, status=None)


FAULTY = {
    "calling without a round": (phase("calling", context()), "no round"),
    "approving without a round": (phase("approving", context()), "no round"),
    "a call is open, and it thinks": (context(a_round(1, opened(1))), "round 1 has no result"),
    "a call of an older round is open, and it thinks": (
        context(a_round(1, opened(1)), a_round(2)),
        "round 1 has no result",
    ),
    "a call of an older round is open, and it calls": (
        phase("calling", context(a_round(1, opened(1)), a_round(2, opened(2)))),
        "round 1 has no result",
    ),
    "one effect id twice in a round": (
        phase("calling", context(a_round(1, opened(1), opened(1)))),
        "'e-1-0' stands for 2 calls",
    ),
    "an effect id of an older round": (
        phase("calling", context(a_round(1), a_round(2, opened(1)))),
        "'e-1-0' stands for 2 calls",
    ),
    "two rounds of one number": (context(a_round(1), a_round(1, call(2))), "not in order"),
    "more rounds than it has spent": (context(a_round(3), spent=Spent(rounds=2)), "number 3"),
    "the round it calls in is summed up": (
        phase("calling", context(a_round(1, opened(1)), memory=Memory(through=9))),
        "up to 9",
    ),
}


@pytest.mark.parametrize(("made", "said"), FAULTY.values(), ids=FAULTY.keys())
def test_what_is_wrong_is_said(made: AgentContext, said: str) -> None:
    assert said in (fault_of(made) or "")


@given(contexts())
def test_nothing_is_wrong_with_a_job_on_its_way(made: AgentContext) -> None:
    assert fault_of(made) is None


@given(contexts(is_open=True))
def test_nothing_is_wrong_with_open_calls_in_the_last_round(made: AgentContext) -> None:
    if made.execution.rounds:
        assert fault_of(phase("calling", made)) is None
        assert fault_of(phase("approving", made)) is None
    assert fault_of(phase("finishing", made)) is None


class Payments:
    """A tool that must not run for a job with a fault."""

    def __init__(self) -> None:
        self.made = 0

        @tool
        async def pay(n: int) -> str:
            """Pay."""
            self.made += 1
            return f"paid {n}"

        self.tool: Tool = pay


@pytest_asyncio.fixture
async def put(desk: Desk) -> AsyncGenerator[Put]:
    publisher = ConfirmedPublisher(desk.connection)

    async def publish(made: AgentContext) -> None:
        await publisher.publish(
            desk.names.jobs,
            desk.names.agents_key,
            encode(made),
            kind="agent_context",
            correlation_id=made.id,
            timeout_s=WAIT_S,
        )

    yield publish
    await publisher.close()


def under_way(made: AgentContext, *tools: str) -> AgentContext:
    """Begun just now, with these tools."""
    now = datetime.now(UTC)
    return replace(
        made,
        at=now,
        job=replace(made.job, tools=tools, profile="off"),
        orchestration=replace(made.orchestration, started_at=now),
    )


@pytest.mark.broker
@pytest.mark.parametrize(("made", "said"), FAULTY.values(), ids=FAULTY.keys())
async def test_a_job_with_a_fault_is_ended_at_once_by_its_record(
    troupe: Troupe, desk: Desk, put: Put, made: AgentContext, said: str
) -> None:
    payments = Payments()
    await troupe.agents([payments.tool])
    await put(under_way(made, "pay"))
    result = await desk.result()
    assert isinstance(result.outcome, outcomes.Partial)
    assert result.outcome.reason is Reason.INVALID_FIELD
    assert said in result.outcome.detail
    letter = await desk.dead()
    assert said in letter.detail
    assert letter.agent is not None
    calls = [each for this in letter.agent.execution.rounds for each in this.calls]
    assert all(
        each.result is not None and each.result.status in (ToolStatus.OK, ToolStatus.NOT_RUN)
        for each in calls
    )
    assert payments.made == 0


@pytest.mark.broker
async def test_a_job_whose_tool_is_gone_is_left_to_others_and_then_ended(
    troupe: Troupe, desk: Desk, put: Put, caplog: pytest.LogCaptureFixture
) -> None:
    await troupe.agents([])
    await put(under_way(phase("calling", context(a_round(1, opened(1)))), "pay"))
    result = await desk.result()
    assert isinstance(result.outcome, outcomes.Partial)
    assert result.outcome.reason is Reason.TOOL_UNAVAILABLE
    assert (await desk.dead()).reason is Reason.TOOL_UNAVAILABLE
    assert caplog.text.count("can't go on here") == DELIVERY_LIMIT


@pytest.mark.broker
async def test_a_step_that_breaks_ends_with_a_result(
    troupe: Troupe,
    desk: Desk,
    put: Put,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A fault of ours is one job's, and is not kept from whoever published it."""

    def breaks(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug where nobody reckons with one")

    monkeypatch.setattr("sluicegate.worker.agent.calling.judged", breaks)
    await troupe.agents([Payments().tool])
    await put(under_way(phase("calling", context(a_round(1, opened(1)))), "pay"))
    result = await desk.result()
    assert isinstance(result.outcome, outcomes.Partial)
    assert result.outcome.reason is Reason.GENERATION_FAILED
    assert "ZeroDivisionError" in result.outcome.detail
    assert "ZeroDivisionError" in (await desk.dead()).detail
    assert caplog.text.count("the step failed unexpectedly") == DELIVERY_LIMIT


def at_once(number: int, prompt: str) -> str:
    return answer("done")


@pytest.mark.broker
async def test_a_job_that_can_not_be_begun_ends_with_a_result(
    troupe: Troupe, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise ZeroDivisionError("a bug where nobody reckons with one")

    monkeypatch.setattr(Sites, "of", breaks)
    await troupe.worker(script(at_once))
    await troupe.agents([])
    result = await troupe.result(job())
    assert isinstance(result.outcome, outcomes.Rejected)
    assert result.outcome.reason is Reason.GENERATION_FAILED
    assert "ZeroDivisionError" in (await desk.dead()).detail
