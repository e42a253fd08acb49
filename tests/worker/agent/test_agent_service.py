"""The agent service itself: drained, cut off from the broker, and given what it can't read."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.producer.confirms import ConfirmedPublisher
from sluicegate.schemas import AgentContext, DeadLetter, Reason, decode, encode
from sluicegate.schemas import results as outcomes
from sluicegate.worker.agent import rounds
from sluicegate.worker.agent.service import Orchestrator
from sluicegate.worker.config import ConfigError
from sluicegate.worker.frame import ExitCode
from sluicegate.worker.tools.registry import Registry
from sluicegate.worker.tools.tool import Tool, tool

from ..conftest import Desk
from .troupe import WAIT_S, Troupe, answer, call, job, script

pytestmark = pytest.mark.broker


class Slow:
    """A tool that takes a while, and counts how often it was begun and ended."""

    def __init__(self, seconds: float) -> None:
        self.begun = 0
        self.ended = 0

        @tool(idempotent=True)
        async def work() -> str:
            """Work a while."""
            self.begun += 1
            await asyncio.sleep(seconds)
            self.ended += 1
            return "worked"

        self.tool: Tool = work


def play(number: int, prompt: str) -> str:
    return call("work") if number == 1 else answer("it is done")


async def begun(slow: Slow) -> None:
    async with asyncio.timeout(WAIT_S):
        while not slow.begun:
            await asyncio.sleep(0.01)


async def test_a_drained_service_ends_its_step_and_another_goes_on(troupe: Troupe) -> None:
    slow = Slow(0.5)
    await troupe.worker(script(play))
    first = await troupe.agents([slow.tool])
    async with asyncio.TaskGroup() as group:
        result = group.create_task(troupe.result(job(tools=("work",))))
        await begun(slow)
        await troupe.end(first)
        assert slow.ended == 1
        await troupe.agents([slow.tool])
    assert result.result().ok
    assert slow.begun == 1


async def test_a_step_that_takes_too_long_goes_back_as_it_was(troupe: Troupe) -> None:
    slow, quick = Slow(30), Slow(0)
    await troupe.worker(script(play))
    first = await troupe.agents([slow.tool], drain_grace_s=0.1)
    async with asyncio.TaskGroup() as group:
        result = group.create_task(troupe.result(job(tools=("work",))))
        await begun(slow)
        await troupe.end(first)
        assert (slow.begun, slow.ended) == (1, 0)
        await troupe.agents([quick.tool])
    assert result.result().ok
    assert quick.ended == 1


async def test_a_job_outlives_the_broker(
    killable_broker: PrivateBroker, killable_namespace: str, troupe: Troupe
) -> None:
    config = msgspec.structs.replace(
        troupe.config, amqp_url=killable_broker.url, namespace=killable_namespace
    )
    there = Troupe(killable_broker.url, killable_namespace, config)
    slow = Slow(6.0)
    await there.worker(script(play))
    await there.agents([slow.tool])
    try:
        async with asyncio.TaskGroup() as group:
            result = group.create_task(there.result(job(tools=("work",)), 120))
            await begun(slow)
            # A stream that was declared within the last second or so does not outlive its node.
            await asyncio.sleep(3)
            await killable_broker.kill()
            await asyncio.sleep(0.5)
            await killable_broker.start()
        assert result.result().ok
        # The step went on meanwhile, and its result was not lost.
        assert slow.begun == 1
    finally:
        await there.stop()


@pytest.mark.parametrize("queue", ["agents", "new_agents"])
async def test_what_can_not_be_read_goes_to_the_dead_letters(
    troupe: Troupe, desk: Desk, queue: str
) -> None:
    await troupe.agents([])
    key = desk.names.agents_key if queue == "agents" else desk.names.new_agents_key
    for body in (b"no json", b'{"type": "agent_job", "id": "x1"}', b"[" * 10_000):
        publisher = ConfirmedPublisher(desk.connection)
        await publisher.publish(
            desk.names.jobs, key, body, kind="x", correlation_id=None, timeout_s=WAIT_S
        )
        letter = decode(await desk.take(desk.names.dead), DeadLetter)
        assert letter.raw_body == body
        assert letter.origin.queue == getattr(desk.names, queue)
        await publisher.close()
    assert await desk.depth(getattr(desk.names, queue)) == 0


async def test_a_job_whose_deadline_is_over_is_not_begun(troupe: Troupe, desk: Desk) -> None:
    await troupe.agents([])
    result = await troupe.result(job(deadline=datetime.now(UTC) - timedelta(seconds=1)))
    assert isinstance(result.outcome, outcomes.Expired)
    letter = await desk.dead()
    assert letter.reason is Reason.DEADLINE_PASSED
    assert letter.agent is not None


async def test_a_context_that_is_behind_is_dropped(troupe: Troupe, desk: Desk) -> None:
    """The broker may die between the halves of a transaction."""
    slow = Slow(2)
    await troupe.worker(script(play))
    await troupe.agents([slow.tool])
    this = job(tools=("work",))
    async with asyncio.TaskGroup() as group:
        result = group.create_task(troupe.result(this))
        await begun(slow)
        old = rounds.begun(this, datetime.now(UTC), "a0")
        publisher = ConfirmedPublisher(desk.connection)
        await publisher.publish(
            desk.names.jobs,
            desk.names.agents_key,
            encode(old),
            kind="agent_context",
            correlation_id=None,
            timeout_s=WAIT_S,
        )
        await publisher.close()
    assert result.result().ok
    assert slow.begun == 1
    assert await desk.depth(desk.names.agents) == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"agent_step_timeout_s": 900.0}, "consumer_timeout_s"),
        ({"agent_fold_after": 5, "agent_keep_rounds": 5}, "agent_keep_rounds"),
        ({"agent_step_timeout_s": 10.0}, "tool work may take 30 s"),
        ({"watchdog_file": "/nowhere/watchdog.toml"}, "watchdog_file"),
    ],
)
async def test_settings_that_can_not_work_are_refused(
    troupe: Troupe, settings: dict[str, Any], said: str
) -> None:
    config = msgspec.structs.replace(troupe.config, **settings)
    with pytest.raises(ConfigError, match=said):
        Orchestrator(config, Registry([Slow(0).tool]))


async def test_stopped_before_it_is_ready_it_ends_well(troupe: Troupe) -> None:
    service = Orchestrator(troupe.config, Registry([]))
    running = asyncio.create_task(service.run())
    service.stop()
    async with asyncio.timeout(WAIT_S):
        assert await running is ExitCode.OK


async def test_a_step_that_breaks_ends_in_the_dead_letters(
    troupe: Troupe, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of ours is one job's, and the broker gives that up in the end."""

    def breaks(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug where nobody reckons with one")

    monkeypatch.setattr("sluicegate.worker.agent.calling.judged", breaks)
    await troupe.worker(script(play))
    await troupe.agents([Slow(0).tool])
    this = job(tools=("work",))
    publisher = ConfirmedPublisher(desk.connection)
    await publisher.publish(
        desk.names.jobs,
        desk.names.new_agents_key,
        encode(this),
        kind="agent_job",
        correlation_id=this.id,
        timeout_s=WAIT_S,
    )
    body = await desk.take(desk.names.dead)
    await publisher.close()
    assert decode(body, AgentContext).id == this.id
