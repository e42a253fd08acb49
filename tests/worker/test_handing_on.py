"""Attempts that go on: to the checker, to another attempt, to another worker. On a real broker."""

import asyncio
from typing import Any

import pytest
from sluicegate.rollback import attempt_seed
from sluicegate.schemas import (
    Candidate,
    Completed,
    Failed,
    Flaw,
    GenerationJob,
    Mutation,
    Reason,
    Sampling,
    decode,
)
from sluicegate.worker.engine import Segment
from sluicegate.worker.scripted import ScriptedEngine

from .conftest import Desk, StartWorker

pytestmark = pytest.mark.broker

GOOD = "The quick brown fox jumps over the lazy dog, and nobody minds. " * 3
BAD = "\x00"


def job(prompt: str = "hello", **fields: Any) -> GenerationJob:
    return GenerationJob(prompt=prompt, reply_to="default", **fields)


async def candidate(desk: Desk) -> Candidate:
    return decode(await desk.take(desk.names.checks), Candidate)


async def test_a_text_to_be_checked_first_goes_to_the_checker_alone(
    desk: Desk, start_worker: StartWorker
) -> None:
    running = start_worker()
    sent = await desk.publish(job("hello", checks="block", metadata={"order": 7}))
    waiting = await candidate(desk)
    assert waiting.job == sent
    assert waiting.result.outcome == Completed()
    assert (waiting.result.text, waiting.result.metadata) == ("hello", {"order": 7})
    assert len(waiting.result.lineage.attempts) == 1
    assert await running.stopped() == 0
    assert await desk.depth(desk.names.results_queue("default")) == 0
    assert await desk.depth(desk.names.jobs_queue("interactive")) == 0


async def test_a_text_to_be_observed_goes_to_both(desk: Desk, start_worker: StartWorker) -> None:
    start_worker()
    await desk.publish(job("hello", checks="observe"))
    assert (await desk.result()).text == "hello"
    assert (await candidate(desk)).result.text == "hello"


async def test_a_prompt_of_token_ids_is_told_to_the_checker_as_text(
    desk: Desk, start_worker: StartWorker
) -> None:
    start_worker()
    ids = tuple(b"what is it?")
    await desk.publish(GenerationJob(prompt_token_ids=ids, checks="block"))
    assert (await candidate(desk)).prompt == "what is it?"


async def test_a_duplicate_of_what_went_to_the_checker_changes_nothing(
    desk: Desk, start_worker: StartWorker
) -> None:
    running = start_worker()
    sent = await desk.publish(job(checks="block"))
    await candidate(desk)
    await desk.publish(sent)
    await desk.until_depth(desk.names.jobs_queue("interactive"), 0)
    assert await running.stopped() == 0
    assert await desk.depth(desk.names.checks) == 0
    assert await desk.depth(desk.names.jobs_queue("interactive")) == 0


async def test_a_duplicate_that_another_one_waits_for_goes_to_the_checker_too(
    desk: Desk, start_worker: StartWorker
) -> None:
    start_worker()
    sent = await desk.publish(job(checks="block"))
    await candidate(desk)
    await desk.publish(GenerationJob(id=sent.id, prompt="hello", checks="block", reply_to="two"))
    again = await candidate(desk)
    assert (again.job.reply_to, again.result.text) == ("two", "hello")


async def test_a_candidate_that_cannot_be_published_is_kept_until_it_can(
    desk: Desk, start_worker: StartWorker
) -> None:
    """Its delivery goes back, and comes again as a duplicate of what was not sent."""
    prompts: list[str] = []

    def script(_segment: Segment, prompt: str) -> str:
        prompts.append(prompt)
        return prompt

    worker = start_worker(ScriptedEngine(script, chunk=1, step_s=0.1), publish_timeout_s=0.5)
    await worker.ready()
    channel = await desk.channel()
    await desk.publish(job(checks="block"))
    while not prompts:
        await asyncio.sleep(0.01)
    await channel.queue_unbind(desk.names.checks, desk.names.jobs, desk.names.checks_key)
    await asyncio.sleep(2.0)
    await channel.queue_bind(desk.names.checks, desk.names.jobs, desk.names.checks_key)
    assert (await candidate(desk)).result.text == "hello"
    assert prompts == ["hello"]
    await desk.until_depth(desk.names.jobs_queue("interactive"), 0)


async def test_what_the_gates_would_not_have_is_tried_again_with_another_seed(
    desk: Desk, start_worker: StartWorker
) -> None:
    seeds: list[int] = []

    def script(segment: Segment, _prompt: str) -> str:
        seeds.append(segment.seed)
        second = segment.request_id.split(":")[1] == "2"
        return GOOD if second else GOOD[: segment.carried + 40] + BAD

    start_worker(ScriptedEngine(script))
    sent = await desk.publish(job(sampling=Sampling(temperature=0.9)))
    result = await desk.result()
    assert (result.ok, result.attempt, result.text) == (True, 2, GOOD)
    first, second = result.lineage.attempts
    assert first.flaw is Flaw.DENIED_CHARACTER
    assert first.text.endswith(BAD)
    assert first.trips[-1].action == "give_up"
    assert (second.flaw, second.text) == (None, "")
    assert second.segments[0].seed == attempt_seed(sent.id, None, 2) == seeds[-1]
    assert second.parameters["temperature"] < 0.9
    assert result.usage.wasted_tokens >= first.usage.wasted_tokens > 0
    await desk.until_depth(desk.names.jobs_queue("interactive"), 0)
    assert await desk.depth(desk.names.dead) == 0


