"""Broker and worker die in the middle of twenty jobs; no result may be lost."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from sluicegate.producer.handle import Handle
from sluicegate.schemas import GenerationJob, GenerationResult, Sampling

from .conftest import Site

pytestmark = [pytest.mark.broker, pytest.mark.engine]

WAIT_S = 240


def twenty_jobs() -> list[GenerationJob]:
    # As long as each needs to be for the fault to come in the middle.
    sampling = Sampling(temperature=0.7, min_tokens=40, max_tokens=40)
    return [
        GenerationJob(prompt=f"Write about the number {number}.", sampling=sampling)
        for number in range(20)
    ]


async def all_results(handles: list[Handle]) -> list[GenerationResult]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(handle.result(timeout=WAIT_S)) for handle in handles]
    return [task.result() for task in tasks]


async def first_of(handles: list[Handle]) -> None:
    """Wait until one result is in: others are running then, and others wait in the queue."""
    waiting = [asyncio.create_task(handle.result(timeout=WAIT_S)) for handle in handles]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def are_all_there(jobs: list[GenerationJob], results: list[GenerationResult]) -> bool:
    return [result.job_id for result in results] == [job.id for job in jobs] and all(
        result.ok and result.usage.completion_tokens == 40 for result in results
    )


async def test_the_broker_is_killed_and_started_again(site: Site) -> None:
    jobs = twenty_jobs()
    async with site.producer() as producer:
        handles = await producer.publish_many(jobs)
        await first_of(handles)
        await site.broker.kill()
        await site.broker.start()
        results = await all_results(handles)
    assert are_all_there(jobs, results)
    await site.worker.ready(60)


async def test_the_worker_is_killed(site: Site) -> None:
    jobs = twenty_jobs()
    async with site.producer() as producer:
        handles = await producer.publish_many(jobs)
        await first_of(handles)
        engines = _descendants(site.worker.pid)
        assert engines
        site.worker.signal(signal.SIGKILL)
        assert await site.worker.wait() == -signal.SIGKILL
        await _gone(engines)
        await site.new_worker()
        results = await all_results(handles)
    assert are_all_there(jobs, results)
    assert {result.attempt for result in results} == {1}


async def test_sigterm_finishes_what_runs_hands_back_the_rest_and_exits_0(site: Site) -> None:
    jobs = twenty_jobs()
    async with site.producer() as producer:
        handles = await producer.publish_many(jobs)
        await first_of(handles)
        site.worker.signal(signal.SIGTERM)
        assert await site.worker.wait() == 0
        await site.new_worker()
        results = await all_results(handles)
    assert are_all_there(jobs, results)
    assert {result.attempt for result in results} == {1}


def _descendants(pid: int) -> set[int]:
    found: set[int] = set()
    for child in Path(f"/proc/{pid}/task").glob("*/children"):
        for number in map(int, child.read_text().split()):
            found |= {number} | _descendants(number)
    return found


async def _gone(pids: set[int]) -> None:
    """A killed worker must not leave an engine behind that holds the memory of the next one."""
    async with asyncio.timeout(20):
        while any(_runs(pid) for pid in pids):
            await asyncio.sleep(0.2)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
