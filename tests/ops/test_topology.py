"""What the topology makes a real broker do: jobs wait, come back, die, and are never lost."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import aiormq
import pytest
import pytest_asyncio
from aio_pika.abc import AbstractRobustConnection
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import DeliveryError, PublishError
from msgspec import structs
from pamqp.commands import Basic
from sluicegate.producer import declare
from sluicegate.producer.connection import close, close_channel, connect, open_channel
from sluicegate.schemas import Names, Topology, topology
from sluicegate.schemas.topology import DELIVERY_LIMIT, LANES, RUNGS, Argument

pytestmark = pytest.mark.broker

LIMIT_S = 20.0
WAIT_S = 0.4

Channel = aiormq.abc.AbstractChannel


def with_arguments(made: Topology, changes: Mapping[str, Mapping[str, Argument]]) -> Topology:
    """The topology with other arguments for some of its queues."""
    queues = tuple(
        structs.replace(queue, arguments={**queue.arguments, **changes.get(queue.name, {})})
        for queue in made.queues
    )
    return structs.replace(made, queues=queues)


@pytest_asyncio.fixture
async def connection(broker_url: str) -> AsyncGenerator[AbstractRobustConnection]:
    connection = await connect(broker_url, timeout_s=LIMIT_S, name="topology test")
    yield connection
    await close(connection)


@pytest_asyncio.fixture
async def names(connection: AbstractRobustConnection, bare_namespace: str) -> AsyncGenerator[Names]:
    """The topology as it is, but that the rungs are short and the batch lane is small."""
    names = Names(bare_namespace)
    quick: dict[str, Argument] = {"x-message-ttl": int(WAIT_S * 1000)}
    changes: dict[str, Mapping[str, Argument]] = {names.retry_queue(rung): quick for rung in RUNGS}
    changes[names.checks] = {"x-max-length": 2}
    made = with_arguments(topology(bare_namespace), changes)
    await declare.apply(connection, made)
    yield names
    channel = await open_channel(connection, timeout_s=LIMIT_S)
    for queue in made.queues:
        await channel.queue_delete(queue.name)
    for exchange in made.exchanges:
        await channel.exchange_delete(exchange.name)
    await close_channel(channel)


@pytest_asyncio.fixture
async def channel(connection: AbstractRobustConnection) -> AsyncGenerator[Channel]:
    channel = await open_channel(connection, confirms=True, timeout_s=LIMIT_S)
    yield channel
    await close_channel(channel)


async def publish(
    channel: Channel,
    exchange: str,
    key: str,
    body: bytes = b"a job",
    headers: dict[str, Any] | None = None,
) -> None:
    confirmed = await channel.basic_publish(
        body,
        exchange=exchange,
        routing_key=key,
        mandatory=True,
        timeout=LIMIT_S,
        properties=Basic.Properties(delivery_mode=2, headers=headers),
    )
    assert isinstance(confirmed, Basic.Ack)


class Reader:
    """Takes messages from a queue, one at a time."""

    def __init__(self, channel: Channel, queue: str) -> None:
        self._channel = channel
        self._queue = queue
        self._arrived: asyncio.Queue[DeliveredMessage] = asyncio.Queue()

    async def __aenter__(self) -> "Reader":
        async def on_message(message: DeliveredMessage) -> None:
            await self._arrived.put(message)

        await self._channel.basic_qos(prefetch_count=1)
        self._tag = (await self._channel.basic_consume(self._queue, on_message)).consumer_tag
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._tag is not None
        await self._channel.basic_cancel(self._tag)

    async def next(self) -> DeliveredMessage:
        async with asyncio.timeout(LIMIT_S):
            return await self._arrived.get()

    async def ack(self, message: DeliveredMessage) -> None:
        await self._channel.basic_ack(tag_of(message))

    async def reject(self, message: DeliveredMessage, *, requeue: bool) -> None:
        await self._channel.basic_reject(tag_of(message), requeue=requeue)


def tag_of(message: DeliveredMessage) -> int:
    assert message.delivery_tag is not None
    return message.delivery_tag


def headers_of(message: DeliveredMessage) -> dict[str, Any]:
    return dict(message.header.properties.headers or {})


@pytest.mark.parametrize("lane", LANES)
async def test_a_job_comes_to_the_queue_of_its_lane(
    names: Names, channel: Channel, lane: Any
) -> None:
    await publish(channel, names.jobs, names.jobs_key(lane))
    async with Reader(channel, names.jobs_queue(lane)) as reader:
        message = await reader.next()
        assert message.body == b"a job"
        await reader.ack(message)


@pytest.mark.parametrize("rung", RUNGS)
async def test_a_retry_waits_and_comes_back_by_its_own_key(
    names: Names, channel: Channel, rung: str
) -> None:
    began = time.monotonic()
    await publish(channel, names.retry, "jobs.batch", headers={"rung": rung, "traceparent": "t"})
    async with Reader(channel, names.jobs_queue("batch")) as reader:
        message = await reader.next()
        waited = time.monotonic() - began
        await reader.ack(message)
    assert message.body == b"a job"
    assert message.routing_key == "jobs.batch"
    assert headers_of(message)["traceparent"] == "t"
    assert waited >= WAIT_S


async def test_a_job_may_be_retried_again_and_again(names: Names, channel: Channel) -> None:
    """Each retry is a fresh publish: the broker must not take the laps for a cycle."""
    async with Reader(channel, names.jobs_queue("interactive")) as reader:
        for lap in range(4):
            body = f"lap {lap}".encode()
            headers = {"rung": "5s"}
            await publish(channel, names.retry, "jobs.interactive", body, headers)
            message = await reader.next()
            assert message.body == body
            await reader.ack(message)


async def test_a_rung_that_is_none_gives_the_job_back(names: Names, channel: Channel) -> None:
    with pytest.raises(PublishError):
        await publish(channel, names.retry, "jobs.batch", headers={"rung": "6s"})


async def test_a_rejected_job_is_dead(names: Names, channel: Channel) -> None:
    await publish(channel, names.jobs, "jobs.batch", b"bad", {"traceparent": "t"})
    async with Reader(channel, names.jobs_queue("batch")) as reader:
        await reader.reject(await reader.next(), requeue=False)
    async with Reader(channel, names.dead) as reader:
        message = await reader.next()
        await reader.ack(message)
    assert message.body == b"bad"
    assert headers_of(message)["traceparent"] == "t"
    assert headers_of(message)["x-first-death-reason"] == "rejected"


async def test_a_job_that_always_fails_is_dead_in_the_end(names: Names, channel: Channel) -> None:
    await publish(channel, names.jobs, "jobs.batch", b"poison")
    async with (
        Reader(channel, names.jobs_queue("batch")) as reader,
        asyncio.timeout(LIMIT_S),
    ):
        for _ in range(DELIVERY_LIMIT + 1):
            await reader.reject(await reader.next(), requeue=True)
    async with Reader(channel, names.dead) as reader:
        message = await reader.next()
        await reader.ack(message)
    assert message.body == b"poison"
    assert headers_of(message)["x-first-death-reason"] == "delivery_limit"


async def test_the_dead_outlive_many_looks(names: Names, channel: Channel) -> None:
    """An operator who looks at a dead letter gives it back; no number of looks may use it up."""
    await publish(channel, names.dlx, "", b"dead")
    async with Reader(channel, names.dead) as reader:
        for _ in range(30):
            await reader.reject(await reader.next(), requeue=True)
        message = await reader.next()
        assert message.body == b"dead"
        await reader.ack(message)


async def test_a_full_queue_refuses_and_loses_nothing(names: Names, channel: Channel) -> None:
    taken: list[bytes] = []

    async def fill() -> None:
        # A quorum queue notices its limit a little late.
        for number in range(50):
            body = str(number).encode()
            await publish(channel, names.jobs, "checks", body)
            taken.append(body)

    with pytest.raises(DeliveryError):
        await fill()
    assert len(taken) >= 2
    async with Reader(channel, names.checks) as reader:
        for body in taken:
            message = await reader.next()
            assert message.body == body
            await reader.ack(message)
    dead = await channel.queue_declare(names.dead, passive=True)
    assert dead.message_count == 0


async def test_a_result_comes_to_the_queue_of_its_key(names: Names, channel: Channel) -> None:
    await publish(channel, names.results, "default", b"a result")
    async with Reader(channel, names.results_queue("default")) as reader:
        message = await reader.next()
        assert message.body == b"a result"
        await reader.ack(message)
    with pytest.raises(PublishError):
        await publish(channel, names.results, "nobody")