async def test_what_the_gates_never_have_ends_after_exactly_its_attempts(
    desk: Desk, start_worker: StartWorker
) -> None:
    def script(segment: Segment, _prompt: str) -> str:
        return GOOD[: segment.carried + 40] + BAD

    start_worker(ScriptedEngine(script))
    await desk.publish(job(max_attempts=2))
    letter = await desk.dead()
    result = await desk.result()
    assert (letter.reason, letter.flaw) == (Reason.GATE_TRIPPED, Flaw.DENIED_CHARACTER)
    assert letter.found_by == "characters"
    assert letter.job is not None
    attempts = letter.job.lineage.attempts
    assert [each.attempt for each in attempts] == [1, 2]
    assert all(BAD in each.text for each in attempts)
    assert len({each.segments[0].seed for each in attempts}) == 2
    assert isinstance(result.outcome, Failed)
    assert (result.attempt, result.outcome.reason) == (2, Reason.GATE_TRIPPED)
    assert letter.versions["engine"] == "scripted"
    assert letter.versions["sluicegate"]


async def test_a_worker_leaves_a_job_that_failed_on_its_numbers_to_others(
    desk: Desk, start_worker: StartWorker
) -> None:
    start_worker()
    shy = Mutation(sampling=Sampling(), avoid=("w1",), passes=1)
    await desk.publish(job(attempt=2, mutation=shy))
    await desk.until_depth(desk.names.retry_queue("5s"), 1)
    # Nobody else is there, so in the end it does it.
    assert (await desk.result()).ok


async def test_a_worker_that_is_not_meant_takes_it_at_once(
    desk: Desk, start_worker: StartWorker
) -> None:
    start_worker()
    await desk.publish(job(attempt=2, mutation=Mutation(sampling=Sampling(), avoid=("w2",))))
    assert (await desk.result()).ok
    assert await desk.depth(desk.names.retry_queue("5s")) == 0


class Reader(ScriptedEngine):
    """It reads the whole conversation, as real ones do."""

    async def prompt_token_ids(self, job: GenerationJob) -> tuple[int, ...]:
        said = "".join(message.content for message in job.messages or ()) or job.prompt or ""
        return tuple(said.encode())


async def test_what_the_engine_refuses_for_the_retrys_sake_is_done_without(
    desk: Desk, start_worker: StartWorker
) -> None:
    start_worker(Reader(max_model_len=64))
    told = Mutation(sampling=Sampling(max_tokens=16), instruction="word " * 40)
    await desk.publish(
        job("hello", sampling=Sampling(max_tokens=16), attempt=2, max_attempts=2, mutation=told)
    )
    result = await desk.result()
    assert (result.ok, result.attempt, result.text) == (True, 2, "hello")
    assert result.lineage.attempts[-1].instruction == ""


async def test_a_text_to_be_observed_is_delivered_once_though_no_checker_can_have_it(
    desk: Desk, start_worker: StartWorker
) -> None:
    running = start_worker(publish_timeout_s=0.5)
    channel = await desk.channel()
    await channel.queue_unbind(desk.names.checks, desk.names.jobs, desk.names.checks_key)
    await desk.publish(job(checks="observe"))
    assert (await desk.result()).ok
    await desk.until_depth(desk.names.jobs_queue("interactive"), 0)
    assert await running.stopped() == 0
    for queue in (desk.names.results_queue("default"), desk.names.dead):
        assert await desk.depth(queue) == 0
    assert await desk.depth(desk.names.jobs_queue("interactive")) == 0


async def test_what_was_published_before_the_rest_could_be_is_not_published_again(
    desk: Desk, start_worker: StartWorker
) -> None:
    """The dead letter is out, its result can't be: the job goes back, and only the result comes."""
    worker = start_worker(publish_timeout_s=0.5)
    await worker.ready()
    channel = await desk.channel()
    await channel.exchange_delete(desk.names.results)
    await desk.publish(job(profile="nosuch"))
    assert (await desk.dead()).reason is Reason.UNSUPPORTED
    await asyncio.sleep(1.5)
    await channel.exchange_declare(desk.names.results, exchange_type="topic", durable=True)
    await channel.queue_bind(
        desk.names.results_queue("default"), desk.names.results, routing_key="default"
    )
    assert not (await desk.result()).ok
    await desk.until_depth(desk.names.jobs_queue("interactive"), 0)
    assert await desk.depth(desk.names.dead) == 0
