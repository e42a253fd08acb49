"""The clock decides, on a real broker: what waited too long is timed out, once, whoever sweeps."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest
from aio_pika.abc import AbstractRobustConnection
from msgspec import structs
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.producer.connection import close, close_channel, connect, open_channel
from sluicegate.producer.look import SomebodyLooks
from sluicegate.producer.tasks import end
from sluicegate.schemas import DeadLetter, Names, Reason, decode, encode
from sluicegate.schemas.agents import AgentContext
from sluicegate.schemas.limits import MAX_CONTEXT_BYTES
from sluicegate.worker.agent import sweeper as module
from sluicegate.worker.agent.approval_queue import in_hand
from sluicegate.worker.agent.approvals import Decided, NotWaiting, TimedOut, decide, list_waiting
from sluicegate.worker.agent.sweeper import Sweeper

from .waiting_jobs import (
    LIMIT_S,
    call,
    context,
    contexts,
    everywhere,
    many,
    now,
    publish,
    ready,
    states,
    taken,
    until,
)

pytestmark = pytest.mark.broker


@asynccontextmanager
async def sweeping(*sweepers: Sweeper) -> AsyncGenerator[None]:
    tasks = [asyncio.create_task(each.run()) for each in sweepers]
    try:
        yield
    finally:
        for task in tasks:
            await end(task)
    assert all(task.cancelled() for task in tasks)


def over(job_id: str) -> AgentContext:
    return context(job_id, call(f"{job_id}:2:a", -1.0))


class TestSweeping:
    async def test_what_is_over_goes_on_and_nothing_else(
        self, connection: AbstractRobustConnection, names: Names
    ) -> None:
        part = context("part", call("part:2:a", -1.0), call("part:2:b"))
        given = [context("stays"), over("goes"), part]
        await publish(connection, names.approvals, given)
        told: list[AgentContext] = []
        assert await Sweeper(connection, names, on_moved=told.append).sweep() == 2
        waits, goes = await everywhere(connection, names)
        assert told == [*goes, waits[1]]
        assert waits[0] == given[0]
        assert [(each.id, each.revision, states(each)) for each in [*goes, waits[1]]] == [
            ("goes", 8, ["timed_out"]),
            ("part", 8, ["timed_out", "waiting"]),
        ]
        assert goes[0].orchestration.phase == "calling"
        assert goes[0].orchestration.spent.waited_s >= 70
        assert waits[1].orchestration == part.orchestration

    async def test_it_looks_only_where_there_is_a_reason(
        self,
        connection: AbstractRobustConnection,
        names: Names,
        broker_url: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        looks = 0

        def counted(*arguments: object, **more: object) -> object:
            nonlocal looks
            looks += 1
            return in_hand(*arguments, **more)  # pyright: ignore[reportArgumentType]

        monkeypatch.setattr(module, "in_hand", counted)
        monkeypatch.setattr(module, "_REST", 0.0)
        sweeper = Sweeper(connection, names)
        assert [await sweeper.sweep() for _ in range(3)] == [0] * 3
        assert looks == 0
        await publish(connection, names.approvals, many(3))
        assert [await sweeper.sweep() for _ in range(3)] == [0] * 3
        assert looks == 1
        await publish(connection, names.approvals, [context("soon", call("soon:2:a", 1.0))])
        await sweeper.sweep()
        assert looks == 2
        async with asyncio.timeout(LIMIT_S):
            while not await sweeper.sweep():
                await asyncio.sleep(0.05)
        assert looks == 3
        await decide(broker_url, names, "job-0001", "approved")
        await sweeper.sweep()
        assert looks == 3 + 1  # shorter: it learns what is left
        monkeypatch.setattr(module, "_BLIND_S", 0.0)
        await sweeper.sweep()
        assert looks == 3 + 2

    async def test_what_it_knows_is_not_read_again(
        self,
        connection: AbstractRobustConnection,
        names: Names,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        read: list[bytes] = []
        whole = module.read

        def counted(message: "module.DeliveredMessage") -> "module.Seen":
            read.append(message.body)
            return whole(message)

        monkeypatch.setattr(module, "read", counted)
        monkeypatch.setattr(module, "_REST", 0.0)
        sweeper = Sweeper(connection, names)
        first, second = many(2), many(1, start=2)
        await publish(connection, names.approvals, first)
        await sweeper.sweep()
        await publish(connection, names.approvals, second)
        await sweeper.sweep()
        assert read == [encode(each) for each in [*first, *second]]

    async def test_a_sweep_is_bounded_and_the_next_goes_on(
        self,
        connection: AbstractRobustConnection,
        names: Names,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(module, "_MOST_MOVED", 20)
        monkeypatch.setattr(module, "_REST", 0.0)
        given = [over(f"job-{n:02d}") for n in range(50)]
        await publish(connection, names.approvals, given)
        sweeper = Sweeper(connection, names)
        assert [await sweeper.sweep() for _ in range(4)] == [20, 20, 10, 0]
        goes = await contexts(connection, names.agents)
        assert [each.id for each in goes] == [each.id for each in given]

    async def test_it_rests_after_a_look(
        self,
        connection: AbstractRobustConnection,
        names: Names,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(module, "_REST", 1e9)
        sweeper = Sweeper(connection, names)
        await publish(connection, names.approvals, many(1))
        await sweeper.sweep()
        await publish(connection, names.approvals, [over("later")])
        assert await sweeper.sweep() == 0
        assert await ready(connection, names.agents) == 0
        assert await Sweeper(connection, names).sweep() == 1

    async def test_one_that_waits_for_nobody_goes_on(
        self, connection: AbstractRobustConnection, names: Names
    ) -> None:
        await publish(connection, names.approvals, [context("job-1", call("job-1:2:a", None))])
        await Sweeper(connection, names).sweep()
        waits, goes = await everywhere(connection, names)
        assert (waits, [each.orchestration.phase for each in goes]) == ([], ["calling"])

    async def test_what_cannot_be_read_is_buried(
        self, connection: AbstractRobustConnection, names: Names
    ) -> None:
        await publish(connection, names.approvals, [b"{", over("job-1"), context("stays")])
        sweeper = Sweeper(connection, names, worker="w-1", versions={"sluicegate": "1"})
        assert await sweeper.sweep() == 1
        waits, goes = await everywhere(connection, names)
        assert ([each.id for each in waits], [each.id for each in goes]) == (["stays"], ["job-1"])
        (letter,) = [decode(body, DeadLetter) for body in await taken(connection, names.dead)]
        assert (letter.reason, letter.raw_body) == (Reason.MALFORMED_JSON, b"{")
        assert (letter.origin.worker, letter.origin.stage) == ("w-1", "agent")
        assert letter.versions == {"sluicegate": "1"}

    async def test_one_that_its_answer_makes_too_long_is_buried(
        self, connection: AbstractRobustConnection, names: Names
    ) -> None:
        given = over("job-1")
        first, second = given.execution.rounds
        long = [structs.replace(first, number=n, said="x" * 20_000) for n in range(150)]
        execution = structs.replace(given.execution, rounds=(*long, second))
        given = structs.replace(given, execution=execution)
        room = MAX_CONTEXT_BYTES - len(encode(given))
        job = structs.replace(given.job, task="x" * (room + len(given.job.task)))
        given = structs.replace(given, job=job)
        assert len(encode(given)) == MAX_CONTEXT_BYTES
        await publish(connection, names.approvals, [given, over("job-2")])
        assert await Sweeper(connection, names).sweep() == 1
        await until(connection, names.dead, 2)
        letters = await taken(connection, names.dead)
        assert decode(min(letters, key=len), DeadLetter).reason is Reason.TOO_LARGE
        assert decode(max(letters, key=len), AgentContext) == given


class TestRunning:
    async def test_two_sweep_and_each_is_moved_once(
        self, connection: AbstractRobustConnection, names: Names, broker_url: str
    ) -> None:
        other = await connect(broker_url, timeout_s=LIMIT_S, name="another service")
        told: list[AgentContext] = []
        sweepers = [
            Sweeper(each, names, every_s=0.02, on_moved=told.append)
            for each in (connection, other, connection)
        ]
        count = 30
        async with sweeping(*sweepers):
            for number in range(count):
                await publish(connection, names.approvals, [over(f"job-{number:02d}")])
            await until(connection, names.agents, count)
            await until(connection, names.approvals, 0)
        waits, goes = await everywhere(connection, names)
        assert waits == []
        assert sorted(each.id for each in goes) == [f"job-{n:02d}" for n in range(count)]
        assert sorted(each.id for each in told) == sorted(each.id for each in goes)
        await close(other)

    async def test_a_person_at_the_moment_it_is_over(
        self, connection: AbstractRobustConnection, names: Names, broker_url: str
    ) -> None:
        """Approved, or timed out: never both, and never neither."""
        count = 10
        ends: dict[str, object] = {}
        async with sweeping(Sweeper(connection, names, every_s=0.02)):
            for number in range(count):
                job_id = f"job-{number}"
                given = context(job_id, call(f"{job_id}:2:a", 0.3))
                await publish(connection, names.approvals, [given])
                await asyncio.sleep(0.04 * number)  # from well before to just after
                try:
                    ends[job_id] = await decide(broker_url, names, job_id, "approved")
                except (TimedOut, NotWaiting, SomebodyLooks) as error:
                    ends[job_id] = error
            await until(connection, names.agents, count)
        waits, goes = await everywhere(connection, names)
        assert (waits, len(goes)) == ([], count)
        for each in goes:
            won = isinstance(ends[each.id], Decided)
            assert (each.revision, states(each)) == (8, ["approved" if won else "timed_out"])
        assert not isinstance(ends[f"job-{count - 1}"], Decided)

    async def test_somebody_who_looks_holds_it_up_only_as_long(
        self, connection: AbstractRobustConnection, names: Names, broker_url: str
    ) -> None:
        await publish(connection, names.approvals, [over("job-1")])
        sweeper = Sweeper(connection, names, every_s=0.02)
        async with in_hand(broker_url, names, timeout_s=LIMIT_S):
            with pytest.raises(SomebodyLooks):
                await sweeper.sweep()
            async with sweeping(sweeper):
                await asyncio.sleep(0.1)
            assert await ready(connection, names.agents) == 0
        async with sweeping(sweeper):
            await until(connection, names.agents, 1)

    async def test_cancelled_at_any_moment_each_job_is_there_once(
        self, connection: AbstractRobustConnection, names: Names
    ) -> None:
        given = [over(f"job-{n:02d}") for n in range(12)]
        await publish(connection, names.approvals, given)
        for number in range(12):
            task = asyncio.create_task(Sweeper(connection, names).sweep())
            await asyncio.sleep(0.012 * number)
            await end(task)
        async with sweeping(Sweeper(connection, names, every_s=0.02)):
            await until(connection, names.agents, len(given))
        waits, goes = await everywhere(connection, names)
        assert (waits, sorted(each.id for each in goes)) == ([], [each.id for each in given])

    async def test_no_queue_then_one(
        self, connection: AbstractRobustConnection, names: Names, caplog: pytest.LogCaptureFixture
    ) -> None:
        bare = Names(f"{names.namespace}.bare")
        channel = await open_channel(connection, timeout_s=LIMIT_S)
        async with sweeping(Sweeper(connection, bare, every_s=0.01)):
            await said(caplog, lambda text: "missing on the broker" in text)
            await asyncio.sleep(0.1)
            assert caplog.text.count("missing on the broker") == 1
            await channel.exchange_declare(bare.jobs, durable=True)
            for queue in (bare.agents, bare.approvals):
                await channel.queue_declare(
                    queue, durable=True, arguments={"x-queue-type": "quorum"}
                )
            await publish(connection, bare.approvals, [over("job-1")])
            await until(connection, bare.agents, 1)
        for queue in (bare.agents, bare.approvals):
            await channel.queue_delete(queue)
        await channel.exchange_delete(bare.jobs)
        await close_channel(channel)

    async def test_a_broker_that_goes_and_comes_back(
        self,
        killable_broker: PrivateBroker,
        killable_namespace: str,
    ) -> None:
        names = Names(killable_namespace)
        made = await connect(killable_broker.url, timeout_s=LIMIT_S, name="sweeper tests")
        given = [context("stays"), context("goes", call("goes:2:a", 6.0))]
        await publish(made, names.approvals, given)
        async with sweeping(Sweeper(made, names, every_s=0.1)):
            await killable_broker.kill()
            assert now() < given[1].execution.rounds[-1].calls[0].approval.expires_at  # pyright: ignore[reportOptionalMemberAccess]
            await killable_broker.start()
            other = await connect(killable_broker.url, timeout_s=LIMIT_S, name="sweeper tests")
            await until(other, names.agents, 1)
        found = await list_waiting(killable_broker.url, names)
        assert [job.job_id for job in found.jobs] == ["stays"]
        (after,) = await contexts(other, names.agents)
        assert (after.id, states(after)) == ("goes", ["timed_out"])
        await close(other)
        await close(made)


async def said(caplog: pytest.LogCaptureFixture, wanted: Callable[[str], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not wanted(caplog.text):
            await asyncio.sleep(0.01)
