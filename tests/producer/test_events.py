"""Events from the broker to whoever follows a job."""

import asyncio
from datetime import UTC, datetime

import pytest
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.producer import (
    Accepted,
    Completed,
    Delta,
    Finished,
    GenerationJob,
    Handle,
    Judged,
    Producer,
    Reasoned,
    Reasoning,
    ReasoningRecord,
    Verdict,
    watch,
)

from .fake_worker import FakeWorker, working
from .waiting import nothing_left, until

pytestmark = pytest.mark.broker

FINISHED = Finished(outcome=Completed())


async def follow(handle: Handle) -> list[tuple[int, str]]:
    return [(event.seq, event.kind) async for event in handle.events()]


async def test_events_of_a_job_from_its_publishing_to_its_end(
    broker_url: str, namespace: str, worker: FakeWorker
) -> None:
    worker.going.clear()
    async with Producer(broker_url, namespace=namespace) as producer:
        handle = await producer.publish(GenerationJob(prompt="Tell me", stream=True))
        other = await producer.publish(GenerationJob(prompt="Something else"))
        for _ in range(2):
            await asyncio.wait_for(worker.arrived.acquire(), 10)
        job = next(each for each in worker.seen if each.id == handle.job_id)
        await worker.tell(job, Accepted(), 0)
        await worker.tell(job, Delta(offset=0, text="On"), 1)
        text = ""
        kinds: list[str] = []
        async with asyncio.timeout(10):
            async for event in handle.events():
                kinds.append(event.kind)
                if isinstance(event.event, Delta):
                    text += event.event.text
                    if event.seq < 3:
                        following = Delta(offset=len(text), text="ce"[event.seq - 1])
                        await worker.tell(job, following, event.seq + 1)
                    else:
                        worker.going.set()
                        await worker.tell(job, FINISHED, 4)
        assert kinds == ["accepted", "delta", "delta", "delta", "finished"]
        assert text == "Once"
        # No event said "finished" for this one; its result does.
        async with asyncio.timeout(10):
            assert [event async for event in other.events()] == []
        assert (await other.result(timeout=1)).ok
        assert handle.events_dropped == 0


async def test_reasoning_and_answer_come_in_channels_of_their_own(
    broker_url: str, namespace: str, worker: FakeWorker
) -> None:
    record = ReasoningRecord(mode="cut", effort="low", cap=1024, tokens=2, ended="closed")
    worker.going.clear()
    async with Producer(broker_url, namespace=namespace) as producer:
        asked = GenerationJob(prompt="Why?", stream=True, reasoning=Reasoning(effort="low"))
        handle = await producer.publish(asked)
        await asyncio.wait_for(worker.arrived.acquire(), 10)
        (job,) = worker.seen
        assert job.reasoning == asked.reasoning
        told = [
            Delta(offset=0, text="Let me ", channel="reasoning"),
            Delta(offset=7, text="see.", channel="reasoning"),
            Delta(offset=0, text="Because "),
            Delta(offset=8, text="of it."),
            Reasoned(record=record),
            FINISHED,
        ]
        for number, each in enumerate(told):
            await worker.tell(job, each, number)
        texts = {"reasoning": "", "content": ""}
        records: list[ReasoningRecord] = []
        async with asyncio.timeout(10):
            async for event in handle.events():
                match event.event:
                    case Delta(offset=offset, text=text, channel=channel):
                        assert offset == len(texts[channel])
                        texts[channel] += text
                    case Reasoned(record=seen):
                        records.append(seen)
                    case _:
                        pass
        assert texts == {"reasoning": "Let me see.", "content": "Because of it."}
        assert records == [record]
        worker.going.set()
        assert (await handle.result(timeout=10)).ok


async def test_events_can_be_done_without(
    broker_url: str, namespace: str, worker: FakeWorker
) -> None:
    async with Producer(broker_url, namespace=namespace, events=False) as producer:
        handle = await producer.publish(GenerationJob(prompt="Quiet"))
        assert await follow(handle) == []
        assert (await handle.result(timeout=1)).ok


async def test_a_job_is_watched_from_outside(
    broker_url: str, namespace: str, worker: FakeWorker
) -> None:
    worker.going.clear()
    async with Producer(broker_url, namespace=namespace) as producer:
        handle = await producer.publish(GenerationJob(prompt="Tell me"))
        await asyncio.wait_for(worker.arrived.acquire(), 10)
        (job,) = worker.seen
        async with nothing_left():
            seen: list[str] = []
            watching = watch(broker_url, job.id, namespace=namespace)

            async def collect() -> None:
                async for event in watching:
                    seen.append(event.kind)  # noqa: PERF401  read while it grows

            task = asyncio.create_task(collect())

            async def heard() -> bool:
                await worker.tell(job, Accepted(), 0)
                return bool(seen)

            await until(heard)
            await worker.tell(job, FINISHED, 1)
            await asyncio.wait_for(task, 10)
        assert seen[0] == "accepted"
        assert seen[-1] == "finished"
        del handle


async def test_events_go_on_after_an_outage(
    killable_broker: PrivateBroker, killable_namespace: str
) -> None:
    url, namespace = killable_broker.url, killable_namespace
    async with (
        Producer(url, namespace=namespace, publish_timeout_s=60) as producer,
        working(url, namespace) as worker,
    ):
        worker.going.clear()
        handle = await producer.publish(GenerationJob(prompt="Tell me"))
        await asyncio.wait_for(worker.arrived.acquire(), 20)
        (job,) = worker.seen
        events = handle.events()
        await worker.tell(job, Accepted(), 0)
        assert (await asyncio.wait_for(anext(events), 10)).seq == 0
        await killable_broker.kill()
        await killable_broker.start()
        await asyncio.wait_for(worker.arrived.acquire(), 30)  # redelivered
        step = asyncio.ensure_future(anext(events))

        async def heard() -> bool:
            await worker.tell(job, Delta(offset=9, text="x"), 7)
            return step.done()

        await until(heard, 20)
        assert (await step).seq == 7  # a gap that can be seen
        worker.going.set()
        await worker.tell(job, FINISHED, 8)
        assert [event.kind async for event in events][-1] == "finished"
        assert (await handle.result(timeout=20)).ok


async def test_the_verdict_on_an_observed_text_comes_after_its_result(
    broker_url: str, namespace: str, worker: FakeWorker
) -> None:
    verdict = Verdict(outcome="rejected", checker="c1", at=datetime.now(UTC))
    async with Producer(broker_url, namespace=namespace) as producer:
        handle = await producer.publish(GenerationJob(prompt="Tell me", checks="observe"))
        result = await handle.result(timeout=10)
        (job,) = worker.seen
        await worker.tell(job, Finished(outcome=result.outcome), 0)
        assert [event.kind async for event in handle.events()] == ["finished"]
        waiting = asyncio.create_task(handle.verdict(timeout=10))
        await worker.tell(job, Judged(verdict=verdict), 0)
        assert await waiting == verdict
        assert await handle.verdict(timeout=10) == verdict, "and it stays"


async def test_a_verdict_that_does_not_come_is_none(
    broker_url: str, namespace: str, worker: FakeWorker
) -> None:
    async with Producer(broker_url, namespace=namespace) as producer:
        handle = await producer.publish(GenerationJob(prompt="Tell me"))
        await handle.result(timeout=10)
        assert await handle.verdict(timeout=0.1) is None
