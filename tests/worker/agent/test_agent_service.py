"""The agent service itself: drained, cut off from the broker, and given what it can't read."""

import asyncio
import dataclasses
import logging
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.producer import Producer
from sluicegate.producer.confirms import ConfirmedPublisher
from sluicegate.schemas import Budget, DeadLetter, Reason, decode, encode
from sluicegate.schemas import results as outcomes
from sluicegate.schemas.topology import DELIVERY_LIMIT
from sluicegate.worker.agent import rounds
from sluicegate.worker.agent.generation import generator
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


async def never(_: object) -> bool:
    return True


async def test_jobs_that_wait_for_room_do_not_hold_up_the_end(
    troupe: Troupe, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluicegate.worker.agent.service._Crowd.__call__", never)
    service = await troupe.agents([], drain_grace_s=10 * WAIT_S)
    publisher = ConfirmedPublisher(desk.connection)
    for _ in range(3):
        await publisher.publish(
            desk.names.jobs,
            desk.names.new_agents_key,
            encode(job()),
            kind="agent_job",
            correlation_id=None,
            timeout_s=WAIT_S,
        )
    await publisher.close()
    async with asyncio.timeout(WAIT_S):
        while await desk.depth(desk.names.new_agents) > 1:
            await asyncio.sleep(0.02)
    await troupe.end(service)
    assert await desk.depth(desk.names.new_agents) == 3


async def test_a_job_that_waits_long_for_room_is_not_given_up(
    troupe: Troupe,
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It goes back again and again, and not only as often as the broker allows."""
    caplog.set_level(logging.INFO)

    async def crowded(_: object) -> bool:
        return caplog.text.count("no room within") < DELIVERY_LIMIT + 2

    monkeypatch.setattr("sluicegate.worker.agent.service._ROOM_SHARE", 1.5e-4)
    monkeypatch.setattr("sluicegate.worker.agent.service._Crowd.__call__", crowded)
    await troupe.worker(script(play))
    await troupe.agents([Slow(0).tool])
    assert (await troupe.result(job(tools=("work",)), 90)).ok
    assert caplog.text.count("no room within") >= DELIVERY_LIMIT + 2
    assert await desk.depth(desk.names.dead) == 0


def too_late(number: int, prompt: str) -> str:
    return answer("too late")


async def test_answers_that_come_too_late_are_not_kept_for_ever(
    troupe: Troupe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluicegate.worker.agent.generation.LATE_KEPT", 2)
    made: list[Producer] = []

    def remember(*args: Any, **settings: Any) -> Producer:
        made.append(generator(*args, **settings))
        return made[-1]

    monkeypatch.setattr("sluicegate.worker.agent.service.generator", remember)
    await troupe.agents([])
    async with asyncio.TaskGroup() as group:
        for _ in range(6):
            group.create_task(troupe.result(job(budget=Budget(wall_s=2.0))))
    await troupe.worker(script(too_late))
    ledger = cast("Any", made[0])._parts.inbox.ledger
    async with asyncio.timeout(WAIT_S):
        while ledger.held + ledger.discarded < 6:
            await asyncio.sleep(0.02)
    assert ledger.held == 2


class Holding(Slow):
    """Keeps something for each job, until it is told to let go."""

    def __init__(self, seconds: float) -> None:
        self.released: list[str] = []
        super().__init__(seconds)
        self.tool = dataclasses.replace(self.tool, release=self.let_go)

    async def let_go(self, job_id: str) -> None:
        self.released.append(job_id)


async def test_tools_let_go_of_a_job_wherever_they_ran_for_it(troupe: Troupe) -> None:
    first, second = Holding(0.5), Holding(0)
    await troupe.worker(script(play))
    one = await troupe.agents([first.tool])
    this = job(tools=("work",))
    async with asyncio.TaskGroup() as group:
        result = group.create_task(troupe.result(this))
        await begun(first)
        await troupe.end(one)
        assert first.released == [this.id]
        await troupe.agents([second.tool])
    assert result.result().ok
    assert (first.ended, second.begun) == (1, 0)
    async with asyncio.timeout(WAIT_S):
        while second.released != [this.id]:
            await asyncio.sleep(0.01)
