"""New jobs that wait for room: how long, and what becomes of their copies."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from sluicegate.producer.subscription import Delivery
from sluicegate.producer.transaction import Outgoing
from sluicegate.schemas import AgentContext, AgentJob, Names, decode, encode
from sluicegate.schemas.topology import DELIVERY_LIMIT
from sluicegate.worker.agent.beginning import Beginning
from sluicegate.worker.cancellations import Cancellations
from sluicegate.worker.publications import Identity, Settlement

from .troupe import WAIT_S, job

NAMES = Names("beginning")


@dataclass(eq=False)
class Message:
    """A delivery, as far as it matters here."""

    body: bytes
    times_returned: int = 0
    again: list[Outgoing] = field(default_factory=list)

    async def exchange(self, messages: Sequence[Outgoing]) -> bool:
        self.again.extend(messages)
        return True


class Carried:
    """A carrier that writes down what it is given."""

    def __init__(self) -> None:
        self.settled: list[tuple[str, Message]] = []
        self.begun: list[tuple[str, Message]] = []
        self.broken = False

    async def settle(self, settlement: Settlement, deliveries: list[Message]) -> None:
        while deliveries:
            self.settled.append((settlement.verb.value, deliveries.pop()))

    async def answer_copy(self, job: AgentJob, delivery: Message) -> bool:
        del job, delivery
        await asyncio.sleep(0)
        if self.broken:
            raise ZeroDivisionError
        return False

    async def begin(self, context: AgentContext, deliveries: list[Message]) -> bool:
        self.begun.append((context.id, deliveries.pop()))
        return False


class Everything:
    """A site for every job."""

    def of(self, job: AgentJob) -> None:
        """Nothing is missing."""


class Crowd:
    """Whether jobs under way wait; and that it was asked."""

    def __init__(self, waits: bool) -> None:
        self.waits = waits
        self.asked = asyncio.Event()

    async def __call__(self) -> bool:
        self.asked.set()
        return self.waits


def beginning(carrier: Carried, crowd: Crowd, room_s: float, slots: int = 1) -> Beginning:
    return Beginning(
        Identity(worker="a", model="", names=NAMES),
        cast("Any", Everything()),
        cast("Any", carrier),
        cast("Any", None),
        rules="",
        slots=asyncio.Semaphore(slots),
        patience_s=WAIT_S,
        room_s=room_s,
        crowded=crowd,
        cancellations=Cancellations(),
    )


def delivered(this: AgentJob, returned: int = 0) -> tuple[Message, Delivery]:
    message = Message(encode(this), returned)
    return message, cast("Delivery", message)


@pytest.mark.parametrize(("waits", "slots"), [(True, 1), (False, 0)])
async def test_a_job_goes_back_before_the_broker_takes_it_away(waits: bool, slots: int) -> None:
    carrier = Carried()
    new = beginning(carrier, Crowd(waits), room_s=0.05, slots=slots)
    message, delivery = delivered(job())
    assert await new.begin(new.take(job(), delivery)) == []
    assert carrier.settled == [("nack", message)]
    assert carrier.begun == []


async def test_before_the_broker_would_give_it_up_it_is_published_anew() -> None:
    carrier = Carried()
    new = beginning(carrier, Crowd(waits=True), room_s=0.05)
    this = job()
    message, delivery = delivered(this, DELIVERY_LIMIT - 1)
    await new.begin(new.take(this, delivery))
    assert carrier.settled == []
    (again,) = message.again
    assert again.routing_key == NAMES.new_agents_key
    assert decode(again.body, AgentJob) == this


async def test_copies_join_a_job_that_waits_and_the_newest_counts() -> None:
    carrier, crowd, this = Carried(), Crowd(waits=True), job()
    new = beginning(carrier, crowd, room_s=WAIT_S)
    (first, delivery), (second, again), (third, once_more) = (delivered(this) for _ in range(3))
    one = new.take(this, delivery)
    assert new.join(this, again)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(new.begin(one))
        await crowd.asked.wait()
        assert new.join(this, once_more)
        assert not new.join(job(), delivery)
        crowd.waits = False
    assert running.result() == []
    assert carrier.begun == [(this.id, third)]
    assert sorted(carrier.settled, key=lambda each: each[1] is second) == [
        ("ack", first),
        ("ack", second),
    ]
    assert not new.join(this, delivery)  # it is under way


async def test_closed_it_lets_go_at_once_of_what_waits() -> None:
    carrier, crowd = Carried(), Crowd(waits=True)
    new = beginning(carrier, crowd, room_s=WAIT_S)
    jobs = [job(), job(), job()]
    messages = [delivered(this) for this in jobs]
    ones = [new.take(this, delivery) for this, (_, delivery) in zip(jobs, messages, strict=True)]
    waiting = [asyncio.create_task(new.begin(one)) for one in ones[:2]]
    await crowd.asked.wait()
    late = asyncio.create_task(new.begin(ones[2]))  # it has not come so far as to wait
    assert new.close() == [delivery for _, delivery in messages]
    async with asyncio.timeout(WAIT_S):
        await asyncio.wait([*waiting, late])
    assert carrier.settled == carrier.begun == []


async def test_a_fault_of_ours_is_left_to_others_first() -> None:
    carrier = Carried()
    carrier.broken = True
    new = beginning(carrier, Crowd(waits=False), room_s=WAIT_S)
    message, delivery = delivered(job())
    await new.begin(new.take(job(), delivery))
    assert carrier.settled == [("reject", message)]
