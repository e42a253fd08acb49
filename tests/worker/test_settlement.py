"""The settlement table, row by row: decided by pure functions, carried out on a real broker."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sluicegate.schemas import (
    Completed,
    Expired,
    Failed,
    GenerationJob,
    Reason,
    Sampling,
    encode,
)
from sluicegate.worker.engine import EngineError, Segment
from sluicegate.worker.scripted import ScriptedEngine, echo

from .conftest import Desk, StartWorker

pytestmark = pytest.mark.broker

SLOW = "a text that takes a while to come back, letter by letter, from the script" * 3


def job(prompt: str = "hello", **fields: Any) -> GenerationJob:
    return GenerationJob(prompt=prompt, reply_to="default", **fields)


class Calls:
    """A script that counts how often it was asked."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def __call__(self, _segment: Segment, prompt: str) -> str:
        self.prompts.append(prompt)
        return prompt


async def test_accepted(desk: Desk, start_worker: StartWorker) -> None:
    running = start_worker()
    sent = await desk.publish(job(metadata={"k": [1, None]}, enqueued_at=datetime.now(UTC)))
    result = await desk.result()
    assert (result.job_id, result.attempt, result.text) == (sent.id, 1, "hello")
    assert result.outcome == Completed()
    assert result.metadata == {"k": [1, None]}
    assert result.worker == "w1"
    assert result.model == "scripted"
    assert result.timings.queued_s is not None
    assert await running.stopped() == 0
    assert await desk.depth(desk.names.jobs_queue("interactive")) == 0
    assert await desk.depth(desk.names.dead) == 0


async def test_both_lanes_are_served(desk: Desk, start_worker: StartWorker) -> None:
    start_worker()
    await desk.publish(job(lane="batch"))
    assert (await desk.result()).ok
    await desk.publish(job(lane="interactive"))
    assert (await desk.result()).ok


async def test_a_lane_that_is_not_served_waits(desk: Desk, start_worker: StartWorker) -> None:
    running = start_worker(lanes="interactive=2")
    await desk.publish(job(lane="batch"))
    await desk.publish(job("there", lane="interactive"))
    assert (await desk.result()).text == "there"
    assert await running.stopped() == 0
    assert await desk.depth(desk.names.jobs_queue("batch")) == 1


async def test_no_more_is_taken_than_there_are_slots(
    desk: Desk, start_worker: StartWorker, until: Callable[[Callable[[], bool]], Any]
) -> None:
    engine = ScriptedEngine(echo, chunk=1, step_s=0.05)
    start_worker(engine, lanes="interactive=2", drain_grace_s=0)
    for _ in range(5):
        await desk.publish(job(SLOW))
    await until(lambda: len(engine.running) == 2)
    await desk.until_depth(desk.names.jobs_queue("interactive"), 3)


async def test_deadline_passed(desk: Desk, start_worker: StartWorker) -> None:
    calls = Calls()
    start_worker(ScriptedEngine(calls))
    await desk.publish(job(deadline=datetime.now(UTC) - timedelta(seconds=1)))
    assert (await desk.dead()).reason is Reason.DEADLINE_PASSED
    assert isinstance((await desk.result()).outcome, Expired)
    assert calls.prompts == []


async def test_wall_time_used_up(desk: Desk, start_worker: StartWorker) -> None:
    start_worker(ScriptedEngine(echo, chunk=1, step_s=0.02), attempt_timeout_s=0.2)
    await desk.publish(job(SLOW))
    letter = await desk.dead()
    result = await desk.result()
    assert letter.reason is Reason.ATTEMPT_TIMEOUT
    assert letter.job is not None
    (attempt,) = letter.job.lineage.attempts
    assert attempt.text
    assert SLOW.startswith(attempt.text)
    assert attempt.text_chars == len(attempt.text)
    assert isinstance(result.outcome, Failed)
    assert "0.2 s" in result.outcome.detail
    assert result.text == ""


async def test_an_engine_fault_is_tried_again_and_then_told(
    desk: Desk, start_worker: StartWorker, impatient: str
) -> None:
    calls = Calls()

    def script(segment: Segment, prompt: str) -> str:
        calls(segment, prompt)
        raise EngineError("out of memory")

    start_worker(ScriptedEngine(script), retry_file=impatient)
    sent = await desk.publish(job())
    letter = await desk.dead()
    result = await desk.result()
    # One fault is allowed here; none of them spent an attempt.
    assert len(calls.prompts) == 2
    assert letter.reason is Reason.ENGINE_FAULT
    assert letter.detail.startswith("out of memory; ")
    assert letter.job is not None
    (fault,) = letter.job.lineage.faults
    assert (fault.attempt, fault.worker, fault.detail) == (1, "w1", "out of memory")
    assert 4.0 <= fault.wait_s <= 5.0
    assert isinstance(result.outcome, Failed)
    assert (result.job_id, result.attempt) == (sent.id, 1)
    assert await desk.depth(desk.names.dead) == 0


