"""Jobs that are called off: waiting, running, being checked, waiting for their next attempt."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sluicegate.producer import Producer
from sluicegate.schemas import CancelJob, GenerationJob, encode
from sluicegate.schemas.results import Cancelled, Completed
from sluicegate.worker.engine import Piece, Segment
from sluicegate.worker.scripted import ScriptedEngine, echo

from .conftest import WAIT_S, Desk, StartWorker

pytestmark = pytest.mark.broker

Until = Callable[[Callable[[], bool]], Any]
LONG = "a text that comes back letter by letter, and takes its time over it. " * 20


class Counting(ScriptedEngine):
    """Counts what it is asked for."""

    def __init__(self) -> None:
        super().__init__(echo, chunk=1, step_s=0.02)
        self.begun = 0

    def stream(self, segment: Segment) -> AsyncGenerator[Piece, None]:
        self.begun += 1
        return super().stream(segment)


def slow() -> Counting:
    return Counting()


def lengthy(**fields: Any) -> GenerationJob:
    return GenerationJob(prompt=LONG, **fields)


async def say(desk: Desk, job_id: str, at: datetime | None = None) -> None:
    """What `cancel` publishes, without a producer that waits for the result."""
    message = CancelJob(job_id=job_id, at=at or datetime.now(UTC))
    await desk.publisher.publish(
        desk.names.control, "", encode(message), kind="cancel_job", correlation_id=None, timeout_s=5
    )


async def test_one_that_runs_is_aborted_and_answered_by_its_worker(
    broker_url: str, namespace: str, desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    engine = slow()
    await start_worker(engine).ready()
    async with Producer(broker_url, namespace=namespace) as producer:
        handle = await producer.publish(lengthy())
        await until(lambda: len(engine.running) == 1)
        assert await handle.cancel()
        await until(lambda: not engine.running)
        result = await handle.result(timeout=WAIT_S)
    assert result.outcome == Cancelled()
    assert result.text == ""
    letter = await desk.dead()
    assert (letter.job_id, letter.reason) == (handle.job_id, "cancelled")


async def test_one_that_waits_is_answered_at_once_and_never_generated(
    broker_url: str, namespace: str, desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    engine = slow()
    await start_worker(engine, lanes="interactive=1").ready()
    async with Producer(broker_url, namespace=namespace) as producer:
        first = await producer.publish(lengthy())
        await until(lambda: len(engine.running) == 1)
        waiting = [await producer.publish(lengthy()) for _ in range(3)]
        assert await waiting[1].cancel()
        result = await waiting[1].result(timeout=WAIT_S)
        assert result.outcome == Cancelled()
        # The worker is still at the first one.
        assert len(engine.running) == 1
        for number, other in enumerate((first, waiting[0], waiting[2]), 1):
            await until(lambda: engine.begun == number and len(engine.running) == 1)  # noqa: B023
            await other.cancel()
            assert (await other.result(timeout=WAIT_S)).outcome == Cancelled()
        # Its turn comes: it is dropped, its letter written, and nobody is told a second story.
        died = {(await desk.dead()).job_id for _ in range(4)}
        assert died == {each.job_id for each in (first, *waiting)}
        assert engine.begun == 3
        assert [each async for each in producer.results(idle_s=0.2)] == []


async def test_it_is_known_to_a_worker_that_starts_later(
    broker_url: str, namespace: str, desk: Desk, start_worker: StartWorker
) -> None:
    engine = slow()
    job = lengthy(reply_to="default", enqueued_at=datetime.now(UTC))
    await desk.publish(job)
    await say(desk, job.id)
    await start_worker(engine).ready()
    result = await desk.result()
    assert (result.job_id, result.outcome) == (job.id, Cancelled())
    assert engine.begun == 0


async def test_what_is_published_later_under_the_same_id_is_another_job(
    broker_url: str, namespace: str, desk: Desk, start_worker: StartWorker
) -> None:
    async with Producer(broker_url, namespace=namespace) as producer:
        handle = await producer.publish(GenerationJob(prompt="once"))
        await handle.cancel()
        assert (await handle.result(timeout=WAIT_S)).outcome == Cancelled()
        again = await producer.publish(GenerationJob(id=handle.job_id, prompt="again"))
        del handle
        await start_worker().ready()
        letter = await desk.dead()
        assert letter.job_id == again.job_id
        assert letter.job is not None
        assert letter.job.prompt == "once"


async def test_so_it_is_on_a_worker_that_remembers_the_first(
    broker_url: str, namespace: str, start_worker: StartWorker, until: Until
) -> None:
    engine = slow()
    await start_worker(engine).ready()
    async with Producer(broker_url, namespace=namespace) as producer:
        handle = await producer.publish(lengthy())
        await until(lambda: len(engine.running) == 1)
        await handle.cancel()
        assert (await handle.result(timeout=WAIT_S)).worker == "w1"
        again = await producer.publish(GenerationJob(id=handle.job_id, prompt="again"))
        del handle
        result = await again.result(timeout=WAIT_S)
        assert (result.outcome, result.text) == (Completed(), "again")


async def test_whoever_waits_hears_that_another_called_it_off(
    broker_url: str, namespace: str, desk: Desk
) -> None:
    async with Producer(broker_url, namespace=namespace) as producer:
        handle = await producer.publish(GenerationJob(prompt="wait for me"))
        async with Producer(broker_url, namespace=namespace) as other:
            assert await other.cancel(handle.job_id, reason="not needed")
        assert (await handle.result(timeout=WAIT_S)).outcome == Cancelled()


async def test_a_job_that_is_done_stays_what_it_is(
    broker_url: str, namespace: str, desk: Desk, start_worker: StartWorker
) -> None:
    await start_worker().ready()
    async with Producer(broker_url, namespace=namespace) as producer:
        handle = await producer.publish(GenerationJob(prompt="done"))
        result = await handle.result(timeout=WAIT_S)
        assert await handle.cancel()
        await asyncio.sleep(0.7)
        assert (await handle.result(timeout=WAIT_S)) is result
        assert result.outcome == Completed()


async def test_one_for_tomorrow_is_dropped_when_it_comes_back(
    broker_url: str, namespace: str, desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    """In a queue of waiting for the next attempt nobody can look."""
    engine = slow()
    await start_worker(engine).ready()
    job = lengthy(reply_to="default", attempt=2, enqueued_at=datetime.now(UTC))
    await say(desk, job.id)
    await desk.publisher.publish(
        desk.names.retry,
        desk.names.jobs_key(job.lane),
        encode(job),
        kind="generation_job",
        correlation_id=None,
        headers={"rung": "5s"},
        expiration_s=0.5,
        timeout_s=5,
    )
    result = await desk.result()
    assert (result.attempt, result.outcome) == (2, Cancelled())
    assert engine.begun == 0


async def test_nonsense_on_the_control_exchange_is_passed_over(
    desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    engine = slow()
    running = start_worker(engine)
    await running.ready()
    await desk.publish(job := lengthy(reply_to="default", enqueued_at=datetime.now(UTC)))
    await until(lambda: len(engine.running) == 1)
    nonsense = (b"", b"{", b"[" * 100_000, b'{"type": "cancel_job"}', b'{"type": "x"}', b"\xff")
    for body in nonsense:
        await desk.publisher.publish(
            desk.names.control, "", body, kind="cancel_job", correlation_id=None, timeout_s=5
        )
    await say(desk, job.id)
    assert (await desk.result()).outcome == Cancelled()
    assert not running.task.done()
