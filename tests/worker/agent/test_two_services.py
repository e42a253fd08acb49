"""Two agent services on one queue, of which one loses a job without knowing it yet."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from sluicegate.producer.confirms import ConfirmedPublisher
from sluicegate.producer.connection import close, connect
from sluicegate.producer.errors import BrokerUnreachable
from sluicegate.schemas import GenerationResult, Sampling, ToolCall, ToolStatus
from sluicegate.schemas import results as outcomes
from sluicegate.schemas.agents import Closed, Dispatched, Ended, Entry
from sluicegate.worker.agent.journal import Journal
from sluicegate.worker.tools.context import ToolContext
from sluicegate.worker.tools.tool import Tool, tool

from ...producer.proxy import proxied
from ..conftest import Desk
from .troupe import WAIT_S, Troupe, answer, call, calls, job, script

pytestmark = pytest.mark.broker

MANY = Sampling(max_tokens=20_000)


class Till:
    """A tool with an effect that must not happen twice, for each of two services."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.paid: list[tuple[str, str]] = []

    def of(self, service: str) -> Tool:
        @tool(timeout_s=30)
        async def pay(n: int, context: ToolContext) -> str:
            """Pay."""
            del n
            self.paid.append((context.effect_id, service))
            await asyncio.sleep(self.seconds)
            return "paid"

        return pay

    async def until_paid(self, times: int) -> None:
        async with asyncio.timeout(WAIT_S):
            while len(self.paid) < times:
                await asyncio.sleep(0.01)

    @property
    def twice(self) -> list[str]:
        return [effect for effect, n in Counter(one for one, _ in self.paid).items() if n > 1]


async def ends(troupe: Troupe, job_id: str) -> list[Ended]:
    return [e.entry for e in await troupe.journal(job_id) if isinstance(e.entry, Ended)]


async def test_who_is_cut_off_begins_no_further_call(troupe: Troupe) -> None:
    till = Till(1.0)

    def play(number: int, prompt: str) -> str:
        wanted = (("pay", {"n": index}) for index in range(24))
        return calls(*wanted) if number == 1 else answer("all paid")

    await troupe.worker(script(play))
    async with proxied(troupe.url) as proxy, asyncio.TaskGroup() as group:
        await troupe.agents([till.of("a")], amqp_url=proxy.url)
        this = job(tools=("pay",), sampling=MANY)
        result = group.create_task(troupe.result(this, 60))
        await till.until_paid(9)
        await troupe.agents([till.of("b")], worker_id="a2")
        await proxy.stop()
        assert (await result).ok
        await asyncio.sleep(1.5)
    assert not till.twice
    assert {service for _, service in till.paid} == {"a", "b"}
    assert len(await ends(troupe, this.id)) == 1


async def test_a_note_that_can_not_be_written_cancels_no_other_call(
    troupe: Troupe, monkeypatch: pytest.MonkeyPatch
) -> None:
    till = Till(0.5)
    failed: list[Entry] = []
    write = Journal.write

    async def fails_once(self: Journal, job_id: str, entry: Entry) -> None:
        if isinstance(entry, Dispatched) and entry.call.arguments == {"n": 8} and not failed:
            failed.append(entry)
            raise BrokerUnreachable("for a moment")
        await write(self, job_id, entry)

    monkeypatch.setattr(Journal, "write", fails_once)

    def play(number: int, prompt: str) -> str:
        wanted = (("pay", {"n": index}) for index in range(12))
        return calls(*wanted) if number == 1 else answer("all paid")

    this = job(tools=("pay",), sampling=MANY)
    result = await troupe.perform(this, play, [till.of("a")])
    assert failed
    assert result.ok
    assert not till.twice
    assert len(till.paid) == 12
    lines = await troupe.journal(this.id)
    first = next(line.entry.round for line in lines if isinstance(line.entry, Closed))
    assert {one.result.status for one in first.calls if one.result} == {ToolStatus.OK}


async def test_clocks_that_differ_make_no_effect_twice(
    troupe: Troupe, desk: Desk, broker_url: str
) -> None:
    """The round was said by a host whose clock is minutes ahead."""
    connection = await connect(broker_url, timeout_s=WAIT_S, name="tests")
    try:
        journal = Journal(connection, ConfirmedPublisher(connection), desk.names)
        one = ToolCall(id="c", name="pay", effect_id="x:1:1:0")
        await journal.write("x", Dispatched(effect_id=one.effect_id, round=1, call=one))
        past = await journal.calls("x", datetime.now(UTC) + timedelta(minutes=10))
        assert past.may_have("x:1:1:0")
    finally:
        await close(connection)


async def test_a_line_that_can_not_be_read_may_be_of_any_call(desk: Desk, broker_url: str) -> None:
    connection = await connect(broker_url, timeout_s=WAIT_S, name="tests")
    try:
        publisher = ConfirmedPublisher(connection)
        journal = Journal(connection, publisher, desk.names)
        for job_id in ("x", "y"):
            await publisher.publish(
                desk.names.jobs,
                desk.names.journal_key,
                b'{"type": "journal_entry", "schema_version": 99}',
                kind="journal_entry",
                correlation_id=job_id,
                timeout_s=WAIT_S,
            )
        since = datetime.now(UTC)
        assert (await journal.calls("x", since)).may_have("x:1:1:0")
        assert not (await journal.calls("z", since)).may_have("z:1:1:0")
        assert [line async for line in journal.lines()] == []
    finally:
        await close(connection)


def play_once(number: int, prompt: str) -> str:
    return call("pay", n=1) if number == 1 else answer("paid it")


async def test_a_copy_of_a_job_that_is_over_is_answered_and_not_done_again(troupe: Troupe) -> None:
    till = Till()
    await troupe.worker(script(play_once))
    await troupe.agents([till.of("a")])
    this = job(tools=("pay",))
    first = await troupe.result(this)
    # Each time from another reply queue: a publisher that came back without its memory.
    again: list[GenerationResult] = [await troupe.result(this) for _ in range(4)]
    assert first.ok
    assert {each.text for each in again} == {first.text}
    assert len(till.paid) == 1


async def test_a_copy_for_somebody_else_is_told_that_the_job_is_under_way(troupe: Troupe) -> None:
    till = Till(1.5)
    await troupe.worker(script(play_once))
    await troupe.agents([till.of("a")])
    this = job(tools=("pay",))
    async with asyncio.TaskGroup() as group:
        first = group.create_task(troupe.result(this))
        await till.until_paid(1)
        second: Any = await troupe.result(this)
    assert first.result().ok
    assert isinstance(second.outcome, outcomes.Rejected)
    assert "under way" in second.outcome.detail
    assert len(till.paid) == 1


async def test_what_it_comes_to_is_decided_once(troupe: Troupe, desk: Desk) -> None:
    """The context that is to be told is delivered twice: the same result comes twice."""
    till = Till()
    await troupe.worker(script(play_once))
    this = job(tools=("pay",))
    await troupe.agents([till.of("a")])
    result = await troupe.result(this)
    (end,) = await ends(troupe, this.id)
    assert end.context.orchestration.phase == "ending"
    told = end.context.orchestration.ending
    assert told is not None
    assert told.text == result.text
    assert msgspec.json.encode(end.record) == msgspec.json.encode(result.agent)