async def test_an_engine_fault_that_passes_costs_no_attempt(
    desk: Desk, start_worker: StartWorker
) -> None:
    calls = Calls()

    def script(segment: Segment, prompt: str) -> str:
        calls(segment, prompt)
        if len(calls.prompts) == 1:
            raise EngineError("out of memory")
        return "there"

    start_worker(ScriptedEngine(script))
    await desk.publish(job(max_attempts=1))
    result = await desk.result()
    assert (result.ok, result.attempt, result.text) == (True, 1, "there")
    assert [fault.detail for fault in result.lineage.faults] == ["out of memory"]
    await desk.until_depth(desk.names.jobs_queue("interactive"), 0)


async def test_a_bug_of_ours_takes_no_worker_down(
    desk: Desk, start_worker: StartWorker, impatient: str
) -> None:
    def script(_segment: Segment, prompt: str) -> str:
        if prompt == "bug":
            raise ZeroDivisionError("a bug")
        return prompt

    start_worker(ScriptedEngine(script), retry_file=impatient)
    await desk.publish(job("bug"))
    await desk.publish(job("fine"))
    results = {(await desk.result()).outcome.__struct_config__.tag for _ in range(2)}
    assert results == {"failed", "completed"}
    assert "ZeroDivisionError: a bug" in (await desk.dead()).detail


async def test_a_duplicate_of_a_running_attempt_joins_it(
    desk: Desk, start_worker: StartWorker, until: Callable[[Callable[[], bool]], Any]
) -> None:
    calls = Calls()
    engine = ScriptedEngine(calls, chunk=1, step_s=0.02)
    running = start_worker(engine)
    sent = job("twice, but once", id="dup-1")
    await desk.publish(sent)
    await until(lambda: len(engine.running) == 1)
    await desk.publish(sent)
    assert (await desk.result()).job_id == "dup-1"
    assert await running.stopped() == 0
    assert calls.prompts == ["twice, but once"]
    assert await desk.depth(desk.names.jobs_queue("interactive")) == 0
    assert await desk.depth(desk.names.results_queue("default")) == 0


async def test_a_duplicate_of_a_settled_attempt_gets_the_same_answer_again(
    desk: Desk, start_worker: StartWorker
) -> None:
    calls = Calls()
    start_worker(ScriptedEngine(calls))
    sent = job("again", id="dup-2")
    await desk.publish(sent)
    first = await desk.result()
    await desk.publish(sent)
    second = await desk.result()
    assert first == second
    assert calls.prompts == ["again"]


async def test_a_duplicate_with_another_reply_key_is_answered_there(
    desk: Desk, start_worker: StartWorker, until: Callable[[Callable[[], bool]], Any]
) -> None:
    from sluicegate.producer.declare import bind, declare_queue
    from sluicegate.schemas import reply

    channel = await desk.channel()
    for key in ("one", "two", "three"):
        queue, binding = reply(desk.names, key)
        await declare_queue(channel, queue)
        await bind(channel, binding)
    calls = Calls()
    engine = ScriptedEngine(calls, chunk=1, step_s=0.02)
    start_worker(engine)
    await desk.publish(GenerationJob(id="dup-3", prompt="for all of us", reply_to="one"))
    await until(lambda: len(engine.running) == 1)
    await desk.publish(GenerationJob(id="dup-3", prompt="for all of us", reply_to="two"))
    results = [await desk.result("one"), await desk.result("two")]
    await desk.publish(GenerationJob(id="dup-3", prompt="for all of us", reply_to="three"))
    results.append(await desk.result("three"))
    assert results[0] == results[1] == results[2]
    assert calls.prompts == ["for all of us"]
    await desk.until_depth(desk.names.jobs_queue("interactive"), 0)
    assert await desk.depth(desk.names.dead) == 0
    for key in ("one", "two", "three"):
        await channel.queue_delete(desk.names.results_queue(key))


async def test_a_result_that_nobody_takes_goes_to_the_dead_letters(
    desk: Desk, start_worker: StartWorker
) -> None:
    start_worker()
    sent = GenerationJob(prompt="anyone?", reply_to="nobody")
    await desk.publish(sent)
    letter = await desk.dead()
    assert letter.reason is Reason.RESULT_UNROUTABLE
    assert letter.result is not None
    assert letter.result.text == "anyone?"
    assert "nobody" in letter.detail
    await desk.until_depth(desk.names.jobs_queue("interactive"), 0)


