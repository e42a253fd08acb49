"""The producer against a real broker, with a fake worker on the other side."""

import asyncio
import gc
import logging
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from aio_pika.exceptions import ChannelNotFoundEntity
from sluicegate.producer import (
    BrokerUnreachable,
    ChatMessage,
    GenerationJob,
    GenerationResult,
    Handle,
    InvalidMessage,
    Producer,
    ProducerClosed,
    PublishManyFailed,
    QueueFull,
    Reason,
    ResultTimeout,
    ResultUnreadable,
    Sampling,
    TopologyMissing,
    Unroutable,
)
from sluicegate.producer.connection import close, connect, open_channel
from sluicegate.producer.declare import one_channel
from sluicegate.schemas import DeadLetter, Names, decode
from sluicegate.schemas.results import Cancelled
from sluicegate.schemas.topology import reply

from .fake_worker import FakeWorker, answer
from .waiting import nothing_left, until

pytestmark = pytest.mark.broker


def job(prompt: str = "Why?", **fields: object) -> GenerationJob:
    return msgspec.structs.replace(GenerationJob(prompt=prompt), **fields)


async def depth(url: str, queue: str) -> int:
    """Ready messages, asked of the broker."""
    connection = await connect(url, timeout_s=10, name="test")
    try:
        async with one_channel(connection, 10) as channel:
            count = (await channel.queue_declare(queue, passive=True)).message_count
            assert count is not None
            return count
    finally:
        await close(connection)


async def delete_queue(url: str, queue: str) -> None:
    connection = await connect(url, timeout_s=10, name="test")
    async with one_channel(connection, 10) as channel:
        await channel.queue_delete(queue)
    await close(connection)


async def test_a_job_comes_back_with_its_result(
    broker_url: str, namespace: str, worker: FakeWorker
) -> None:
    async with Producer(broker_url, namespace=namespace) as producer:
        sent = job(metadata={"order": 7}, traceparent=f"00-{'1' * 32}-{'2' * 16}-01")
        handle = await producer.publish(sent)
        result = await handle.result(timeout=10)
        assert result.text == "You said: Why?"
        assert result.metadata == {"order": 7}
        assert result is await handle.result(timeout=0)
        assert result is await producer.attach(sent.id).result(timeout=0)
        assert "results on private-" in repr(producer)
    (seen,) = worker.seen
    assert seen.reply_to.startswith("private-")
    assert seen.enqueued_at is not None
    assert abs((datetime.now(UTC) - seen.enqueued_at).total_seconds()) < 60
    with pytest.raises(ChannelNotFoundEntity):
        await depth(broker_url, Names(namespace).results_queue(seen.reply_to))


async def test_two_hundred_jobs_keep_their_order(
    broker_url: str, namespace: str, worker: FakeWorker
) -> None:
    async with Producer(broker_url, namespace=namespace, max_in_flight=16) as producer:
        jobs = [job(f"number {number}") for number in range(200)]
        handles = await producer.publish_many(jobs)
        assert [handle.job_id for handle in handles] == [each.id for each in jobs]
        results = await asyncio.gather(*(handle.result(timeout=30) for handle in handles))
    assert [result.text for result in results] == [f"You said: {each.prompt}" for each in jobs]
    assert len(worker.seen) == 200


async def test_many_jobs_from_a_source_are_taken_as_they_come(
    broker_url: str, namespace: str, worker: FakeWorker
) -> None:
    taken = 0

    async def source() -> AsyncGenerator[GenerationJob]:
        nonlocal taken
        for number in range(20):
            taken += 1
            yield job(f"number {number}")

    async with Producer(broker_url, namespace=namespace) as producer:
        handles = await producer.publish_many(source(), concurrency=3)
        results = [await handle.result(timeout=10) for handle in handles]
    assert [each.text for each in results] == [f"You said: number {n}" for n in range(20)]


