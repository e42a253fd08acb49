"""Calls that a person must allow, from the service's side: the job waits as a message."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sluicegate.producer import Producer
from sluicegate.schemas import ApprovalWanted, Budget, Reason, ToolStatus
from sluicegate.schemas import results as outcomes
from sluicegate.schemas.agents import Closed, Round
from sluicegate.worker.agent.approvals import Waiting, decide, list_waiting
from sluicegate.worker.tools.tool import Tool, tool

from ..conftest import Desk
from .troupe import WAIT_S, Troupe, answer, calls, job, script

pytestmark = pytest.mark.broker


class Till:
    """A tool that a person must allow, and one that needs nobody."""

    def __init__(self, timeout_s: float = 600.0) -> None:
        self.paid: list[int] = []
        self.looked = 0

        @tool(needs_approval=True, approval_timeout_s=timeout_s)
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        @tool
        async def look() -> str:
            """Look."""
            self.looked += 1
            return "nothing to see"

        self.tools: list[Tool] = [pay, look]


def play(number: int, prompt: str) -> str:
    if number == 1:
        return calls(("look", {}), ("pay", {"amount": 5}), ("pay", {"amount": 7}))
    return answer("settled")


async def waiting(troupe: Troupe) -> Waiting:
    async with asyncio.timeout(WAIT_S):
        while True:
            found = await list_waiting(troupe.url, troupe.names)
            if found.jobs:
                return found
            await asyncio.sleep(0.1)


async def first_round(troupe: Troupe, job_id: str) -> Round:
    lines = await troupe.journal(job_id)
    return next(line.entry.round for line in lines if isinstance(line.entry, Closed))


async def with_a_job(
    troupe: Troupe, till: Till, act: Callable[[], Awaitable[Any]], **fields: Any
) -> tuple[Any, Any]:
    """The result of a job that waits, after something was done; and the job."""
    await troupe.worker(script(play))
    await troupe.agents(till.tools)
    this = job(tools=("pay", "look"), **fields)
    async with asyncio.TaskGroup() as group:
        result = group.create_task(troupe.result(this))
        await act()
    return result.result(), this


async def test_what_is_approved_is_done_and_what_is_denied_is_not(troupe: Troupe) -> None:
    till = Till()

    async def act() -> None:
        (found,) = (await waiting(troupe)).jobs
        assert till.looked == 1
        assert not till.paid
        first, second = found.calls
        one = await decide(
            troupe.url, troupe.names, found.job_id, "denied", calls=[first.call.id], why="too much"
        )
        assert len(one.left) == 1
        await decide(troupe.url, troupe.names, found.job_id, "approved", calls=[second.call.id])

    result, this = await with_a_job(troupe, till, act)
    assert result.ok
    assert till.paid == [7]
    assert till.looked == 1
    looked, five, seven = (await first_round(troupe, this.id)).calls
    assert [each.result.status for each in (looked, five, seven) if each.result] == [
        ToolStatus.OK,
        ToolStatus.DENIED,
        ToolStatus.OK,
    ]
    assert five.result is not None
    assert "too much" in five.result.content


async def test_a_call_that_nobody_allows_in_time_is_denied(troupe: Troupe) -> None:
    till = Till(timeout_s=0.5)

    async def act() -> None:
        await asyncio.sleep(0)

    result, this = await with_a_job(troupe, till, act)
    assert result.ok
    assert not till.paid
    told = await first_round(troupe, this.id)
    statuses = [each.result.status for each in told.calls if each.result]
    assert statuses == [ToolStatus.OK, ToolStatus.DENIED, ToolStatus.DENIED]


async def test_it_waits_while_there_is_no_service_at_all(troupe: Troupe) -> None:
    till = Till()
    await troupe.worker(script(play))
    service = await troupe.agents(till.tools)
    this = job(tools=("pay", "look"), budget=Budget(wall_s=60))
    async with asyncio.TaskGroup() as group:
        result = group.create_task(troupe.result(this))
        (found,) = (await waiting(troupe)).jobs
        await troupe.end(service)
        await decide(troupe.url, troupe.names, found.job_id, "approved", by="night shift")
        await troupe.agents(till.tools)
    assert result.result().ok
    assert sorted(till.paid) == [5, 7]
    assert till.looked == 1


async def test_a_deadline_that_passes_while_it_waits_ends_it(troupe: Troupe) -> None:
    till = Till()
    deadline = datetime.now(UTC) + timedelta(seconds=3)

    async def act() -> None:
        # Nobody decides, in the ten minutes that they would have.
        (found,) = (await waiting(troupe)).jobs
        asked = [each.call.approval for each in found.calls]
        assert all(each is not None and each.expires_at < deadline for each in asked)

    result, _ = await with_a_job(troupe, till, act, deadline=deadline)
    assert isinstance(result.outcome, outcomes.Partial)
    assert result.outcome.reason is Reason.DEADLINE_PASSED
    assert not till.paid
    assert any("pay" in each for each in result.agent.not_done)


async def test_who_follows_the_job_hears_that_a_person_is_wanted(
    troupe: Troupe, desk: Desk
) -> None:
    till = Till(timeout_s=1.0)
    await troupe.worker(script(play))
    await troupe.agents(till.tools)
    async with Producer(troupe.url, namespace=troupe.namespace) as producer:
        handle = await producer.publish(job(tools=("pay", "look")))
        await handle.result(timeout=WAIT_S)
        happened = [event async for event in handle.events()]
    wanted = [each.event for each in happened if isinstance(each.event, ApprovalWanted)]
    assert [each.calls for each in wanted] == [("pay", "pay")]
    kinds = [each.kind for each in happened]
    assert kinds == ["accepted", "approval_wanted", "round_ended", "finished"]
    assert [each.seq for each in happened] == sorted({each.seq for each in happened})
    assert await desk.depth(desk.names.approvals) == 0
