"""Handing attempts back on a broker: by signals, into what is full, and killed in the middle."""

import asyncio
import json
import signal
from collections.abc import AsyncGenerator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
import pytest_asyncio
from sluicegate.ops.service_process import ServiceProcess
from sluicegate.producer import Handle, Producer
from sluicegate.producer.errors import QueueFull
from sluicegate.schemas import Accepted, Delta, GenerationJob, Interrupted, JobEvent, decode, encode
from sluicegate.worker.config import Config
from sluicegate.worker.settler import Settler

from .conftest import Desk, StartWorker
from .kill_chain import Chain
from .killed import ActingEngine, Nursery, Order
from .relay import WHO, plain_job, relay, settled
from .test_preemption import plain

TEXT = "preempt " + "".join(f"{number} and so on. " for number in range(30))
STEP_S = 0.02


@pytest_asyncio.fixture(scope="module")
async def nursery() -> AsyncGenerator[Nursery]:
    one = await Nursery.start()
    yield one
    await one.close()


@pytest.fixture
def chain(desk: Desk, nursery: Nursery, broker_url: str, namespace: str) -> Chain:
    config = Config(
        amqp_url=broker_url,
        namespace=namespace,
        engine="scripted",
        metrics_port=0,
        publish_timeout_s=5.0,
        drain_grace_s=0.0,
    )
    return Chain(desk, nursery, config, "worker")


def job(**fields: Any) -> GenerationJob:
    return GenerationJob(prompt=TEXT, reply_to="default", profile="off", **fields)


async def finish(chain: Chain, start_worker: StartWorker) -> dict[str, Any]:
    """A worker that nothing stops does what is left, and leaves one result, or copies of it."""
    running = start_worker(ActingEngine(harmless=True))
    await running.ready()
    await chain.desk.until_depth(chain.queue, 0)
    assert await running.stopped() == 0
    assert set(await chain.left()) == {"result"}
    return chain.only("result")


@pytest.mark.broker
async def test_who_is_stopped_hands_on_what_it_has(
    chain: Chain, nursery: Nursery, start_worker: StartWorker
) -> None:
    await chain.desk.put(encode(job()))
    order = Order(service="worker", point="never", config=chain.config)
    assert await nursery.run(order) == 0
    await chain.desk.until_depth(chain.queue, 1)
    result = await finish(chain, start_worker)
    assert result["text"] == TEXT
    (attempt,) = result["lineage"]["attempts"]
    (handover,) = result["lineage"]["handovers"]
    assert handover["tokens"] == attempt["handed_tokens"] == 40
    assert [each["tokens"] for each in attempt["segments"]] == [40, len(TEXT) - 40 + 1]


@pytest.mark.broker
async def test_who_is_killed_while_it_hands_back_loses_nothing(
    chain: Chain, start_worker: StartWorker
) -> None:
    await chain.desk.put(encode(job()))
    # Nothing is published yet: the message comes back as it was.
    await chain.kill("consumed", comes_back=1)
    # The copy is there, and the message it was made of, too.
    await chain.kill("published", comes_back=2)
    result = await finish(chain, start_worker)
    assert result["text"] == TEXT
    assert result["attempt"] == 1


@pytest.mark.broker
@pytest.mark.parametrize(
    ("number", "grace_s"), [(signal.SIGTERM, 0.1), (signal.SIGUSR1, 300.0)], ids=lambda each: each
)
async def test_a_signal_in_the_middle_of_a_text(
    number: signal.Signals, grace_s: float, tmp_path: Path, broker_url: str, namespace: str
) -> None:
    settings: dict[str, object] = {
        "amqp_url": broker_url,
        "namespace": namespace,
        "engine": "scripted",
        "engine_args": json.dumps({"chunk": 2, "step_s": STEP_S}),
        "drain_grace_s": grace_s,
    }
    asked = GenerationJob(prompt=TEXT, profile="off", stream=True)
    async with Producer(broker_url, namespace=namespace) as producer:
        first = ServiceProcess(tmp_path, settings)
        await first.start()
        await first.ready(30)
        handle = await producer.publish(asked)
        events: list[JobEvent] = []
        under_way = asyncio.Event()
        following = asyncio.create_task(_follow(handle, events, under_way))
        await asyncio.wait_for(under_way.wait(), 30)
        first.signal(number)
        assert await first.wait(20) == 0
        async with ServiceProcess(tmp_path, settings):
            result = await handle.result(timeout=30)
            await asyncio.wait_for(following, 30)
    assert result.text == TEXT
    (handover,) = result.lineage.handovers
    assert handover.tokens > 30
    assert result.usage.wasted_tokens == 0
    assert result.usage.completion_tokens == len(TEXT) + 1
    text = ""
    for event in events:
        if isinstance(event.event, Delta):
            assert event.event.offset == len(text)
            text += event.event.text
    assert text == TEXT
    numbers = [event.seq for event in events]
    assert numbers == sorted(set(numbers))
    kept = [each.event.kept for each in events if isinstance(each.event, Accepted | Interrupted)]
    assert kept == [0, handover.tokens, handover.tokens]


@pytest.mark.broker
async def test_a_notice_ends_the_grace_of_a_stop_before(
    chain: Chain, start_worker: StartWorker
) -> None:
    engine = ActingEngine()
    running = start_worker(engine, drain_grace_s=300.0)
    await running.ready()
    slow = GenerationJob(prompt="slow one", reply_to="default", profile="off")
    await chain.desk.put(encode(slow))
    async with asyncio.timeout(20):
        while not engine.seeds:
            await asyncio.sleep(0.01)
    running.worker.stop()
    await asyncio.sleep(0.1)
    assert not running.task.done()
    running.worker.stop(at_once=True)
    assert await running.stopped() == 0
    await chain.desk.until_depth(chain.queue, 1)


async def _follow(handle: Handle, events: list[JobEvent], under_way: asyncio.Event) -> None:
    async for event in handle.events():
        events.append(event)
        if isinstance(event.event, Delta) and event.event.offset > 30:
            under_way.set()


class _Full:
    """A publisher to a queue that takes no more."""

    async def publish(self, *_: object, **__: object) -> None:
        raise QueueFull("sluice.v1.jobs is full")


async def test_where_the_queue_is_full_the_message_goes_back_as_it_is() -> None:
    said: list[str] = []

    async def nack() -> bool:
        said.append("nack")
        return True

    one = await relay(plain_job(), plain, [40])
    settlement = settled(plain_job(), one.reports[0])
    settler = Settler(cast("Any", _Full()), WHO, publish_timeout_s=0.2)
    done = await settler.settle(settlement, [cast("Any", SimpleNamespace(nack=nack))])
    assert said == ["nack"]
    assert not done.sent


async def test_the_copy_can_be_read_as_what_it_is_a_copy_of() -> None:
    one = await relay(plain_job(), plain, [40])
    (copy,) = settled(plain_job(), one.reports[0]).publications
    assert isinstance(copy.message, GenerationJob)
    again = decode(encode(copy.message), GenerationJob)
    bare = msgspec.structs.replace(again, progress=None, lineage=plain_job().lineage)
    assert bare == plain_job()