async def test_an_invalid_job_among_many_stops_them_all(
    broker_url: str, namespace: str, worker: FakeWorker
) -> None:
    async with Producer(broker_url, namespace=namespace) as producer:
        bad = job(sampling=msgspec.structs.replace(Sampling(), max_tokens=0))
        with pytest.raises(
            PublishManyFailed, match=r"0 of 3 .* Job number 1 .*max_tokens"
        ) as failed:
            await producer.publish_many([job(), bad, job()])
        assert failed.value.published == {}
        assert set(failed.value.failures) == {1}
        with pytest.raises(TypeError, match="number 0 is no job"):
            await producer.publish_many(["Why?"])  # pyright: ignore[reportArgumentType]
        assert await depth(broker_url, Names(namespace).jobs_queue("interactive")) == 0
    assert worker.seen == []


async def test_a_failure_amid_many_says_which_were_published(
    broker_url: str, namespace: str, worker: FakeWorker
) -> None:
    async def source() -> AsyncGenerator[GenerationJob]:
        for number in range(5):
            yield job(f"number {number}")
        raise OSError("the database went away")

    async with Producer(broker_url, namespace=namespace) as producer:
        with pytest.raises(PublishManyFailed, match="the database went away") as failed:
            await producer.publish_many(source(), concurrency=2)
        handles = [failed.value.published[index] for index in range(5)]
        assert [(await handle.result(timeout=10)).ok for handle in handles] == [True] * 5
        assert isinstance(failed.value.failures[5], OSError)


async def test_an_invalid_job_is_refused_before_anything_is_sent(
    broker_url: str, namespace: str
) -> None:
    async with Producer(broker_url, namespace=namespace) as producer:
        with pytest.raises(InvalidMessage) as failure:
            await producer.publish(job(sampling=Sampling(temperature=9)))
        assert failure.value.field == "$.sampling.temperature"
        talk = tuple(ChatMessage(role="user", content="x" * 400_000) for _ in range(3))
        with pytest.raises(InvalidMessage, match="the limit is 1,048,576") as failure:
            await producer.publish(GenerationJob(messages=talk))
        assert failure.value.reason == Reason.TOO_LARGE
        assert await depth(broker_url, Names(namespace).jobs_queue("interactive")) == 0


async def test_an_unroutable_job_is_given_back(broker_url: str, namespace: str) -> None:
    names = Names(namespace)
    async with Producer(broker_url, namespace=namespace) as producer:
        connection = await connect(broker_url, timeout_s=10, name="test")
        async with one_channel(connection, 10) as channel:
            await channel.queue_unbind(
                names.jobs_queue("batch"), names.jobs, names.jobs_key("batch")
            )
        await close(connection)
        with pytest.raises(Unroutable, match=r"jobs\.batch"):
            await producer.publish(job(lane="batch"))
        await producer.publish(job(lane="interactive"))


async def test_a_full_queue_is_said_and_not_tried_again(broker_url: str, namespace: str) -> None:
    names = Names(namespace)
    connection = await connect(broker_url, timeout_s=10, name="test")
    async with one_channel(connection, 10) as channel:
        queue = names.jobs_queue("batch")
        await channel.queue_delete(queue)
        small = {**reply(names, "x")[0].arguments, "x-max-length": 2}
        await channel.queue_declare(queue, durable=True, arguments=dict[str, Any](small))
        await channel.queue_bind(queue, names.jobs, names.jobs_key("batch"))
    await close(connection)
    async with Producer(broker_url, namespace=namespace) as producer:
        with pytest.raises(PublishManyFailed) as failed:
            await producer.publish_many([job(lane="batch") for _ in range(50)], concurrency=1)
        (refused,) = failed.value.failures.values()
        assert isinstance(refused, QueueFull)
        assert len(failed.value.published) < 10
        assert await depth(broker_url, queue) == len(failed.value.published)


async def test_a_missing_topology_is_named_at_the_start(
    broker_url: str, bare_namespace: str
) -> None:
    async with nothing_left():
        with pytest.raises(TopologyMissing, match="sluice topology apply") as failure:
            async with Producer(broker_url, namespace=bare_namespace):
                pass
    assert f"queue '{bare_namespace}.jobs.batch'" in failure.value.missing


