"""Agent jobs that are called off: while the model answers, while tools run, before they are begun,
and while they wait for a person."""

import asyncio

import pytest
from sluicegate.producer import Producer
from sluicegate.producer.connection import close, connect
from sluicegate.schemas import DeadLetter, decode
from sluicegate.schemas import results as outcomes
from sluicegate.worker.service import Worker
from sluicegate.worker.tools.tool import Tool, tool

from ..conftest import Desk
from .troupe import WAIT_S, Troupe, answer, call, job, script

pytestmark = pytest.mark.broker


class Endless:
    """A tool that does not end by itself, and notes what becomes of it."""

    def __init__(self, *, approval: bool = False) -> None:
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()

        @tool(needs_approval=approval)
        async def work() -> str:
            """Work for ever."""
            self.begun.set()
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return "worked"

        self.tool: Tool = work


def play(number: int, prompt: str) -> str:
    return call("work") if number == 1 else answer("it is done")


async def letter(troupe: Troupe) -> DeadLetter:
    connection = await connect(troupe.url, timeout_s=WAIT_S, name="test")
    try:
        return decode(await Desk(connection, troupe.names).take(troupe.names.dead), DeadLetter)
    finally:
        await close(connection)


async def under_way(worker: Worker, count: int) -> None:
    async with asyncio.timeout(WAIT_S):
        while worker.load()[0] != count:
            await asyncio.sleep(0.01)


async def test_in_the_middle_of_a_call_the_tool_is_told_and_the_record_says_so(
    troupe: Troupe,
) -> None:
    endless = Endless()
    await troupe.worker(script(play))
    await troupe.agents([endless.tool])
    async with Producer(troupe.url, namespace=troupe.namespace) as producer:
        handle = await producer.publish(job(tools=("work",)))
        await asyncio.wait_for(endless.begun.wait(), WAIT_S)
        assert await handle.cancel()
        await asyncio.wait_for(endless.cancelled.wait(), WAIT_S)
        assert (await handle.result(timeout=WAIT_S)).outcome == outcomes.Cancelled()
    dead = await letter(troupe)
    assert (dead.job_id, dead.reason) == (handle.job_id, "cancelled")
    assert dead.agent is not None
    (this,) = dead.agent.execution.rounds
    (made,) = this.calls
    # It was begun, and what it did is not known: that must not read as if nothing had happened.
    assert made.result is not None
    assert made.result.status == "unknown"


async def test_while_the_model_answers_its_request_is_aborted(troupe: Troupe) -> None:
    worker = await troupe.worker(script(lambda _n, _p: answer("word " * 400)), chunk=1, step_s=0.05)
    await troupe.agents([Endless().tool])
    async with Producer(troupe.url, namespace=troupe.namespace) as producer:
        handle = await producer.publish(job(tools=("work",)))
        await under_way(worker, 1)
        assert await handle.cancel()
        await under_way(worker, 0)
        result = await handle.result(timeout=WAIT_S)
    assert result.outcome == outcomes.Cancelled()


async def test_before_it_is_begun_no_round_is_made(troupe: Troupe) -> None:
    async with Producer(troupe.url, namespace=troupe.namespace) as producer:
        handle = await producer.publish(job(tools=("work",)))
        assert await handle.cancel()
        assert (await handle.result(timeout=WAIT_S)).outcome == outcomes.Cancelled()
        endless = Endless()
        await troupe.worker(script(play))
        await troupe.agents([endless.tool])
        dead = await letter(troupe)
    assert (dead.job_id, dead.reason) == (handle.job_id, "cancelled")
    assert not endless.begun.is_set()


async def test_while_it_waits_for_room(troupe: Troupe) -> None:
    endless = Endless()
    await troupe.worker(script(play))
    await troupe.agents([endless.tool], agent_slots=1, drain_grace_s=0.1)
    async with Producer(troupe.url, namespace=troupe.namespace) as producer:
        await producer.publish(job(tools=("work",)))
        await asyncio.wait_for(endless.begun.wait(), WAIT_S)
        waits = await producer.publish(job(tools=("work",)))
        assert await waits.cancel()
        dead = await letter(troupe)
    assert (dead.job_id, dead.reason) == (waits.job_id, "cancelled")
    assert not endless.cancelled.is_set()


async def test_while_it_waits_for_a_person(troupe: Troupe) -> None:
    endless = Endless(approval=True)
    await troupe.worker(script(play))
    await troupe.agents([endless.tool])
    async with Producer(troupe.url, namespace=troupe.namespace) as producer:
        handle = await producer.publish(job(tools=("work",)))
        async for event in handle.events():
            if event.kind == "approval_wanted":
                break
        assert await handle.cancel()
        dead = await letter(troupe)
        assert (await handle.result(timeout=WAIT_S)).outcome == outcomes.Cancelled()
    assert dead.reason == "cancelled"
    assert not endless.begun.is_set()
