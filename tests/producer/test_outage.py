"""The broker goes away and comes back."""

import asyncio
import time

import pytest
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.producer import BrokerUnreachable, GenerationJob, Producer, PublishLost

from .fake_worker import working
from .waiting import nothing_left

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("reply", [None, "outage"])
async def test_results_awaited_through_a_restart_arrive(
    killable_broker: PrivateBroker, killable_namespace: str, reply: str | None
) -> None:
    url, namespace = killable_broker.url, killable_namespace
    async with (
        Producer(url, reply, namespace=namespace, publish_timeout_s=60) as producer,
        working(url, namespace) as worker,
    ):
        worker.going.clear()
        handles = await producer.publish_many(
            [GenerationJob(prompt=f"number {number}") for number in range(20)]
        )
        waiting = [asyncio.create_task(handle.result(timeout=90)) for handle in handles]
        for _ in range(20):
            await asyncio.wait_for(worker.arrived.acquire(), 20)
        await killable_broker.kill()
        # Published during the outage, stored after it.
        late = asyncio.create_task(producer.publish(GenerationJob(prompt="late")))
        await killable_broker.start()
        worker.going.set()
        results = await asyncio.gather(*waiting)
        assert [result.text for result in results] == [
            f"You said: number {number}" for number in range(20)
        ]
        assert (await (await late).result(timeout=60)).text == "You said: late"


async def test_results_taken_or_waiting_when_the_broker_dies_are_not_lost(
    killable_broker: PrivateBroker, killable_namespace: str
) -> None:
    url, namespace = killable_broker.url, killable_namespace
    async with working(url, namespace) as worker:
        async with Producer(url, "kept", namespace=namespace, publish_timeout_s=60) as producer:
            handles = await producer.publish_many(
                [GenerationJob(prompt="x", id=f"n{number}") for number in range(10)]
            )
            assert (await handles[0].result(timeout=20)).ok
            for _ in range(10):
                await asyncio.wait_for(worker.answered.acquire(), 20)
            await killable_broker.kill()
            # What has arrived can be taken while the broker is away.
            taken = [handle for handle in handles[1:5] if handle.done]
            for handle in taken:
                await handle.result(timeout=0)
            await killable_broker.start()
            for handle in handles[1:8]:
                assert (await handle.result(timeout=60)).ok
        async with Producer(url, "kept", namespace=namespace) as producer:
            left = {result.job_id async for result in producer.results(idle_s=1)}
        # Those whose acknowledgement the outage swallowed may come again; none is missing.
        assert {"n8", "n9"} <= left


async def test_an_outage_longer_than_the_time_limit_is_an_error_within_seconds(
    killable_broker: PrivateBroker, killable_namespace: str
) -> None:
    url, namespace = killable_broker.url, killable_namespace
    async with nothing_left(within_s=10):
        async with Producer(url, namespace=namespace, publish_timeout_s=2) as producer:
            await producer.publish(GenerationJob(prompt="before"))
            await killable_broker.kill()
            began = time.monotonic()
            outcomes = await asyncio.gather(
                *(producer.publish(GenerationJob(prompt="x")) for _ in range(500)),
                return_exceptions=True,
            )
            assert time.monotonic() - began < 4
            assert all(isinstance(each, BrokerUnreachable | PublishLost) for each in outcomes)
            began = time.monotonic()
        assert time.monotonic() - began < 5  # closing doesn't wait for the broker either
