"""Looking at exchanges and queues over AMQP, without changing any.

AMQP has no way to read the properties of a queue. Declaring it with the properties one expects
tells the first that differs, with its value; but would create the queue if it were gone. So each
question here carries one argument that the broker ignores on a queue that stands and refuses when
it would have to create one (measured on 3.10.8, and so in the source of later versions): the answer
is "equal", the name of a difference, or a refusal, and never a new queue.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

import aiormq
from aio_pika.abc import AbstractRobustConnection
from aiormq.exceptions import (
    ChannelAccessRefused,
    ChannelLockedResource,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
)
from msgspec import Struct

from ..producer.connection import CONNECTION_LOST, address, close_channel, open_channel
from ..producer.errors import BrokerUnreachable
from ..schemas.topology import Topology
from .topology_check import (
    Observed,
    Properties,
    Value,
    exchange_properties,
    queue_properties,
)

TIMEOUT_S: Final = 30.0

# For streams only: not compared on other queues, refused when another queue is to be created.
QUEUE_GUARD: Final = "x-max-age"
# For classic queues only: the same for a stream.
STREAM_GUARD: Final = "x-max-priority"
# Compared last, and of the wrong type: refused when an exchange is to be created, and different
# from whatever stands.
EXCHANGE_GUARD: Final = "alternate-exchange"
GUARD_VALUES: Final[dict[str, Any]] = {QUEUE_GUARD: "1s", STREAM_GUARD: 1, EXCHANGE_GUARD: 1}
# A queue that compares a guard is of this type.
_GUARDED: Final = {QUEUE_GUARD: "stream", STREAM_GUARD: "classic"}


# More differences than that in one queue: something else is wrong.
MAX_DIFFERENCES: Final = 40

# A value that differs, and no more is known.
UNTOLD: Final = "(untold)"

Channel = aiormq.abc.AbstractChannel


class Conflict(Struct, frozen=True):
    """What a broker said differs. `value` is None where it is not set."""

    property: str
    value: Value


class Seen(Struct, frozen=True):
    """One exchange or queue as it stands: None where it is missing.

    `unchecked` says why not all of it could be compared.
    """

    properties: Properties | None
    unchecked: str | None = None


async def observe(
    connection: AbstractRobustConnection, topology: Topology, *, timeout_s: float = TIMEOUT_S
) -> Observed:
    """What stands of this topology. Changes nothing. Raises BrokerUnreachable."""
    askers = [
        *(
            (_Asker(connection, "exchange", each.name, timeout_s), exchange_properties(each))
            for each in topology.exchanges
        ),
        *(
            (
                _Asker(connection, "queue", each.name, timeout_s, is_stream=each.is_stream),
                queue_properties(each),
            )
            for each in topology.queues
        ),
    ]
    found: dict[str, dict[str, Properties]] = {"exchange": {}, "queue": {}}
    unchecked: list[str] = []
    try:
        async with asyncio.timeout(timeout_s):
            for asker, wanted in askers:
                seen = await _look(asker, wanted)
                if seen.properties is not None:
                    found[asker.kind][asker.name] = seen.properties
                if seen.unchecked:
                    what = f"further properties of {asker.kind} {asker.name}"
                    unchecked.append(f"{what}: {seen.unchecked}")
    except CONNECTION_LOST as error:
        where = address(connection)
        raise BrokerUnreachable(f"lost {where} while asking for the topology: {error}") from error
    return Observed(found["exchange"], found["queue"], None, tuple(unchecked))


def parse_conflict(text: str, asked: Properties) -> Conflict | None:
    """What differs, read from the broker's words; None where they say something else.

    The value has a type of its own only where that differs from what was asked.
    """
    found = re.search(
        r"inequivalent arg '(?P<key>[^']+)' for .*"
        r" but current is (?:none|(?:the value )?'(?P<value>.*?)'(?: of type '(?P<type>\w+)')?)$",
        text,
        re.DOTALL,
    )
    if found is None:
        return None
    key, value = found["key"], found["value"]
    if value is None:
        return Conflict(key, None)
    kind = found["type"]
    like = asked.get(key)
    if kind == "bool" or (kind is None and isinstance(like, bool)):
        return Conflict(key, value == "true")
    if kind in _INTEGERS or (kind is None and isinstance(like, int)):
        return Conflict(key, int(value))
    return Conflict(key, value)


_INTEGERS: Final = {
    f"{sign}{size}"
    for sign in ("", "signed", "unsigned")
    for size in ("byte", "short", "int", "long")
}


class _Asker(Struct, frozen=True):
    """Asks about one exchange or queue; each "no" costs a channel, as AMQP has it."""

    connection: AbstractRobustConnection
    kind: str
    name: str
    timeout_s: float
    is_stream: bool = False

    @property
    def guard(self) -> str:
        if self.kind == "exchange":
            return EXCHANGE_GUARD
        return STREAM_GUARD if self.is_stream else QUEUE_GUARD

    async def declare(self, properties: Properties) -> None:
        """Ask whether it stands with these properties, guarded against creating it."""
        arguments: dict[str, Any] = {
            key: value
            for key, value in properties.items()
            if _is_argument(key) and value is not None
        }
        arguments[self.guard] = GUARD_VALUES[self.guard]
        durable, auto_delete = bool(properties["durable"]), bool(properties["auto_delete"])

        def ask(channel: Channel) -> Awaitable[object]:
            if self.kind == "queue":
                return channel.queue_declare(
                    queue=self.name, durable=durable, auto_delete=auto_delete, arguments=arguments
                )
            return channel.exchange_declare(
                exchange=self.name,
                exchange_type=str(properties["type"]),
                durable=durable,
                auto_delete=auto_delete,
                internal=bool(properties["internal"]),
                arguments=arguments,
            )

        await self._on_channel(ask)

    async def exists(self) -> bool:
        """Ask whether it stands at all, for which no rights are needed."""

        def ask(channel: Channel) -> Awaitable[object]:
            if self.kind == "queue":
                return channel.queue_declare(queue=self.name, passive=True)
            return channel.exchange_declare(exchange=self.name, passive=True)

        try:
            await self._on_channel(ask)
        except ChannelNotFoundEntity:
            return False
        return True

    async def _on_channel(self, ask: Callable[[Channel], Awaitable[object]]) -> None:
        channel = await open_channel(self.connection, timeout_s=self.timeout_s)
        try:
            await ask(channel)
        finally:
            await close_channel(channel)


async def _look(asker: _Asker, wanted: Properties) -> Seen:
    """Ask, put what differs in the place of what was asked, and ask again until it is equal."""
    asked = dict(wanted)
    learned: set[str] = set()
    while len(learned) < MAX_DIFFERENCES:
        answer = await _ask(asker, asked)
        if isinstance(answer, Seen):
            return answer
        if answer.property in learned:
            break  # the broker doesn't take its own value back
        learned.add(answer.property)
        asked[answer.property] = answer.value
    return Seen(asked, "the broker's answers can't be followed")


async def _ask(asker: _Asker, asked: Properties) -> Seen | Conflict:
    try:
        await asker.declare(asked)
    except ChannelPreconditionFailed as error:
        return read_refusal(str(error), asked, asker.guard)
    except ChannelAccessRefused:
        if not await asker.exists():
            return Seen(None)
        return Seen(asked, "this user may not configure it")
    except ChannelLockedResource:
        return Seen(asked | {"exclusive": True}, "it is exclusive")
    except ChannelNotFoundEntity as error:
        # One that is missing is refused; this one stands on a node that is down.
        return Seen(asked, str(error))
    return Seen(asked)


def read_refusal(text: str, asked: Properties, guard: str) -> Conflict | Seen:
    """What a refusal (406) says: one more difference, or what stands, as far as can be known."""
    conflict = parse_conflict(text, asked)
    if conflict is None:
        return _read_partly(text, asked, guard)
    match conflict.property:
        case "alternate-exchange" if conflict.value is None:
            return Seen(asked)  # nothing but the guard differs
        case "alternate-exchange":
            return Seen(asked | {"alternate-exchange": conflict.value})
        case "x-queue-type":
            return Seen(asked | {"x-queue-type": conflict.value or "classic"}, _OTHER_TYPE)
        case compared if compared == guard:
            return Seen(asked | {"x-queue-type": _GUARDED[guard]}, _OTHER_TYPE)
        case _:
            return conflict


def _read_partly(text: str, asked: Properties, guard: str) -> Seen:
    """What is left of an answer that tells no value: AMQP cuts it off after 255 bytes."""
    differs = re.search(r"inequivalent arg '([^']+)'", text)
    if differs is None:
        return Seen(None) if f"'{guard}'" in text else Seen(asked, text)
    if differs[1] == EXCHANGE_GUARD:
        return Seen(asked, "its name is too long for the broker to tell")
    return Seen(asked | {differs[1]: UNTOLD}, "its name is too long for the broker to tell more")


_OTHER_TYPE: Final = "queues of another type have other arguments"


def _is_argument(key: str) -> bool:
    return key.startswith("x-")
