"""Whether the broker lets a user do what its role needs. Asking changes nothing: each question is a
call that is refused for its form alone where the right is there, and for the right where it isn't.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Literal, get_args

from aio_pika.abc import AbstractRobustConnection
from aio_pika.exceptions import ChannelPreconditionFailed
from aiormq.exceptions import AMQPError, ChannelAccessRefused
from msgspec import Struct
from pamqp.commands import Basic

from ..producer.connection import lost_not_cancelled
from ..producer.declare import Channel, one_channel
from ..schemas.topology import LANES, Names
from .doctor_findings import Finding, ok, trouble, unknown

Role = Literal["publisher", "worker", "checker", "agent", "operator"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)

_ASK_S: Final = 10.0
Ask = Callable[[Channel], Awaitable[object]]


class Needs(Struct, frozen=True):
    """What a role writes to (exchanges) and reads from (queues)."""

    writes: tuple[str, ...]
    reads: tuple[str, ...] = ()


def needs(role: Role, names: Names) -> Needs:
    """What a role can't do without."""
    lanes = tuple(names.jobs_queue(lane) for lane in LANES)
    out = (names.results, names.events, names.dlx)
    # What was called off and what is paused, before any work is taken.
    said = (names.control_log, names.pauses_log)
    match role:
        case "publisher":
            return Needs((names.jobs, names.control))
        case "worker":
            return Needs((names.jobs, names.retry, *out), (*lanes, *said))
        case "checker":
            return Needs((names.retry, *out), (names.checks, *said))
        case "agent":
            agents = (names.agents, names.new_agents, names.journal, *said)
            return Needs((names.jobs, *out, names.tools), agents)
        case "operator":
            return Needs((names.jobs, names.retry, names.control, names.pauses), (names.dead,))


async def look(connection: AbstractRobustConnection, role: Role, names: Names) -> Finding:
    """Whether the user of this connection may do what the role needs. Raises BrokerUnreachable."""
    wanted = needs(role, names)
    refused: list[str] = []
    unsaid: list[str] = []
    questions: list[tuple[str, Ask]] = [
        *((f"write to exchange {each}", _writing(each)) for each in wanted.writes),
        *((f"read from queue {each}", _reading(each)) for each in wanted.reads),
    ]
    for what, ask in questions:
        answer = await _may(connection, ask)
        if answer is not None:
            (refused if answer else unsaid).append(what)
    name = f"rights ({role})"
    if refused:
        return trouble(
            name,
            f"may not {', '.join(refused)}",
            "`sluice topology definitions` prints users with what each role needs",
        )
    if unsaid:
        return unknown(
            name,
            f"no answer to whether it may {', '.join(unsaid)}",
            "`sluice topology apply` creates what is missing; then ask again",
        )
    return ok(name, f"{len(questions)} of {len(questions)}")


async def _may(connection: AbstractRobustConnection, ask: Ask) -> bool | None:
    """None where it may; True where it is refused, False where the broker says something else."""
    try:
        with lost_not_cancelled():
            async with asyncio.timeout(_ASK_S), one_channel(connection, _ASK_S) as channel:
                await ask(channel)
    except ChannelAccessRefused:
        return True
    except ChannelPreconditionFailed:
        return None
    except (AMQPError, OSError, RuntimeError):
        return False
    return False


def _writing(exchange: str) -> Ask:
    """A message whose expiration is no number is refused, after the right was looked at."""

    async def ask(channel: Channel) -> None:
        await channel.basic_publish(
            b"",
            exchange=exchange,
            routing_key="sluice.doctor",
            properties=Basic.Properties(expiration="none"),
        )
        # A publish has no answer; this one comes after it.
        await channel.basic_qos(prefetch_count=1)

    return ask


def _reading(queue: str) -> Ask:
    """A consumer whose priority is no number is refused, after the right was looked at."""

    async def ask(channel: Channel) -> None:
        await channel.basic_qos(prefetch_count=1)
        await channel.basic_consume(
            queue, _never, no_ack=False, arguments={"x-priority": "none", "x-stream-offset": "next"}
        )

    return ask


async def _never(message: object) -> None:
    del message
