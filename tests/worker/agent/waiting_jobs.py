"""Agent jobs that wait for a person, made for tests; and a queue of them on a broker."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import aiormq
from aio_pika.abc import AbstractRobustConnection
from pamqp.commands import Basic
from sluicegate.producer.connection import close_channel, open_channel
from sluicegate.schemas import Names, decode, encode
from sluicegate.schemas.agents import (
    AgentContext,
    AgentJob,
    Execution,
    Orchestration,
    Round,
    Spent,
)
from sluicegate.schemas.tools import Approval, ToolCall, ToolResult, ToolStatus

LIMIT_S = 30.0


def now() -> datetime:
    return datetime.now(UTC)


def call(effect_id: str, expires_in_s: float | None = 600.0, **more: Any) -> ToolCall:
    """A call that waits; with None one that needs nobody."""
    approval = None
    if expires_in_s is not None:
        approval = Approval(expires_at=now() + timedelta(seconds=expires_in_s))
    given: dict[str, Any] = {
        "id": effect_id.rpartition(":")[2],
        "name": "pay",
        "arguments": {"euros": 5},
        "effect_id": effect_id,
        "approval": approval,
    }
    return ToolCall(**{**given, **more})


def done(effect_id: str) -> ToolCall:
    return call(effect_id, None, result=ToolResult(status=ToolStatus.OK, content="paid"))


def context(job_id: str = "job-1", *calls: ToolCall, **more: Any) -> AgentContext:
    """It waits for the calls, one where none is given, of its second round since a minute ago."""
    rounds = (
        Round(number=1, at=now(), calls=(done(f"{job_id}:1:a"),)),
        Round(number=2, at=now(), calls=calls or (call(f"{job_id}:2:a"),)),
    )
    given: dict[str, Any] = {
        "id": job_id,
        "revision": 7,
        "at": now(),
        "job": AgentJob(id=job_id, task="Pay the bills.", tools=("pay",)),
        "execution": Execution(rounds=rounds),
        "orchestration": Orchestration(
            phase="approving",
            started_at=now() - timedelta(minutes=5),
            waiting_since=now() - timedelta(minutes=1),
            spent=Spent(waited_s=10.0, rounds=2),
        ),
    }
    return AgentContext(**{**given, **more})


def many(count: int, *, start: int = 0) -> list[AgentContext]:
    return [context(f"job-{number:04d}") for number in range(start, start + count)]


async def publish(
    connection: AbstractRobustConnection, queue: str, bodies: Iterable[AgentContext | bytes]
) -> None:
    """Into a queue, in order, each confirmed and with a message id of its own."""
    channel = await open_channel(connection, confirms=True, timeout_s=LIMIT_S)
    raw = [body if isinstance(body, bytes) else encode(body) for body in bodies]
    await asyncio.gather(
        *(
            channel.basic_publish(
                body,
                routing_key=queue,
                properties=Basic.Properties(delivery_mode=2, message_id=f"{id(raw)}-{number}"),
                mandatory=True,
            )
            for number, body in enumerate(raw)
        )
    )
    await close_channel(channel)


async def ready(connection: AbstractRobustConnection, queue: str) -> int:
    """How many messages wait in a queue."""
    channel = await open_channel(connection, timeout_s=LIMIT_S)
    stands = await channel.queue_declare(queue, passive=True)
    await close_channel(channel)
    return stands.message_count or 0


async def until(connection: AbstractRobustConnection, queue: str, count: int) -> None:
    """Return when so many messages wait there."""
    async with asyncio.timeout(LIMIT_S):
        while await ready(connection, queue) != count:
            await asyncio.sleep(0.02)


async def taken(connection: AbstractRobustConnection, queue: str) -> list[bytes]:
    """Every message of a queue, taken away."""
    found: list[bytes] = []
    arrived = asyncio.Event()

    async def take(message: aiormq.abc.DeliveredMessage) -> None:
        found.append(message.body)
        arrived.set()

    channel = await open_channel(connection, timeout_s=LIMIT_S)
    await channel.basic_consume(queue, take, no_ack=True)
    async with asyncio.timeout(LIMIT_S):
        while True:
            arrived.clear()
            try:
                async with asyncio.timeout(0.5):
                    await arrived.wait()
            except TimeoutError:
                break
    await close_channel(channel)
    return found


async def contexts(connection: AbstractRobustConnection, queue: str) -> list[AgentContext]:
    return [decode(body, AgentContext) for body in await taken(connection, queue)]


async def everywhere(
    connection: AbstractRobustConnection, names: Names
) -> tuple[Sequence[AgentContext], Sequence[AgentContext]]:
    """The jobs that wait and those that go on, taken away."""
    waits = await contexts(connection, names.approvals)
    return waits, await contexts(connection, names.agents)


def states(given: AgentContext) -> list[str | None]:
    """Of the calls of its last round."""
    last = given.execution.rounds[-1]
    return [each.approval.state if each.approval else None for each in last.calls]
