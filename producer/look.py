"""Looking at a whole queue without changing it.

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

- A node that has just come up says of a quorum queue without a leader yet that it is empty. A
  consumer must wait for the leader: what none is given is not there.

So each look has a connection of its own, and the delivery limit of the queue must be a large one.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Final

import aiormq
from aio_pika.abc import AbstractRobustConnection
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import (
    ChannelAccessRefused,
    ChannelLockedResource,
    ChannelNotFoundEntity,
)
from msgspec import Struct

from ..schemas.errors import SluiceError
from .connection import (
    CONNECTION_LOST,
    address,
    close,
    close_channel,
    connect,
    lost_not_cancelled,
    open_channel,
)
from .errors import AccessRefused, BrokerUnreachable, TopologyMissing
from .tasks import see_through

Channel = aiormq.abc.AbstractChannel

STEP_S: Final = 30.0
_PAUSE_S: Final = 0.1
_BACK_S: Final = 5.0


class SomebodyLooks(SluiceError):
    """The queue is in other hands: what is seen now would be a part of it."""


class LookLost(SluiceError):
    """The queue stopped in the middle of a look. Everything is put back."""


class Subject(Struct, frozen=True):
    """A queue to look at: `what` lies in it, and by what command (`who`) one looks."""

    queue: str
    what: str
    who: str


class Patience(Struct, frozen=True):
    """How long a look waits, in seconds. `lock_s`: for whoever looks already (a look that has just
    ended is over for the broker some milliseconds later); `idle_s`: for a message, before it sees
    whether the connection still stands; `most_idle_s`: for a message, in all.

    `prefetch`: the largest there is. (0, which says no limit, is 2,000 to a quorum queue.) More
    messages than that take several consumers, and come back in the order of their tags while they
    are few.
    """

    lock_s: float = 5.0
    idle_s: float = 2.0
    most_idle_s: float = 30.0
    prefetch: int = 65_535


class Look:
    """The queue in hand: every message of it once, oldest first, none of them settled."""

    def __init__(
        self,
        connection: AbstractRobustConnection,
        channel: Channel,
        subject: Subject,
        patience: Patience,
        total: int,
    ) -> None:
        self.connection = connection
        self.channel = channel
        self.subject = subject
        self.total = total
        self._patience = patience
        self._arrived: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
        # Messages asked for and not here yet; and whether anybody still wants them.
        self._coming = 0
        self._all_here = asyncio.Event()
        self._wanted = True

    async def messages(self) -> AsyncGenerator[DeliveredMessage]:
        """All that lay there when the look began. Raises LookLost, BrokerUnreachable.

        They come as fast as the broker can send: whoever is slow holds them all in memory.
        """
        most = self._patience.prefetch
        for number, start in enumerate(range(0, self.total, most)):
            share = min(most, self.total - start)
            self._coming += share
            with told(self.connection):  # no time limit: the answer comes behind the messages
                await self.channel.basic_qos(prefetch_count=share)
                await self.channel.basic_consume(
                    self.subject.queue, self._take, consumer_tag=f"look.{number:03d}"
                )
        for _ in range(self.total):
            yield await self._next()

    async def settled(self) -> None:
        """Return when the queue itself has every acknowledgement that was sent until now.

        The channel answers before: it keeps acknowledgements back while the queue is behind, and
        when it is closed those are lost. A `basic.get` passes through the queue behind them; as a
        rule it finds nothing, and what it finds is put back with the rest.
        """
        with told(self.connection):
            await self.channel.basic_get(self.subject.queue, timeout=STEP_S)

    async def come(self) -> None:
        """Let what is still on its way arrive, unread: a channel can't be closed in good order
        while the broker sends. Gives up where nothing comes for a while."""
        self._wanted = False
        while self._coming > 0 and not self.channel.is_closed:
            before = self._coming
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience.idle_s):
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
                async with asyncio.timeout(self._patience.idle_s):
                    return await self._arrived.get()
            if self.channel.is_closed or self.connection.is_closed:
                raise BrokerUnreachable(f"lost {address(self.connection)} in the middle of a look")
            waited_s += self._patience.idle_s
            if waited_s >= self._patience.most_idle_s:
                queue = self.subject.queue
                raise LookLost(
                    f"queue {queue} had {self.total} messages, {self._coming} of them did not "
                    f"come, and nothing else did for {self._patience.most_idle_s:g} s. All are put "
                    "back. Was the queue purged in that moment, or is the broker short of memory?"
                )


@asynccontextmanager
async def looking(
    url: str, subject: Subject, *, timeout_s: float, name: str, patience: Patience
) -> AsyncGenerator[Look]:
    """The queue in hand, alone, over a connection of its own, made in `timeout_s` seconds, which
    operators see as `name`. When the context ends, however it does, all that was not acknowledged
    lies there as before.

    Raises BrokerUnreachable, TopologyMissing, AccessRefused, SomebodyLooks.
    """
    connection = await connect(url, timeout_s=timeout_s, name=name)
    try:
        lock = await _locked(connection, subject, patience)
        total = await _alone(connection, subject, patience)
        channel = await open_channel(connection, timeout_s=STEP_S)
        look = Look(connection, channel, subject, patience, total)
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
        async with asyncio.timeout(_BACK_S):
            while (await standing(look.connection, look.subject.queue))[1]:  # noqa: ASYNC110  brokers send no event
                await asyncio.sleep(_PAUSE_S)
    await close_channel(lock)


async def standing(connection: AbstractRobustConnection, queue: str) -> tuple[int, int]:
    """How many messages wait in a queue, and how many consumers hold some. Raises TopologyMissing,
    BrokerUnreachable."""
    channel = await open_channel(connection, timeout_s=STEP_S)
    try:
        with told(connection, queue):
            stands = await channel.queue_declare(queue, passive=True, timeout=STEP_S)
    finally:
        await close_channel(channel)
    return stands.message_count or 0, stands.consumer_count or 0


async def _locked(
    connection: AbstractRobustConnection, subject: Subject, patience: Patience
) -> Channel:
    """A channel of the connection that holds the lock."""
    name = f"{subject.queue}.looking"
    waited_s = 0.0
    while True:
        channel = await open_channel(connection, timeout_s=STEP_S)
        try:
            with told(connection, name):
                await channel.queue_declare(name, exclusive=True, timeout=STEP_S)
        except ChannelLockedResource as error:
            await close_channel(channel)
            if waited_s >= patience.lock_s:
                raise SomebodyLooks(
                    f"somebody else is looking at {subject.what}, or taking some. What they hold "
                    "can't be seen; wait until they are done"
                ) from error
        except BaseException:
            await see_through(close_channel(channel))
            raise
        else:
            return channel
        await asyncio.sleep(_PAUSE_S)
        waited_s += _PAUSE_S


async def _alone(connection: AbstractRobustConnection, subject: Subject, patience: Patience) -> int:
    """How many messages there are, once nobody holds any."""
    waited_s = 0.0
    while True:
        ready, consumers = await standing(connection, subject.queue)
        if not consumers and (ready or await _is_empty(connection, subject, patience)):
            return ready
        if waited_s >= patience.lock_s:
            raise SomebodyLooks(
                f"{consumers} consumer(s) that are no {subject.who} take from queue "
                f"{subject.queue}. What they hold can't be seen; stop them first"
            )
        await asyncio.sleep(_PAUSE_S)
        waited_s += _PAUSE_S


async def _is_empty(
    connection: AbstractRobustConnection, subject: Subject, patience: Patience
) -> bool:
    """Whether nothing lies there, as the queue itself knows."""
    given = asyncio.Event()

    async def take(_: DeliveredMessage) -> None:
        given.set()

    channel = await open_channel(connection, timeout_s=STEP_S)
    try:
        with told(connection, subject.queue):
            async with asyncio.timeout(STEP_S):
                await channel.basic_qos(prefetch_count=patience.prefetch)
                await channel.basic_consume(subject.queue, take, consumer_tag="look.empty")
                # What the queue gave is on its way before this is answered.
                await channel.basic_qos(prefetch_count=patience.prefetch)
    finally:
        await see_through(close_channel(channel))
    return not given.is_set()


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
