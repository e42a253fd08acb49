"""Looking at the queue of dead letters on a real broker: nothing is changed by it, ever."""

import asyncio
import sys
import textwrap
import tracemalloc
from contextlib import aclosing

import pytest
from aio_pika.abc import AbstractRobustConnection
from aiormq.abc import DeliveredMessage
from msgspec import structs
from pamqp.commands import Basic
from sluicegate.ops import dlq_queue
from sluicegate.ops.dlq_letter import Letter
from sluicegate.ops.dlq_queue import LookLost, SomebodyLooks, looking
from sluicegate.producer.connection import close_channel, open_channel
from sluicegate.producer.errors import BrokerUnreachable, TopologyMissing
from sluicegate.schemas import GenerationJob, Names, encode
from sluicegate.worker.config import Config

from ..producer.proxy import proxied
from .dlq_letters import LIMIT_S, bury, candidate, drained, job, ready, rejected

pytestmark = pytest.mark.broker


async def seen(config: Config, most: int | None = None) -> list[Letter]:
    found: list[Letter] = []
    async with looking(config) as look, aclosing(look.letters()) as letters:
        async for dead in letters:
            found.append(dead.letter)
            if len(found) == most:
                break
    return found


def jobs(letters: list[Letter]) -> list[str | None]:
    return [letter.head.job_id for letter in letters]


def numbered(count: int) -> list[GenerationJob]:
    return [job(f"job-{number:05d}") for number in range(count)]


