"""Events on their way out: in order, merged where they can be, dropped where they must be."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from sluicegate.schemas import (
    Accepted,
    Completed,
    Delta,
    Finished,
    GenerationJob,
    JobEvent,
    Names,
    decode,
)
from sluicegate.worker.event_stream import EventStream

from .conftest import Desk

pytestmark = pytest.mark.broker


async def published(desk: Desk, say: Callable[[EventStream], Any], **kind: Any) -> list[JobEvent]:
    """What reaches the exchange of all that `say` hands over at once."""
    channel = await desk.channel()
    queue = (await channel.queue_declare(exclusive=True)).queue
    assert queue is not None
    await channel.queue_bind(queue, desk.names.events, routing_key="#")
    stream = EventStream(desk.names, "w1", **kind)
    say(stream)
    stream.close()
    async with asyncio.timeout(10):
        await stream.run(desk.connection)
    found: list[JobEvent] = []
    # The events were not confirmed: a confirmed marker behind them shows that all have arrived.
    await channel.queue_bind(queue, desk.names.jobs, routing_key="marker")
    await desk.publisher.publish(
        desk.names.jobs, "marker", b"end", kind="marker", correlation_id=None, timeout_s=10
    )
    async with asyncio.timeout(10):
        while True:
            message = await channel.basic_get(queue, no_ack=True)
            if message.body == b"end":
                return found
            if message.body and message.header.properties.message_type == "job_event":
                found.append(decode(bytes(message.body), JobEvent))


def job(number: int) -> GenerationJob:
    return GenerationJob(id=f"job-{number}", prompt="x")


async def test_deltas_of_a_job_that_stand_together_go_as_one(desk: Desk) -> None:
    def say(stream: EventStream) -> None:
        first, second = stream.of(job(1)), stream.of(job(2))
        first.emit(Accepted())
        first.delta(0, "a")
        first.delta(1, "b")
        second.delta(0, "x")
        first.delta(2, "c")
        first.emit(Finished(outcome=Completed()))

    events = await published(desk, say)
    assert [(event.job_id, event.kind) for event in events] == [
        ("job-1", "accepted"),
        ("job-1", "delta"),
        ("job-2", "delta"),
        ("job-1", "delta"),
        ("job-1", "finished"),
    ]
    texts = [event.event for event in events if isinstance(event.event, Delta)]
    assert [(delta.offset, delta.text) for delta in texts] == [(0, "ab"), (0, "x"), (2, "c")]
    sequence = [event.seq for event in events if event.job_id == "job-1"]
    assert sequence == sorted(sequence)


async def test_when_the_buffer_is_full_the_oldest_go(desk: Desk) -> None:
    def say(stream: EventStream) -> None:
        for number in range(5):
            stream.of(job(number)).emit(Accepted())

    events = await published(desk, say, capacity=2)
    assert [event.job_id for event in events] == ["job-3", "job-4"]


async def test_a_broker_that_does_not_take_events_holds_nothing_up(desk: Desk) -> None:
    stream = EventStream(Names("no.such.namespace"), "w1")
    for number in range(50):
        stream.of(job(number)).emit(Accepted())
    stream.close()
    async with asyncio.timeout(10):
        await stream.run(desk.connection)
