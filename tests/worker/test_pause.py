"""Services that are paused and resumed, on a real broker."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sluicegate.schemas import GenerationJob, Pause, Resume, Target, encode
from sluicegate.schemas.codec import tag_of
from sluicegate.worker.scripted import ScriptedEngine, echo

from .conftest import Desk, StartWorker

pytestmark = pytest.mark.broker

Until = Callable[[Callable[[], bool]], Any]
LONG = (
    "a text that comes back letter by letter, and takes its time over it, while somebody pauses "
    "the worker that is at it and waits for what will become of all the others"
)


async def say(desk: Desk, message: Pause | Resume) -> None:
    await desk.publisher.publish(
        desk.names.pauses,
        "",
        encode(message),
        kind=tag_of(type(message)),
        correlation_id=None,
        timeout_s=5,
    )


def paused(scope: Any, name: str = "", **fields: Any) -> Pause:
    return Pause(target=Target(scope, name), at=datetime.now(UTC), by="me", **fields)


def resumed(scope: Any, name: str = "") -> Resume:
    return Resume(target=Target(scope, name), at=datetime.now(UTC))


def job(prompt: str = "hello", **fields: Any) -> GenerationJob:
    return GenerationJob(prompt=prompt, reply_to="default", **fields)


async def test_a_paused_worker_finishes_what_it_runs_and_takes_nothing_more(
    desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    engine = ScriptedEngine(echo, chunk=1, step_s=0.005)
    worker = start_worker(engine).worker
    await until(lambda: worker.not_ready() is None)
    running = await desk.publish(job(LONG))
    await until(lambda: len(engine.running) == 1)
    await say(desk, paused("service", "w1", reason="new driver"))
    await until(lambda: worker.state == "paused")
    assert worker.not_ready() == "paused (service w1) by me: new driver"
    # The broker may yet send what it has begun to send.
    await until(lambda: not worker.consumed())
    waiting = await desk.publish(job())
    assert (await desk.result()).job_id == running.id
    await desk.until_depth(desk.names.jobs_queue("interactive"), 1)
    await say(desk, resumed("service", "w1"))
    assert (await desk.result()).job_id == waiting.id
    assert worker.state == "ready"


async def test_one_lane_is_paused_and_the_other_goes_on(
    desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    worker = start_worker().worker
    await until(lambda: worker.not_ready() is None)
    queue = desk.names.jobs_queue("batch")
    await say(desk, paused("queue", queue))
    await until(lambda: len(worker.consumed()) == 1)
    waiting = await desk.publish(job(lane="batch"))
    done = await desk.publish(job())
    assert (await desk.result()).job_id == done.id
    assert worker.not_ready() is None
    await desk.until_depth(queue, 1)
    await say(desk, resumed("all"))
    assert (await desk.result()).job_id == waiting.id


async def test_a_worker_that_starts_later_keeps_the_pause_until_its_time_is_over(
    desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    end = datetime.now(UTC) + timedelta(seconds=2)
    await say(desk, paused("kind", "worker", until=end))
    await desk.publish(job())
    worker = start_worker().worker
    await until(lambda: worker.state == "paused")
    assert await desk.depth(desk.names.jobs_queue("interactive")) == 1
    await desk.result()
    assert datetime.now(UTC) >= end


async def test_others_are_not_meant(desk: Desk, start_worker: StartWorker, until: Until) -> None:
    await say(desk, paused("service", "w2"))
    await say(desk, paused("kind", "checker"))
    await say(desk, paused("queue", desk.names.checks))
    worker = start_worker().worker
    await until(lambda: worker.not_ready() is None)
    await desk.publish(job())
    await desk.result()
    assert worker.state == "ready"


async def test_paused_again_and_again_it_holds_no_more_than_twice_its_prefetch(
    desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    engine = ScriptedEngine(echo, chunk=1, step_s=0.05)
    worker = start_worker(engine, lanes="interactive=2", drain_grace_s=0.1).worker
    await until(lambda: worker.not_ready() is None)
    for _ in range(12):
        await desk.publish(job(LONG))
    await until(lambda: len(engine.running) == 2)
    for _ in range(4):
        await say(desk, paused("all"))
        await until(lambda: worker.state == "paused")
        await say(desk, resumed("all"))
        await until(lambda: worker.state == "ready")
        await asyncio.sleep(0.05)
    assert len(engine.running) == 2
    assert await desk.depth(desk.names.jobs_queue("interactive")) >= 8


async def test_each_queue_is_told_of_once_though_two_consume_it(
    desk: Desk, start_worker: StartWorker, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sluicegate.worker.frame")
    worker = start_worker(lanes="interactive=1,batch=1").worker
    await until(lambda: worker.not_ready() is None)
    await say(desk, paused("service", "w1"))
    await until(lambda: worker.state == "paused")
    said = [each.message for each in caplog.records if "paused (service w1)" in each.message]
    assert len(said) == len(set(said)) == 2


async def test_of_two_pauses_the_one_that_is_not_over_is_the_reason(
    desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    worker = start_worker().worker
    await until(lambda: worker.not_ready() is None)
    await say(desk, paused("all", until=datetime.now(UTC) + timedelta(seconds=0.6)))
    await say(desk, paused("kind", "worker", reason="new model"))
    await until(lambda: (worker.not_ready() or "").startswith("paused (everything)"))
    await until(lambda: worker.not_ready() == "paused (kind worker) by me: new model")
    assert worker.state == "paused"
