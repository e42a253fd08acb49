"""What became of each message, on a real broker."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator

import aio_pika
import pytest
import pytest_asyncio
from aio_pika.abc import AbstractRobustConnection
from aiormq.exceptions import AMQPConnectionError
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.producer import (
    BrokerUnreachable,
    InvalidMessage,
    PublishLost,
    QueueFull,
    Reason,
    TopologyMissing,
    Unroutable,
)
from sluicegate.producer.confirms import ConfirmedPublisher
from sluicegate.producer.connection import close, connect, lost_not_cancelled, open_channel
from sluicegate.schemas import Names

from .proxy import proxied

pytestmark = pytest.mark.broker


@pytest_asyncio.fixture
async def connection(broker_url: str) -> AsyncGenerator[AbstractRobustConnection]:
    opened = await connect(broker_url, timeout_s=10, name="test")
    yield opened
    await close(opened)


@pytest_asyncio.fixture
async def publisher(connection: AbstractRobustConnection) -> AsyncGenerator[ConfirmedPublisher]:
    made = ConfirmedPublisher(connection)
    yield made
    await made.close()


async def send(
    publisher: ConfirmedPublisher,
    exchange: str,
    routing_key: str = "jobs.batch",
    body: bytes = b"{}",
    timeout_s: float = 10,
) -> None:
    await publisher.publish(
        exchange, routing_key, body, kind="test", correlation_id="id", timeout_s=timeout_s
    )


def lost_event(connection: AbstractRobustConnection) -> asyncio.Event:
    """Set when the connection is lost for the first time."""
    lost = asyncio.Event()

    def on_close(*_: object) -> None:
        lost.set()

    connection.close_callbacks.add(on_close)
    return lost


async def stored(connection: AbstractRobustConnection, queue: str) -> int:
    channel = await open_channel(connection, timeout_s=10)
    count = (await channel.queue_declare(queue, passive=True)).message_count
    await channel.close()
    assert count is not None
    return count


async def test_a_message_carries_the_properties_of_the_protocol(
    connection: AbstractRobustConnection, publisher: ConfirmedPublisher, namespace: str
) -> None:
    names = Names(namespace)
    for _ in range(2):
        await publisher.publish(
            names.jobs,
            "jobs.batch",
            b"{}",
            kind="generation_job",
            correlation_id="job-1",
            headers={"traceparent": "00-x"},
            expiration_s=600,
            timeout_s=10,
        )
    channel = await connection.channel()
    queue = await channel.get_queue(names.jobs_queue("batch"))
    first, second = await queue.get(no_ack=True), await queue.get(no_ack=True)
    assert first.content_type == "application/json"
    assert first.delivery_mode == aio_pika.DeliveryMode.PERSISTENT
    assert first.correlation_id == "job-1"
    assert first.type == "generation_job"
    assert first.app_id == "sluicegate"
    assert first.headers["traceparent"] == "00-x"
    assert first.expiration == 600
    assert first.timestamp is not None
    assert abs(first.timestamp.timestamp() - time.time()) < 60
    assert first.message_id
    assert first.message_id != second.message_id
    await channel.close()


async def test_returned_messages_are_told_apart_among_many(
    connection: AbstractRobustConnection, publisher: ConfirmedPublisher, namespace: str
) -> None:
    names = Names(namespace)
    keys = ["jobs.batch" if number % 3 else "nowhere" for number in range(60)]
    outcomes = await asyncio.gather(
        *(send(publisher, names.jobs, key) for key in keys), return_exceptions=True
    )
    for key, outcome in zip(keys, outcomes, strict=True):
        assert isinstance(outcome, Unroutable) == (key == "nowhere"), (key, outcome)
    assert await stored(connection, names.jobs_queue("batch")) == 40


async def test_a_missing_exchange_hurts_nobody_else(
    connection: AbstractRobustConnection, publisher: ConfirmedPublisher, namespace: str
) -> None:
    names = Names(namespace)
    exchanges = [names.jobs if number % 3 else f"{namespace}.missing" for number in range(90)]
    lost = lost_event(connection)
    outcomes = await asyncio.gather(
        *(send(publisher, exchange) for exchange in exchanges), return_exceptions=True
    )
    for exchange, outcome in zip(exchanges, outcomes, strict=True):
        if exchange == names.jobs:
            assert outcome is None
        else:
            assert isinstance(outcome, TopologyMissing)
            assert f"{namespace}.missing" in str(outcome)
    assert await stored(connection, names.jobs_queue("batch")) == 60
    with pytest.raises(TopologyMissing):
        await send(publisher, f"{namespace}.missing")
    assert not lost.is_set()


async def test_a_full_queue_refuses(
    connection: AbstractRobustConnection, publisher: ConfirmedPublisher, namespace: str
) -> None:
    names = Names(namespace)
    channel = await open_channel(connection, timeout_s=10)
    queue = f"{namespace}.small"
    await channel.queue_declare(
        queue,
        durable=True,
        arguments={"x-queue-type": "quorum", "x-max-length": 3, "x-overflow": "reject-publish"},
    )
    await channel.queue_bind(queue, names.jobs, "small")
    try:
        accepted = 0

        async def send_until_refused() -> None:
            nonlocal accepted
            for _ in range(50):
                await send(publisher, names.jobs, "small")
                accepted += 1

        with pytest.raises(QueueFull, match="Try again later"):
            await send_until_refused()
        assert 3 <= accepted < 10  # a quorum queue notices its limit a little late
        assert await stored(connection, queue) == accepted
    finally:
        await channel.queue_delete(queue)
        await channel.close()


async def test_headers_over_the_limit_never_leave(
    publisher: ConfirmedPublisher, namespace: str
) -> None:
    with pytest.raises(InvalidMessage) as failure:
        await publisher.publish(
            Names(namespace).jobs,
            "jobs.batch",
            b"{}",
            kind="test",
            correlation_id=None,
            headers={"evidence": "x" * 5000},
            timeout_s=5,
        )
    assert failure.value.reason == Reason.TOO_LARGE
    assert failure.value.field == "headers"


async def test_a_header_of_200_kb_from_elsewhere_ends_that_client_only(
    broker_url: str, publisher: ConfirmedPublisher, namespace: str
) -> None:
    names = Names(namespace)
    await send(publisher, names.jobs)
    rude = await aio_pika.connect(broker_url)
    channel = await rude.channel()
    exchange = await channel.get_exchange(names.jobs, ensure=False)
    with pytest.raises(AMQPConnectionError):
        await exchange.publish(
            aio_pika.Message(b"{}", headers={"evidence": "x" * 200_000}), "jobs.batch", timeout=10
        )
    await rude.close()
    await send(publisher, names.jobs)


async def test_a_stalled_network_ends_in_a_lost_publish(broker_url: str, namespace: str) -> None:
    async with proxied(broker_url) as proxy:
        connection = await connect(proxy.url, timeout_s=5, name="test")
        publisher = ConfirmedPublisher(connection)
        await send(publisher, Names(namespace).jobs)
        proxy.flowing.clear()
        began = time.monotonic()
        with pytest.raises(PublishLost, match="may be stored"):
            await send(publisher, Names(namespace).jobs, timeout_s=1)
        assert time.monotonic() - began < 2
        proxy.flowing.set()
        await send(publisher, Names(namespace).jobs)
        await close(connection)


async def test_a_connection_killed_by_its_heartbeat_does_not_look_like_a_cancellation(
    broker_url: str, namespace: str
) -> None:
    async with proxied(broker_url, "?heartbeat=1") as proxy:
        connection = await connect(proxy.url, timeout_s=5, name="test")
        publisher = ConfirmedPublisher(connection)
        await send(publisher, Names(namespace).jobs)
        lost = lost_event(connection)
        proxy.flowing.clear()
        task = asyncio.create_task(send(publisher, Names(namespace).jobs, timeout_s=60))
        await asyncio.wait_for(lost.wait(), 30)
        proxy.flowing.set()
        await task  # sent again over the new connection
        await close(connection)


async def test_a_cancellation_of_ours_stays_one(broker_url: str, namespace: str) -> None:
    async with proxied(broker_url) as proxy:
        connection = await connect(proxy.url, timeout_s=5, name="test")
        publisher = ConfirmedPublisher(connection)
        await send(publisher, Names(namespace).jobs)
        proxy.flowing.clear()
        task = asyncio.create_task(send(publisher, Names(namespace).jobs))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        proxy.flowing.set()
        await send(publisher, Names(namespace).jobs)
        await close(connection)


async def test_only_foreign_cancellations_are_converted() -> None:
    async def dies(swallow_first: bool) -> str:
        if swallow_first:  # An earlier cancellation that someone swallowed is no reason to give up.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(10)
        try:
            with lost_not_cancelled():
                raise asyncio.CancelledError
        except ConnectionAbortedError:
            return "lost"

    assert await dies(swallow_first=False) == "lost"
    task = asyncio.create_task(dies(swallow_first=True))
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "lost"

    async def waits() -> None:
        with lost_not_cancelled():
            await asyncio.sleep(10)

    waiting = asyncio.create_task(waits())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await waits()


async def test_an_outage_is_bridged_or_said_within_the_time_limit(
    killable_broker: PrivateBroker,
) -> None:
    connection = await connect(killable_broker.url, timeout_s=10, name="test")
    channel = await open_channel(connection, timeout_s=10)
    await channel.queue_declare("outage", durable=True, arguments={"x-queue-type": "quorum"})
    publisher = ConfirmedPublisher(connection)
    await send(publisher, "", "outage")
    lost = lost_event(connection)
    await killable_broker.kill()
    await lost.wait()
    began = time.monotonic()
    with pytest.raises(BrokerUnreachable, match="nothing was published"):
        await send(publisher, "", "outage", timeout_s=1)
    assert time.monotonic() - began < 2
    through = asyncio.create_task(send(publisher, "", "outage", timeout_s=60))
    await killable_broker.start()
    await through
    assert await stored(connection, "outage") == 2
    channel = await open_channel(connection, timeout_s=10)
    await channel.queue_delete("outage")
    began = time.monotonic()
    await close(connection)
    with pytest.raises(BrokerUnreachable, match="closed on this side"):
        await send(publisher, "", "outage", timeout_s=10)
    assert time.monotonic() - began < 2
