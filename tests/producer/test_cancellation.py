"""Cancelled at each await, nothing is left behind and the producer goes on working."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from sluicegate.producer import GenerationJob, Producer
from sluicegate.producer.connection import close, connect
from sluicegate.producer.declare import one_channel
from sluicegate.schemas import Names

from .fake_worker import FakeWorker
from .waiting import nothing_left, until

pytestmark = pytest.mark.broker


async def cancel_after(steps: int, work: Callable[[], Awaitable[object]]) -> bool:
    """Cancel `work` after so many turns of the loop; whether it had ended before by itself."""

    async def run() -> None:
        await work()

    task = asyncio.create_task(run())
    for _ in range(steps):
        await asyncio.sleep(0)
        if task.done():
            await task
            return True
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return False
    return True


async def at_each_step(work: Callable[[], Awaitable[object]], limit: int = 3000) -> int:
    """Cancel `work` after 0, 1, 2, ... turns, until it is faster; the number of tries."""
    steps = 0
    tries = 0
    while not await cancel_after(steps, work):
        tries += 1
        # Waiting for the broker takes hundreds of idle turns: go through them in wider strides.
        steps += 1 if steps < 40 else max(1, steps // 4)
        assert steps < limit * 100
    return tries


async def test_publishing(broker_url: str, namespace: str, worker: FakeWorker) -> None:
    async with Producer(broker_url, namespace=namespace, max_in_flight=2) as producer:
        tries = await at_each_step(lambda: producer.publish(GenerationJob(prompt="x")))
        assert tries > 5
        # Both places for publishes in flight are free again, and results come in.
        handles = [await producer.publish(GenerationJob(prompt="after")) for _ in range(3)]
        for handle in handles:
            assert (await handle.result(timeout=10)).ok


async def test_publishing_many(broker_url: str, namespace: str, worker: FakeWorker) -> None:
    async with Producer(broker_url, namespace=namespace, max_in_flight=2) as producer:
        tries = await at_each_step(
            lambda: producer.publish_many([GenerationJob(prompt="x") for _ in range(5)])
        )
        assert tries > 5
        (handle,) = await producer.publish_many([GenerationJob(prompt="after")])
        assert (await handle.result(timeout=10)).ok


async def test_waiting_for_a_result_never_loses_it(
    broker_url: str, namespace: str, worker: FakeWorker
) -> None:
    queue = Names(namespace).results_queue("patient")
    async with Producer(broker_url, "patient", namespace=namespace) as producer:
        for steps in range(30):
            worker.going.clear()
            handle = await producer.publish(GenerationJob(prompt=f"{steps}"))
            await asyncio.wait_for(worker.arrived.acquire(), 10)
            waiting = asyncio.create_task(handle.result(timeout=10))
            worker.going.set()
            if steps % 2:
                await until(lambda: handle.done)  # noqa: B023
            for _ in range(steps // 2):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert (await handle.result(timeout=10)).text == f"You said: {steps}"
    connection = await connect(broker_url, timeout_s=10, name="test")
    async with one_channel(connection, 10) as channel:
        answer = await channel.queue_delete(queue)
        assert answer.message_count == 0
    await close(connection)


async def test_opening(broker_url: str, namespace: str) -> None:
    async def open_and_close() -> None:
        async with Producer(broker_url, namespace=namespace):
            pass

    async with nothing_left(within_s=15):
        assert await at_each_step(open_and_close) > 20


async def test_closing(broker_url: str, namespace: str) -> None:
    async with nothing_left(within_s=15):
        for steps in range(0, 60, 3):
            producer = await Producer(broker_url, namespace=namespace).__aenter__()
            await cancel_after(steps, producer.close)
            await producer.close()
