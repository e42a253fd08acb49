"""A job that is too late is never dropped without a word: a result, an event and a dead letter say
so, wherever it was when its time was over."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sluicegate.producer import Handle, Producer
from sluicegate.schemas import Expired, Finished, GenerationJob, Pause, Resume, Target, encode
from sluicegate.schemas.codec import tag_of
from sluicegate.worker.scripted import ScriptedEngine, echo

from .conftest import WAIT_S, Desk, StartWorker

pytestmark = pytest.mark.broker

Until = Callable[[Callable[[], bool]], Any]
LONG = "a text that comes back letter by letter, and takes its time over it, as long as it likes"


def late(seconds: float, **fields: Any) -> GenerationJob:
    end = datetime.now(UTC) + timedelta(seconds=seconds)
    return GenerationJob(prompt=LONG, deadline=end, **fields)


def slow() -> ScriptedEngine:
    return ScriptedEngine(echo, chunk=1, step_s=0.1)


async def said(handle: Handle, desk: Desk) -> None:
    """It was said to whoever waits, to whoever watches, and to operators."""
    result = await handle.result(timeout=WAIT_S)
    assert isinstance(result.outcome, Expired)
    events = [each.event async for each in handle.events()]
    assert isinstance(events[-1], Finished)
    assert isinstance(events[-1].outcome, Expired)
    letter = await desk.dead()
    assert (letter.job_id, letter.reason) == (handle.job_id, "deadline_passed")


async def test_while_it_runs(
    broker_url: str, namespace: str, desk: Desk, start_worker: StartWorker
) -> None:
    await start_worker(slow()).ready()
    async with Producer(broker_url, namespace=namespace) as producer:
        await said(await producer.publish(late(0.5)), desk)


async def test_while_it_waits_here_for_a_slot(
    broker_url: str, namespace: str, desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    """The other lane has borrowed it."""
    engine = slow()
    await start_worker(engine, lanes="interactive=1,batch=1", drain_grace_s=0.1).ready()
    async with Producer(broker_url, namespace=namespace) as producer:
        for _ in range(4):
            await producer.publish(GenerationJob(prompt=LONG, lane="batch"))
        await until(lambda: len(engine.running) == 2)
        await said(await producer.publish(late(0.5)), desk)
        # Nobody waited for a slot to come free.
        assert len(engine.running) == 2


async def test_while_its_lane_is_paused(
    broker_url: str, namespace: str, desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    target = Target("all")

    async def say(message: Pause | Resume) -> None:
        await desk.publisher.publish(
            desk.names.pauses,
            "",
            encode(message),
            kind=tag_of(type(message)),
            correlation_id=None,
            timeout_s=WAIT_S,
        )

    await say(Pause(target=target, at=datetime.now(UTC)))
    worker = start_worker(slow()).worker
    await until(lambda: worker.state == "paused")
    async with Producer(broker_url, namespace=namespace) as producer:
        handle = await producer.publish(late(0.2))
        await asyncio.sleep(0.3)
        await say(Resume(target=target, at=datetime.now(UTC)))
        await said(handle, desk)


async def test_while_it_waits_for_its_next_attempt(
    broker_url: str, namespace: str, desk: Desk, start_worker: StartWorker
) -> None:
    await start_worker(slow()).ready()
    async with Producer(broker_url, namespace=namespace) as producer:
        job = late(0.2, attempt=2, reply_to=producer.reply_key)
        handle = producer.attach(job.id)
        await desk.publisher.publish(
            desk.names.retry,
            desk.names.jobs_key(job.lane),
            encode(job),
            kind="generation_job",
            correlation_id=None,
            headers={"rung": "5s"},
            expiration_s=0.5,
            timeout_s=WAIT_S,
        )
        await said(handle, desk)
