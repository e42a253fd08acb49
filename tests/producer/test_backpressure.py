"""A queue that is full: a clear answer to whoever publishes, in each way of publishing."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio
from click.testing import CliRunner
from sluicegate.ops.cli import main
from sluicegate.producer import (
    BlockingProducer,
    GenerationJob,
    Producer,
    PublishManyFailed,
    QueueFull,
)
from sluicegate.producer.connection import close, connect
from sluicegate.producer.declare import one_channel
from sluicegate.schemas import Names, topology

pytestmark = pytest.mark.broker

MOST = 3


@pytest_asyncio.fixture
async def full(broker_url: str, namespace: str) -> AsyncGenerator[str]:
    """A namespace whose batch lane takes no more."""
    names = Names(namespace)
    (lane,) = (
        each for each in topology(namespace).queues if each.name == names.jobs_queue("batch")
    )
    connection = await connect(broker_url, timeout_s=10, name="test")
    async with one_channel(connection, 10) as channel:
        await channel.queue_delete(lane.name)
        small = {**lane.arguments, "x-max-length": MOST}
        await channel.queue_declare(lane.name, durable=True, arguments=dict[str, Any](small))
        await channel.queue_bind(lane.name, names.jobs, names.jobs_key("batch"))
    async with Producer(broker_url, namespace=namespace, events=False) as producer:
        jobs = [GenerationJob(prompt="x", lane="batch") for _ in range(50)]
        with pytest.raises(PublishManyFailed) as failed:
            await producer.publish_many(jobs, concurrency=1)
    assert MOST <= len(failed.value.published) < 10
    yield namespace
    await close(connection)


async def test_the_error_says_what_to_do_and_the_other_lane_is_open(
    broker_url: str, full: str
) -> None:
    async with Producer(broker_url, namespace=full) as producer:
        with pytest.raises(QueueFull, match=r"jobs\.batch' is full. Try again later, or add work"):
            await producer.publish(GenerationJob(prompt="x", lane="batch"))
        await producer.publish(GenerationJob(prompt="x"))


async def test_there_is_room_again_when_somebody_takes_what_waits(
    broker_url: str, full: str
) -> None:
    connection = await connect(broker_url, timeout_s=10, name="test")
    async with one_channel(connection, 10) as channel:
        await channel.queue_purge(Names(full).jobs_queue("batch"))
    await close(connection)
    async with Producer(broker_url, namespace=full) as producer:
        await producer.publish(GenerationJob(prompt="x", lane="batch"))


async def test_blocking_code_hears_the_same(broker_url: str, full: str) -> None:
    def publish() -> None:
        with BlockingProducer(broker_url, namespace=full) as producer:
            producer.publish(GenerationJob(prompt="x", lane="batch"))

    with pytest.raises(QueueFull, match="Try again later"):
        await asyncio.to_thread(publish)


async def test_the_command_says_it_in_a_line(broker_url: str, full: str) -> None:
    words = ["submit", "--amqp-url", broker_url, "--namespace", full, "--prompt", "x"]
    done = await asyncio.to_thread(CliRunner().invoke, main, [*words, "--lane", "batch"])
    assert done.exit_code == 1
    assert "is full. Try again later, or add workers" in done.output