class TestLooking:
    async def test_a_hundred_looks_change_nothing(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        bodies = [encode(rejected(f"job-{number:05d}")) for number in range(30)] + [b"\xff?"]
        await bury(connection, names, bodies)
        first = await seen(config)
        for number in range(99):
            await seen(config, most=None if number % 10 == 0 else number % 31 + 1)
        last = await seen(config)
        assert [each.head.id for each in first] == [each.head.id for each in last]
        assert await drained(connection, [names.dead]) == bodies

    async def test_parts_and_wholes_of_a_long_queue_keep_its_order(
        self,
        connection: AbstractRobustConnection,
        config: Config,
        names: Names,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        asked = numbered(2000)
        await bury(connection, names, asked)
        monkeypatch.setattr(dlq_queue, "LARGEST_PREFETCH", 125)  # 16, as for a million
        wanted = [each.id for each in asked]
        assert jobs(await seen(config)) == wanted
        for part in (1, 125, 126, 1234):
            assert jobs(await seen(config, most=part)) == wanted[:part]
        assert jobs(await seen(config)) == wanted

    async def test_what_comes_meanwhile_is_for_the_next_look(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        asked = numbered(5)
        await bury(connection, names, asked[:3])
        async with looking(config) as look:
            await bury(connection, names, asked[3:])
            found = [dead.letter.head.job_id async for dead in look.letters()]
        assert found == [each.id for each in asked[:3]]
        assert jobs(await seen(config)) == [each.id for each in asked]

    async def test_many_are_never_all_in_memory(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        long = b"x" * 20_000
        await bury(connection, names, (b"%d %s" % (number, long) for number in range(1000)))
        tracemalloc.start()
        try:
            count = 0
            async with looking(config) as look:
                async for _ in look.letters():
                    count += 1
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert count == 1000
        assert peak < 8_000_000  # of 20 MB

    async def test_an_empty_queue(self, config: Config) -> None:
        assert await seen(config) == []

    async def test_a_look_that_misses_some_is_none(
        self,
        connection: AbstractRobustConnection,
        config: Config,
        names: Names,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        await bury(connection, names, numbered(5))
        monkeypatch.setattr(dlq_queue, "_IDLE_S", 0.2)
        monkeypatch.setattr(dlq_queue, "_MOST_IDLE_S", 0.4)
        async with looking(config) as look:
            channel = await open_channel(connection, timeout_s=LIMIT_S)
            await channel.queue_purge(names.dead)
            await close_channel(channel)
            with pytest.raises(LookLost, match="had 5 messages, 5 of them"):
                assert [dead async for dead in look.letters()]

    async def test_an_error_in_the_middle_puts_all_back(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        await bury(connection, names, numbered(20))

        async def fail() -> None:
            async with looking(config) as look, aclosing(look.letters()) as letters:
                async for dead in letters:
                    _ = 1 / (7 - dead.letter.head.position)

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert jobs(await seen(config)) == [each.id for each in numbered(20)]

    @pytest.mark.parametrize("read", [1, 1100])
    async def test_killed_in_the_middle(
        self, connection: AbstractRobustConnection, config: Config, names: Names, read: int
    ) -> None:
        asked = numbered(1500)
        await bury(connection, names, asked)
        await seen(config)  # what was put back once is queued another way
        program = textwrap.dedent("""
            import asyncio, sys
            from sluicegate.ops.dlq_queue import looking
            from sluicegate.worker.config import Config

            async def main():
                async with looking(Config(amqp_url=sys.argv[1], namespace=sys.argv[2])) as look:
                    async for dead in look.letters():
                        if dead.letter.head.position == int(sys.argv[3]):
                            print("holding", flush=True)
                            await asyncio.sleep(60)

            asyncio.run(main())
        """)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program, config.amqp_url, config.namespace, str(read)),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"holding\n"
        assert await ready(connection, names.dead) == 0
        process.kill()
        await process.wait()
        assert jobs(await seen(config)) == [each.id for each in asked]


class TestTwo:
    async def test_the_second_is_told(
        self,
        connection: AbstractRobustConnection,
        config: Config,
        names: Names,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        await bury(connection, names, numbered(3))
        monkeypatch.setattr(dlq_queue, "LOCK_WAIT_S", 0.3)
        async with looking(config) as look:
            assert len([dead async for dead in look.letters()]) == 3
            with pytest.raises(SomebodyLooks, match="somebody else"):
                await seen(config)
        assert len(await seen(config)) == 3

    async def test_another_kind_of_consumer(
        self,
        connection: AbstractRobustConnection,
        config: Config,
        names: Names,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(dlq_queue, "LOCK_WAIT_S", 0.3)
        channel = await open_channel(connection, timeout_s=LIMIT_S)

        async def hold(_: object) -> None:
            """Never settled."""

        await channel.basic_consume(names.dead, hold)
        with pytest.raises(SomebodyLooks, match="no `sluice dlq`"):
            await seen(config)
        await close_channel(channel)
        assert await seen(config) == []

    async def test_one_after_the_other(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        await bury(connection, names, numbered(300))
        looks = await asyncio.gather(*(seen(config) for _ in range(4)))
        assert [len(each) for each in looks] == [300] * 4


class TestTrouble:
    async def test_no_queue(self, broker_url: str, bare_namespace: str) -> None:
        with pytest.raises(TopologyMissing, match="dead"):
            await seen(Config(amqp_url=broker_url, namespace=bare_namespace))

    async def test_no_broker(self) -> None:
        with pytest.raises(BrokerUnreachable):
            await seen(Config(amqp_url="amqp://127.0.0.1:1/", connect_timeout_s=2))

    async def test_a_lost_connection(
        self,
        connection: AbstractRobustConnection,
        config: Config,
        names: Names,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(dlq_queue, "_IDLE_S", 0.2)
        asked = [b"%05d %s" % (number, b"x" * 10_000) for number in range(2000)]
        await bury(connection, names, asked)

        async def cut() -> None:
            async with proxied(config.amqp_url) as proxy:
                through = structs.replace(config, amqp_url=proxy.url)
                async with looking(through) as look:
                    async for dead in look.letters():
                        if dead.letter.head.position == 300:
                            await proxy.stop()

        with pytest.raises(BrokerUnreachable, match="in the middle of a look"):
            await cut()
        assert [each.body for each in await seen(config)] == asked


class TestEveryKind:
    async def test_what_the_broker_buries(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        queue = names.jobs_queue("interactive")
        channel = await open_channel(connection, confirms=True, timeout_s=LIMIT_S)

        async def publish(exchange: str, key: str, body: bytes, expiration: str | None) -> None:
            await channel.basic_publish(
                body,
                exchange=exchange,
                routing_key=key,
                properties=channel_properties(expiration),
                mandatory=True,
            )

        await publish(names.jobs, "jobs.interactive", encode(job("expires")), "1")
        async with asyncio.timeout(LIMIT_S):
            while await ready(connection, names.dead) < 1:
                await asyncio.sleep(0.05)
        await publish(names.jobs, "jobs.interactive", encode(job("kills")), None)
        await publish(names.jobs, "checks", encode(candidate("refused")), None)
        await publish(names.jobs, "jobs.interactive", b"no json", None)
        refused = 0

        async def refuse(message: DeliveredMessage) -> None:
            nonlocal refused
            refused += 1
            await consumer.basic_reject(message.delivery_tag or 0, requeue=b"kills" in message.body)

        consumer = await open_channel(connection, timeout_s=LIMIT_S)
        await consumer.basic_qos(prefetch_count=1)
        for each in (queue, names.checks):
            await consumer.basic_consume(each, refuse)
        async with asyncio.timeout(LIMIT_S):
            while await ready(connection, names.dead) < 4:
                await asyncio.sleep(0.05)
        await close_channel(consumer)
        await close_channel(channel)
        assert refused == 8
        heads = {each.head.job_id: each.head for each in await seen(config)}
        assert {job_id: (head.reason, head.kind) for job_id, head in heads.items()} == {
            "expires": ("expired", "job"),
            "kills": ("delivery_limit", "job"),
            "refused": ("rejected", "candidate"),
            None: ("rejected", "raw"),
        }
        assert queue in heads["kills"].sentence
        assert all(head.at is not None for head in heads.values())
        again = {each.head.job_id: each.head.id for each in await seen(config)}
        assert again == {job_id: head.id for job_id, head in heads.items()}


def channel_properties(expiration: str | None) -> Basic.Properties:
    return Basic.Properties(delivery_mode=2, expiration=expiration)
