"""A busy lane uses what the other leaves idle, and gives it back, on a real broker."""

from collections.abc import Callable
from typing import Any

import pytest
from sluicegate.schemas import GenerationJob, Lane
from sluicegate.worker import metrics
from sluicegate.worker.herald import reading
from sluicegate.worker.scripted import ScriptedEngine, echo

from .conftest import Desk, StartWorker

pytestmark = pytest.mark.broker

Until = Callable[[Callable[[], bool]], Any]
TEXT = "a text of half a second or so"


def job(lane: Lane) -> GenerationJob:
    return GenerationJob(prompt=TEXT, lane=lane, reply_to="default")


def engine() -> ScriptedEngine:
    return ScriptedEngine(echo, chunk=1, step_s=0.02)


async def test_one_lane_alone_has_all_slots_and_holds_no_more(
    desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    one = engine()
    await start_worker(one, lanes="interactive=2,batch=2", drain_grace_s=0.1).ready()
    for _ in range(20):
        await desk.publish(job("batch"))
    await until(lambda: len(one.running) == 4)
    for _ in range(6):
        await desk.result()
        assert len(one.running) <= 4
        # None waits here that another worker could run.
        assert reading(metrics.HELD.labels(queue="jobs.batch")) <= 4


async def test_the_other_lane_gets_the_next_slots_and_each_keeps_its_share(
    desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    one = engine()
    await start_worker(one, lanes="interactive=2,batch=2", drain_grace_s=0.1).ready()
    batch = {(await desk.publish(job("batch"))).id for _ in range(14)}
    await until(lambda: len(one.running) == 4)
    interactive = {(await desk.publish(job("interactive"))).id for _ in range(6)}
    came = [(await desk.result()).job_id for _ in range(14)]
    lanes = ["b" if each in batch else "i" for each in came]
    # At most the four that ran, and one that had its turn before, are ahead of the first.
    assert "i" in lanes[:6]
    # And while both wait both are served, half and half.
    both = lanes[lanes.index("i") :][:8]
    assert 2 <= both.count("i") <= 6
    assert set(came) & interactive