async def test_a_result_that_is_late_can_still_be_had(
    broker_url: str, namespace: str, worker: FakeWorker
) -> None:
    worker.going.clear()
    async with Producer(broker_url, namespace=namespace) as producer:
        handle = await producer.publish(job())
        assert not handle.done
        with pytest.raises(ResultTimeout, match="can still arrive") as failure:
            await handle.result(timeout=0.05)
        assert isinstance(failure.value, TimeoutError)
        assert failure.value.job_id == handle.job_id
        worker.going.set()
        first, second = await asyncio.gather(handle.result(timeout=10), handle.result(timeout=10))
        assert first is second
        assert handle.done


async def test_the_same_id_twice_gives_two_handles_that_resolve(
    broker_url: str, namespace: str, worker: FakeWorker
) -> None:
    async with Producer(broker_url, "twice", namespace=namespace) as producer:
        sent = job(id="order-7")
        one, two = await producer.publish(sent), await producer.publish(sent)
        assert await one.result(timeout=10) == await two.result(timeout=10)
        del one, two
        again = await producer.publish(sent)
        assert (await again.result(timeout=10)).job_id == "order-7"
        for _ in range(3):
            await asyncio.wait_for(worker.answered.acquire(), 10)
    assert len(worker.seen) == 3
    await delete_queue(broker_url, Names(namespace).results_queue("twice"))


async def test_duplicates_are_acknowledged_and_dropped(
    broker_url: str, namespace: str, worker: FakeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "sluicegate.producer")
    worker.copies = 4
    queue = Names(namespace).results_queue("dups")
    async with Producer(broker_url, "dups", namespace=namespace) as producer:
        handle = await producer.publish(job())
        result = await handle.result(timeout=10)
        await asyncio.wait_for(worker.answered.acquire(), 10)
        stray = await producer.publish(job("last"))  # behind the duplicates
        await stray.result(timeout=10)
        await until(lambda: "6 duplicates dropped" in repr(producer))
    assert f"result of {result.job_id} attempt 1 dropped" in caplog.text
    assert await depth(broker_url, queue) == 0
    await delete_queue(broker_url, queue)


async def test_results_nobody_took_go_back_and_are_had_by_the_next(
    broker_url: str, namespace: str, worker: FakeWorker
) -> None:
    queue = Names(namespace).results_queue("orders")
    async with Producer(broker_url, "orders", namespace=namespace) as producer:
        handles = await producer.publish_many(
            [job(f"{number}", id=f"n{number}") for number in range(6)]
        )
        assert (await handles[0].result(timeout=10)).job_id == "n0"
        for _ in range(6):
            await asyncio.wait_for(worker.answered.acquire(), 10)
    assert await depth(broker_url, queue) == 5

    async with Producer(broker_url, "orders", namespace=namespace) as producer:
        attached = producer.attach("n3")
        assert (await attached.result(timeout=10)).text == "You said: 3"
        found: list[str] = []
        async for result in producer.results(idle_s=0.5):
            found.append(result.job_id)
            if len(found) == 2:
                break  # leaves this one unacknowledged
        gc.collect()
        assert len(found) == 2
    assert await depth(broker_url, queue) == 3

    async with Producer(broker_url, "orders", namespace=namespace) as producer:
        rest = [result.job_id async for result in producer.results(idle_s=0.5)]
    assert sorted([found[0], *rest]) == ["n1", "n2", "n4", "n5"]
    assert await depth(broker_url, queue) == 0
    await delete_queue(broker_url, queue)


