"""What services say of themselves, on a real broker."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from sluicegate.schemas import GenerationJob, ServiceEvent, decode
from sluicegate.worker import herald
from sluicegate.worker.config import Config
from sluicegate.worker.scripted import ScriptedEngine
from sluicegate.worker.service import Worker

from .conftest import Desk

pytestmark = pytest.mark.broker


async def heard(desk: Desk) -> Callable[[], Awaitable[ServiceEvent]]:
    """The next thing that a service says of itself, from now on."""
    channel = await desk.channel()
    queue = (await channel.queue_declare(exclusive=True)).queue
    assert queue is not None
    await channel.queue_bind(queue, desk.names.events, routing_key="_services.#")

    async def after() -> ServiceEvent:
        async with asyncio.timeout(10):
            while not (message := await channel.basic_get(queue, no_ack=True)).body:
                await asyncio.sleep(0.02)
        return decode(bytes(message.body), ServiceEvent)

    return after


async def test_a_worker_says_how_it_stands_from_start_to_end(
    desk: Desk, broker_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(herald, "STATUS_S", 0.1)
    after = await heard(desk)
    config = Config(
        amqp_url=broker_url,
        namespace=namespace,
        engine="scripted",
        worker_id="gpu.one",
        lanes="interactive=3,batch=2",
        metrics_port=0,
    )
    worker = Worker(config, ScriptedEngine(model="echo"))
    running = asyncio.create_task(worker.run())
    try:
        first = await after()
        assert (first.what, first.state, first.kind, first.service) == (
            "started",
            "starting",
            "worker",
            "gpu.one",
        )
        while (ready := await after()).state != "ready":
            assert ready.state == "starting"
        assert (ready.model, ready.slots, ready.in_flight, ready.detail) == ("echo", 5, 0, "")
        await desk.publish(GenerationJob(id="one", prompt="x"))
        done = ready.jobs.get("completed", 0) + 1
        while (later := await after()).jobs.get("completed") != done:
            assert later.what == "status"
        assert set(later.queues) == {
            desk.names.jobs_queue(lane) for lane in ("interactive", "batch")
        }
        worker.stop()
        said = [(later.what, later.state)]
        while said[-1][0] != "stopped":
            last = await after()
            said.append((last.what, last.state))
        assert ("stopping", "stopping") in said
    finally:
        worker.stop()
    assert await running == 0