@pytest.mark.parametrize("budget_s", [10.0, 0.5], ids=["within its budget", "goes back first"])
async def test_an_outcome_that_cannot_be_published_is_kept_until_it_can(
    budget_s: float, desk: Desk, start_worker: StartWorker
) -> None:
    calls = Calls()
    engine = ScriptedEngine(calls, chunk=1, step_s=0.05)
    worker = start_worker(engine, publish_timeout_s=budget_s, attempt_timeout_s=0.1)
    await worker.ready()
    channel = await desk.channel()
    await channel.exchange_delete(desk.names.dlx)
    sent = await desk.publish(job(SLOW))
    while not calls.prompts:
        await asyncio.sleep(0.01)
    await asyncio.sleep(1.2)
    await channel.exchange_declare(desk.names.dlx, exchange_type="fanout", durable=True)
    await channel.queue_bind(desk.names.dead, desk.names.dlx)
    assert (await desk.dead()).job_id == sent.id
    assert (await desk.result()).job_id == sent.id
    # Generated once, whatever it took to deliver the outcome.
    assert calls.prompts == [SLOW]
    await desk.until_depth(desk.names.jobs_queue("interactive"), 0)


async def test_retried_jobs_carry_their_history_into_the_result(
    desk: Desk, start_worker: StartWorker
) -> None:
    from sluicegate.schemas import AttemptRecord, Lineage, Usage

    start_worker()
    earlier = AttemptRecord(
        attempt=1,
        worker="w0",
        started_at=datetime.now(UTC),
        usage=Usage(prompt_tokens=7, completion_tokens=11, cached_tokens=3),
    )
    await desk.publish(job("hello", attempt=2, lineage=Lineage(attempts=(earlier,))))
    result = await desk.result()
    assert [attempt.attempt for attempt in result.lineage.attempts] == [1, 2]
    assert result.usage.prompt_tokens == 7 + 5
    assert result.usage.completion_tokens == 11 + 6
    assert encode(result)


async def test_two_deliveries_that_come_together_are_one_attempt(
    desk: Desk, start_worker: StartWorker
) -> None:
    calls = Calls()
    for number in range(8):
        sent = job("twice at once", id=f"twin-{number}")
        await desk.publish(sent)
        await desk.publish(sent)
    start_worker(ScriptedEngine(calls, chunk=1, step_s=0.02))
    results = {(await desk.result()).job_id for _ in range(8)}
    await desk.until_depth(desk.names.jobs_queue("interactive"), 0)
    assert len(results) == 8
    assert len(calls.prompts) == 8


async def test_events_that_nobody_can_take_are_in_nobodys_way(
    desk: Desk, start_worker: StartWorker
) -> None:
    calls = Calls()
    await start_worker(ScriptedEngine(calls, chunk=1, step_s=0.005)).ready()
    channel = await desk.channel()
    await channel.exchange_delete(desk.names.events)
    for _ in range(8):
        await desk.publish(job("a text that is streamed to nobody at all", stream=True))
    assert all([(await desk.result()).ok for _ in range(8)])
    assert len(calls.prompts) == 8
    await channel.exchange_declare(desk.names.events, exchange_type="topic", durable=True)


async def test_an_engine_error_of_any_text_is_told(
    desk: Desk, start_worker: StartWorker, impatient: str
) -> None:
    def script(_segment: Segment, _prompt: str) -> str:
        raise EngineError("\ud800\x1b[2J" + "x" * 5_000_000)

    start_worker(ScriptedEngine(script), retry_file=impatient)
    sent = await desk.publish(job())
    letter = await desk.dead()
    assert letter.job_id == sent.id
    assert len(letter.detail) <= 800
    assert isinstance((await desk.result()).outcome, Failed)


async def test_a_result_that_the_broker_finds_too_large_is_told_in_few_words(
    desk: Desk, start_worker: StartWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluicegate.producer.confirms import ConfirmedPublisher
    from sluicegate.schemas import InvalidMessage

    publish = ConfirmedPublisher.publish

    async def picky(self: ConfirmedPublisher, *where: Any, **how: Any) -> None:
        (body,) = (each for each in where if isinstance(each, bytes))
        if len(body) > 3_000 and how["kind"] != "generation_job":
            raise InvalidMessage(Reason.TOO_LARGE, "$", "more than max_message_size")
        await publish(self, *where, **how)

    monkeypatch.setattr(ConfirmedPublisher, "publish", picky)
    start_worker()
    sent = await desk.publish(job("x" * 5_000, profile="off", sampling=Sampling(max_tokens=5_000)))
    result = await desk.result()
    assert isinstance(result.outcome, Failed)
    assert (result.job_id, result.outcome.reason) == (sent.id, Reason.TOO_LARGE)
    # The job itself is kept whole, by the broker.
    assert (await desk.take(desk.names.dead)) == encode(sent)
