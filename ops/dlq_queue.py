"""Looking at the queue of dead letters without changing it.

A look takes every message at once, acknowledges none, and closes the channel it did that on: the
broker puts all of them back in their old order. Measured on 3.10.8:

- Closing keeps the order, a SIGKILL too; `basic.nack`, with or without `multiple`, shuffles it.
- Only who holds the whole queue gives it back in order: what was put back before waits apart from
  the rest, first in, first out, so a part of it would come back behind the others. With a prefetch
  of the queue's length the broker hands over all of it in one step, before the first message is
  sent; then it does not matter how much was read when the look ends, or is killed.
- Nobody else may look meanwhile and take an empty queue for the truth. An exclusive queue is the
  lock, and goes away with its connection; an exclusive consumer is none, quorum queues let a second
  one in.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final, cast

import aiormq
from aio_pika.abc import AbstractRobustConnection
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import (
    ChannelAccessRefused,
    ChannelLockedResource,
    ChannelNotFoundEntity,
)
from msgspec import Struct

from ..producer.connection import (
    CONNECTION_LOST,
    address,
    close,
    close_channel,
    connect,
    lost_not_cancelled,
    open_channel,
)
from ..producer.errors import AccessRefused, BrokerUnreachable, TopologyMissing
from ..producer.tasks import see_through
from ..schemas.errors import SluiceError
from ..schemas.topology import Names
from ..worker.config import Config
from .dlq_letter import Letter, Properties, read_letter

Channel = aiormq.abc.AbstractChannel

STEP_S: Final = 30.0
# A look that has just ended is over for the broker some milliseconds later.
LOCK_WAIT_S: Final = 5.0
_PAUSE_S: Final = 0.1
# The largest prefetch there is. (0, which says no limit, is 2,000 to a quorum queue.) More letters
# than that take several consumers, and come back in the order of their tags while they are few.
LARGEST_PREFETCH: Final = 65_535
_IDLE_S: Final = 2.0
_MOST_IDLE_S: Final = 30.0


class SomebodyLooks(SluiceError):
    """The dead letters are in other hands: what is seen now would be a part of them."""


class LookLost(SluiceError):
    """The queue stopped in the middle of a look. Everything is put back."""


class Dead(Struct, frozen=True):
    """A dead message in hand, and the tag to settle it by."""

    letter: Letter
    tag: int


class Look:
    """The queue in hand: every message of it once, oldest first, none of them settled."""

    def __init__(
        self, connection: AbstractRobustConnection, channel: Channel, names: Names, total: int
    ) -> None:
        self.connection = connection
        self.channel = channel
        self.names = names
        self.total = total
        self._arrived: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
        # Messages asked for and not here yet; and whether anybody still wants them.
        self._coming = 0
        self._all_here = asyncio.Event()
        self._wanted = True

    async def letters(self) -> AsyncGenerator[Dead]:
        """All that lay there when the look began. Raises LookLost, BrokerUnreachable.

        They come as fast as the broker can send: whoever is slow holds them all in memory.
        """
        for number, start in enumerate(range(0, self.total, LARGEST_PREFETCH)):
            share = min(LARGEST_PREFETCH, self.total - start)
            self._coming += share
            with told(self.connection):  # no time limit: the answer comes behind the messages
                await self.channel.basic_qos(prefetch_count=share)
                await self.channel.basic_consume(
                    self.names.dead, self._take, consumer_tag=f"look.{number:03d}"
                )
        for position in range(self.total):
            message = await self._next()
            yield Dead(_read(message, position), message.delivery_tag or 0)

    async def settled(self) -> None:
        """Return when the queue itself has every acknowledgement that was sent until now.

        The channel answers before: it keeps acknowledgements back while the queue is behind, and
        when it is closed those are lost. A `basic.get` passes through the queue behind them; as a
        rule it finds nothing, and what it finds is put back with the rest.
        """
        with told(self.connection):
            await self.channel.basic_get(self.names.dead, timeout=STEP_S)

    async def come(self) -> None:
        """Let what is still on its way arrive, unread: a channel can't be closed in good order
        while the broker sends. Gives up where nothing comes for a while."""
        self._wanted = False
        while self._coming > 0 and not self.channel.is_closed:
            before = self._coming
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_IDLE_S):
                    await self._all_here.wait()
            if self._coming == before:
                return

    async def _take(self, message: DeliveredMessage) -> None:
        self._coming -= 1
        if self._coming <= 0:
            self._all_here.set()
        if self._wanted:
            self._arrived.put_nowait(message)

    async def _next(self) -> DeliveredMessage:
        """The next message. A look that misses some is no look: it never just ends early."""
        waited_s = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_IDLE_S):
                    return await self._arrived.get()
            if self.channel.is_closed or self.connection.is_closed:
                raise BrokerUnreachable(f"lost {address(self.connection)} in the middle of a look")
            waited_s += _IDLE_S
            if waited_s >= _MOST_IDLE_S:
                raise LookLost(
                    f"queue {self.names.dead} had {self.total} messages, {self._coming} of them "
                    f"did not come, and nothing else did for {_MOST_IDLE_S:g} s. All are put back. "
                    "Was the queue purged in that moment, or is the broker short of memory?"
                )


@asynccontextmanager
async def looking(config: Config) -> AsyncGenerator[Look]:
    """The queue of dead letters in hand, alone. When the context ends, however it does, all that
    was not acknowledged lies there as before.

    Raises BrokerUnreachable, TopologyMissing, AccessRefused, SomebodyLooks.
    """
    names = Names(config.namespace)
    connection = await connect(
        config.amqp_url,
        timeout_s=config.connect_timeout_s,
        name=f"sluice dlq {socket.gethostname()}:{os.getpid()}",
    )
    try:
        lock = await _locked(connection, names)
        total = await _alone(connection, names)
        channel = await open_channel(connection, timeout_s=STEP_S)
        look = Look(connection, channel, names, total)
        try:
            yield look
        finally:
            await see_through(_put_back(look, lock))
    finally:
        await close(connection)


async def _put_back(look: Look, lock: Channel) -> None:
    """Close the channel, and keep the lock until everything is back."""
    await look.come()
    await close_channel(look.channel)
    with contextlib.suppress(SluiceError, TimeoutError, *CONNECTION_LOST):
        async with asyncio.timeout(LOCK_WAIT_S):
            while (await standing(look.connection, look.names))[1]:  # noqa: ASYNC110  brokers send no event
                await asyncio.sleep(_PAUSE_S)
    await close_channel(lock)


async def standing(connection: AbstractRobustConnection, names: Names) -> tuple[int, int]:
    """How many dead letters wait, and how many consumers hold some. Raises TopologyMissing."""
    channel = await open_channel(connection, timeout_s=STEP_S)
    try:
        with told(connection, names.dead):
            stands = await channel.queue_declare(names.dead, passive=True, timeout=STEP_S)
    finally:
        await close_channel(channel)
    return stands.message_count or 0, stands.consumer_count or 0


async def _locked(connection: AbstractRobustConnection, names: Names) -> Channel:
    """A channel of the connection that holds the lock."""
    name = f"{names.dead}.looking"
    waited_s = 0.0
    while True:
        channel = await open_channel(connection, timeout_s=STEP_S)
        try:
            with told(connection, name):
                await channel.queue_declare(name, exclusive=True, timeout=STEP_S)
        except ChannelLockedResource as error:
            await close_channel(channel)
            if waited_s >= LOCK_WAIT_S:
                raise SomebodyLooks(
                    "somebody else is looking at the dead letters, or taking some. What they hold "
                    "can't be seen; wait until they are done"
                ) from error
        except BaseException:
            await see_through(close_channel(channel))
            raise
        else:
            return channel
        await asyncio.sleep(_PAUSE_S)
        waited_s += _PAUSE_S


async def _alone(connection: AbstractRobustConnection, names: Names) -> int:
    """How many letters there are, once nobody holds any."""
    waited_s = 0.0
    while True:
        ready, consumers = await standing(connection, names)
        if not consumers:
            return ready
        if waited_s >= LOCK_WAIT_S:
            raise SomebodyLooks(
                f"{consumers} consumer(s) that are no `sluice dlq` take from queue {names.dead}. "
                "What they hold can't be seen; stop them first"
            )
        await asyncio.sleep(_PAUSE_S)
        waited_s += _PAUSE_S


@contextlib.contextmanager
def told(
    connection: AbstractRobustConnection, what: str = "", *, kind: str = "queue"
) -> Generator[None]:
    """What a broker's refusal, or its loss, means. A lock that is held is left to the caller."""
    try:
        with lost_not_cancelled():
            yield
    except ChannelLockedResource:
        raise
    except ChannelNotFoundEntity as error:
        raise TopologyMissing([f"{kind} {what!r}"] if what else [str(error)]) from error
    except ChannelAccessRefused as error:
        raise AccessRefused(
            f"this user may not do that with {what or 'the queue'}: {error}"
        ) from error
    except CONNECTION_LOST as error:
        raise BrokerUnreachable(f"lost {address(connection)}: {error}") from error


def _read(message: DeliveredMessage, position: int) -> Letter:
    given = message.header.properties
    return read_letter(
        message.body,
        Properties(
            message_id=given.message_id or "",
            correlation_id=given.correlation_id or "",
            message_type=given.message_type or "",
            routing_key=message.routing_key or "",
            timestamp=given.timestamp if isinstance(given.timestamp, datetime) else None,
            headers=cast("dict[str, Any]", given.headers or {}),
        ),
        position,
    )