async def test_a_result_is_acknowledged_only_when_it_is_safe(
    broker_url: str, namespace: str, worker: FakeWorker
) -> None:
    queue = Names(namespace).results_queue("careful")

    async def fail(handle_result: GenerationResult) -> None:
        raise OSError("disk full")

    async with Producer(broker_url, "careful", namespace=namespace) as producer:
        handle = await producer.publish(job(id="a"))
        with pytest.raises(OSError, match="disk full"):
            async with handle.receive(timeout=10) as result:
                await fail(result)
        del handle
    assert await depth(broker_url, queue) == 1
    async with Producer(broker_url, "careful", namespace=namespace) as producer:
        handle = producer.attach("a")
        async with handle.receive(timeout=10) as result:
            assert result.job_id == "a"
            waiting = asyncio.create_task(producer.attach("a").result(timeout=10))
            await asyncio.sleep(0)
            assert not waiting.done()
        assert await waiting is result
        async with handle.receive(timeout=0) as again:
            assert again is result
    assert await depth(broker_url, queue) == 0
    await delete_queue(broker_url, queue)


async def test_more_untaken_results_than_the_window_do_not_block(
    broker_url: str, namespace: str, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluicegate.producer.inbox.PREFETCH", 4)
    async with Producer(broker_url, "window", namespace=namespace) as producer:
        handles = await producer.publish_many([job() for _ in range(40)])
        for _ in range(40):
            await asyncio.wait_for(worker.answered.acquire(), 10)
        # The last one first: all the others lie in front of it.
        for handle in reversed(handles):
            assert (await handle.result(timeout=20)).ok
    queue = Names(namespace).results_queue("window")
    # The broker may still be at the acknowledgements.
    async with asyncio.timeout(10):
        while await depth(broker_url, queue):
            await asyncio.sleep(0.1)
    await delete_queue(broker_url, queue)


async def test_results_that_cant_be_read_are_kept_as_dead_letters(
    broker_url: str, namespace: str, worker: FakeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    names = Names(namespace)
    queue = names.results_queue("torn")
    async with Producer(broker_url, "torn", namespace=namespace) as producer:
        waiting = producer.attach("job-1")
        await worker.publish_raw(
            b'{"type":"generation_result","schema_version":99}', "torn", "job-1"
        )
        with pytest.raises(ResultUnreadable, match="job-1") as failure:
            await waiting.result(timeout=10)
        assert failure.value.reason == Reason.FUTURE_VERSION
        await worker.publish_raw(b"\xff\xfe", "torn")
        big = b'{"type":"generation_result","schema_version":1,"x":"' + b"y" * 1_200_000
        await worker.publish_raw(big, "torn")
        # A good one still gets through, also to those who heard of the bad one.
        good = answer(job(id="job-1"))
        await worker.publish(good, "torn")

        async def all_kept() -> bool:
            return await depth(broker_url, names.dead) == 4

        await until(all_kept)
        await until(lambda: "result here" in repr(waiting) and producer.attach("job-1").done)
        assert await waiting.result(timeout=10) == good
    assert await depth(broker_url, queue) == 0
    bodies = await fetch(broker_url, names.dead, 4)
    assert big in bodies
    bodies.remove(big)
    letters = {letter.raw_body: letter for letter in (decode(body, DeadLetter) for body in bodies)}
    assert letters[b"\xff\xfe"].reason == Reason.MALFORMED_JSON
    (first,) = [letter for letter in letters.values() if letter.job_id == "job-1"]
    assert (first.reason, first.field) == (Reason.FUTURE_VERSION, "$.schema_version")
    assert (first.origin.stage, first.origin.queue) == ("deliver", queue)
    (cut,) = [letter for letter in letters.values() if letter.raw_body_bytes is not None]
    assert cut.raw_body_bytes == len(big)
    assert "field $.schema_version" in caplog.text
    await delete_queue(broker_url, queue)


async def fetch(url: str, queue: str, count: int) -> list[bytes]:
    connection = await connect(url, timeout_s=10, name="test")
    channel = await open_channel(connection, timeout_s=10)
    bodies = [(await channel.basic_get(queue, no_ack=True, timeout=10)).body for _ in range(count)]
    await close(connection)
    return bodies


async def test_without_a_dead_letter_exchange_nothing_is_lost(
    broker_url: str, namespace: str, worker: FakeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    names = Names(namespace)
    queue = names.results_queue("undead")
    async with Producer(broker_url, "undead", namespace=namespace) as producer:
        connection = await connect(broker_url, timeout_s=10, name="test")
        async with one_channel(connection, 10) as channel:
            await channel.exchange_delete(names.dlx)
        await close(connection)
        await worker.publish_raw(b"nonsense", "undead")
        await until(lambda: "could not be kept as a dead letter" in caplog.text)
        assert (await (await producer.publish(job())).result(timeout=10)).ok
    assert caplog.text.count("can't be read") == 1  # no loop
    assert await depth(broker_url, queue) == 1
    await delete_queue(broker_url, queue)


async def test_dropped_handles_leave_their_results_to_whoever_asks(
    broker_url: str, namespace: str, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluicegate.producer.inbox.PRIVATE_ORPHANS_KEPT", 3)
    async with Producer(broker_url, namespace=namespace) as producer:
        for number in range(8):
            await producer.publish(job(id=f"n{number}"))  # no handle kept
        for _ in range(8):
            await asyncio.wait_for(worker.answered.acquire(), 10)
        kept = [result.job_id async for result in producer.results(idle_s=0.5)]
        assert len(kept) == 3  # the newest, on a private queue


async def test_on_a_named_queue_so_many_are_kept_as_its_user_says(
    broker_url: str, namespace: str, worker: FakeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    queue = Names(namespace).results_queue("few")
    async with Producer(broker_url, "few", namespace=namespace, orphans_kept=3) as producer:
        for number in range(8):
            await producer.publish(job(id=f"n{number}"))  # no handle kept
        for _ in range(8):
            await asyncio.wait_for(worker.answered.acquire(), 10)
        kept = [result.job_id async for result in producer.results(idle_s=0.5)]
        assert len(kept) == 3
    assert await depth(broker_url, queue) == 0  # the others were acknowledged
    assert "are dropped" not in caplog.text  # as was asked for
    await delete_queue(broker_url, queue)


def test_fewer_than_none_can_not_be_kept() -> None:
    with pytest.raises(ValueError, match="orphans_kept"):
        Producer("amqp://localhost/", orphans_kept=-1)


async def test_closing_tells_whoever_waits(broker_url: str, namespace: str) -> None:
    async with nothing_left():
        async with Producer(broker_url, namespace=namespace) as producer:
            handle = await producer.publish(job())
            waiting = asyncio.create_task(handle.result(timeout=60))
            events = asyncio.create_task(collect(handle))
            loop = asyncio.create_task(collect_results(producer))
            await asyncio.sleep(0)
        with pytest.raises(ProducerClosed):
            await waiting
        await asyncio.wait_for(asyncio.gather(events, loop), 5)
        await producer.close()
        with pytest.raises(ProducerClosed, match="was closed"):
            await producer.publish(job())
        with pytest.raises(ProducerClosed):
            await producer.__aenter__()


async def collect(handle: Handle) -> list[str]:
    return [event.kind async for event in handle.events()]


async def collect_results(producer: Producer) -> list[GenerationResult]:
    return [result async for result in producer.results()]


async def test_a_producer_must_be_opened(broker_url: str) -> None:
    with pytest.raises(ProducerClosed, match="async with"):
        await Producer(broker_url).publish(job())
    with pytest.raises(InvalidMessage, match="reply"):
        Producer(broker_url, "no.dots")
    with pytest.raises(ValueError, match="max_in_flight"):
        Producer(broker_url, max_in_flight=0)
    with pytest.raises(BrokerUnreachable):
        await Producer("amqp://127.0.0.1:1/").__aenter__()


async def test_calling_off_tells_every_service(broker_url: str, namespace: str) -> None:
    names = Names(namespace)
    async with Producer(broker_url, namespace=namespace) as producer:
        handle = await producer.publish(job(id="too-slow"))
        connection = await connect(broker_url, timeout_s=10, name="test")
        channel = await open_channel(connection, timeout_s=10)
        queue = f"{namespace}.ear"
        await channel.queue_declare(queue, exclusive=True)
        await channel.queue_bind(queue, names.control)
        assert await handle.cancel() is True
        heard = await channel.basic_get(queue, no_ack=True, timeout=10)
        assert msgspec.json.decode(heard.body)["job_id"] == "too-slow"
        assert heard.header.properties.message_type == "cancel_job"
        await close(connection)


async def test_a_job_that_nobody_works_on_is_answered_all_the_same(
    broker_url: str, namespace: str
) -> None:
    async with Producer(broker_url, namespace=namespace) as producer:
        handle = await producer.publish(job())
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(handle.result(timeout=10))
            assert await handle.cancel()
        result = waiting.result()
        assert (result.outcome, result.worker) == (Cancelled(), None)
        assert [event async for event in handle.events()] == []


async def test_what_comes_of_it_later_is_dropped(
    broker_url: str, namespace: str, worker: FakeWorker
) -> None:
    """Where the services don't know that it was called off, say, and have the text made."""
    async with Producer(broker_url, "late", namespace=namespace) as producer:
        worker.going.clear()
        handle = await producer.publish(job())
        await asyncio.wait_for(worker.arrived.acquire(), 10)
        assert await handle.cancel()
        assert (await handle.result(timeout=10)).outcome == Cancelled()
        worker.going.set()
        assert [each async for each in producer.results(idle_s=0.5)] == []
        assert (await handle.result(timeout=0)).outcome == Cancelled()
        # The same id again is another job.
        again = await producer.publish(job(id=handle.job_id, prompt="again"))
        del handle
    async with Producer(broker_url, "late", namespace=namespace) as producer:
        (result,) = [each async for each in producer.results(idle_s=2)]
    assert (result.job_id, result.ok) == (again.job_id, True)


async def test_without_a_log_of_it_nothing_is_called_off(broker_url: str, namespace: str) -> None:
    async with Producer(broker_url, namespace=namespace, events=False) as producer:
        handle = await producer.publish(job())
        connection = await connect(broker_url, timeout_s=10, name="test")
        async with one_channel(connection, 10) as channel:
            await channel.queue_delete(Names(namespace).control_log)
        await close(connection)
        assert await handle.cancel() is False
        with pytest.raises(ResultTimeout):
            await handle.result(timeout=0.8)


async def test_what_is_no_job_id_can_not_be_called_off(broker_url: str, namespace: str) -> None:
    async with Producer(broker_url, namespace=namespace) as producer:
        with pytest.raises(InvalidMessage, match="job_id"):
            await producer.cancel("two words")


async def test_a_named_queue_made_by_others_is_taken_as_it_is(
    broker_url: str, namespace: str, worker: FakeWorker
) -> None:
    names = Names(namespace)
    queue, _ = reply(names, "given")
    connection = await connect(broker_url, timeout_s=10, name="test")
    async with one_channel(connection, 10) as channel:
        await channel.queue_declare(
            queue.name, durable=True, arguments={"x-queue-type": "quorum", "x-max-length": 17}
        )
    async with Producer(broker_url, "given", namespace=namespace) as producer:
        assert (await (await producer.publish(job())).result(timeout=10)).ok
    async with one_channel(connection, 10) as channel:
        await channel.queue_delete(queue.name)
    await close(connection)


async def test_a_deleted_reply_queue_is_made_again(
    broker_url: str, namespace: str, worker: FakeWorker
) -> None:
    async with Producer(broker_url, "gone", namespace=namespace) as producer:
        queue = Names(namespace).results_queue("gone")
        await delete_queue(broker_url, queue)
        async with asyncio.timeout(20):
            while True:
                handle = await producer.publish(job())
                try:
                    assert (await handle.result(timeout=1)).ok
                    break
                except ResultTimeout:
                    continue
        await delete_queue(broker_url, queue)
