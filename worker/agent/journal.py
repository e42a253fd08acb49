"""The journal of agent jobs: a stream on the broker, to which what was done is appended, and which
is read without changing it.

It is what makes effects happen once: a call is written down before it is made, and its result
after. Whoever finds a call open, because another died over it, reads here what came of it.
"""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, cast

from aio_pika.abc import AbstractRobustConnection
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import ChannelAccessRefused, ChannelNotFoundEntity

from ...producer.confirms import ConfirmedPublisher
from ...producer.connection import (
    CONNECTION_LOST,
    address,
    close_channel,
    lost_not_cancelled,
    open_channel,
)
from ...producer.errors import AccessRefused, BrokerUnreachable, TopologyMissing
from ...producer.tasks import see_through
from ...schemas import InvalidMessage, JournalEntry, Names, ToolResult, decode, encode
from ...schemas.agents import Dispatched, Entry, Returned
from ...schemas.codec import tag_of

# A message that only says: so far was written when the reading began.
FENCE: Final = "fence"
_STEP_S: Final = 30.0
_PREFETCH: Final = 256
_SLACK: Final = timedelta(hours=1)


@dataclass(eq=False)
class Past:
    """What is known of the calls of a round that another may have begun: those that were
    dispatched, and results, by effect id. `unsure`: there are lines that can't be read here."""

    dispatched: set[str] = field(default_factory=set)
    results: dict[str, ToolResult] = field(default_factory=dict)
    unsure: bool = False

    def may_have(self, effect_id: str) -> bool:
        """Whether a call may have been made."""
        return self.unsure or effect_id in self.dispatched


class Journal:
    """Appends, and reads back. One for all jobs of a namespace."""

    def __init__(
        self,
        connection: AbstractRobustConnection,
        publisher: ConfirmedPublisher,
        names: Names,
        *,
        by: str = "",
        timeout_s: float = _STEP_S,
    ) -> None:
        self._connection = connection
        self._publisher = publisher
        self._names = names
        self._by = by
        self._timeout_s = timeout_s

    async def write(self, job_id: str, entry: Entry) -> None:
        """Append; return when it is stored. Raises BrokerError: then it may be stored, or not."""
        line = JournalEntry(job_id=job_id, at=datetime.now(UTC), by=self._by, entry=entry)
        await self._send(encode(line), tag_of(JournalEntry), job_id)

    async def calls(self, job_id: str, since: datetime) -> Past:
        """What is written of a job's calls. O(all that was written since)."""
        past = Past()
        async for line in self._lines(since, job_id):
            match line:
                case InvalidMessage():
                    # Of a newer version, say. It may be of any call.
                    past.unsure = True
                case JournalEntry(entry=Dispatched(effect_id=effect)):
                    past.dispatched.add(effect)
                case JournalEntry(entry=Returned(effect_id=effect, result=result)):
                    past.results[effect] = result
                case _:
                    pass
        return past

    async def lines(
        self, since: datetime | None = None, job_id: str | None = None
    ) -> AsyncGenerator[JournalEntry, None]:
        """All lines up to now, oldest first; those of one job, or of all. `since`: from an hour
        before, for clocks differ, and the broker finds a time by whole chunks of the stream. Lines
        that can't be read are passed over. Raises TopologyMissing, AccessRefused,
        BrokerUnreachable."""
        async with aclosing(self._lines(since, job_id)) as lines:
            async for line in lines:
                if not isinstance(line, InvalidMessage):
                    yield line

    async def _lines(
        self, since: datetime | None, job_id: str | None
    ) -> AsyncGenerator[JournalEntry | InvalidMessage, None]:
        fence = uuid.uuid4().hex
        async with self._reading(since) as arrived:
            await self._send(b"{}", FENCE, fence)
            while True:
                message = await _next(arrived, self._connection)
                properties = message.header.properties
                if properties.message_type == FENCE:
                    if properties.correlation_id == fence:
                        return
                    continue
                if job_id is not None and properties.correlation_id != job_id:
                    continue
                try:
                    yield decode(message.body, JournalEntry)
                except InvalidMessage as error:
                    yield error

    @asynccontextmanager
    async def _reading(
        self, since: datetime | None
    ) -> AsyncGenerator["asyncio.Queue[DeliveredMessage | None]"]:
        channel = await open_channel(self._connection, timeout_s=_STEP_S)
        arrived: asyncio.Queue[DeliveredMessage | None] = asyncio.Queue()

        async def take(message: DeliveredMessage) -> None:
            arrived.put_nowait(message)

        cast("asyncio.Future[object]", channel.closing).add_done_callback(
            lambda _: arrived.put_nowait(None)
        )
        offset = "first" if since is None else since - _SLACK
        try:
            with _explained(self._connection, self._names.journal):
                await channel.basic_qos(prefetch_count=_PREFETCH)
                await channel.basic_consume(
                    self._names.journal, take, arguments={"x-stream-offset": offset}
                )
            yield arrived
        finally:
            await see_through(close_channel(channel))

    async def _send(self, body: bytes, kind: str, correlation_id: str) -> None:
        await self._publisher.publish(
            self._names.jobs,
            self._names.journal_key,
            body,
            kind=kind,
            correlation_id=correlation_id,
            timeout_s=self._timeout_s,
        )


async def _next(
    arrived: "asyncio.Queue[DeliveredMessage | None]", connection: AbstractRobustConnection
) -> DeliveredMessage:
    try:
        async with asyncio.timeout(_STEP_S):
            message = await arrived.get()
    except TimeoutError as error:
        raise BrokerUnreachable(f"the journal at {address(connection)} does not come") from error
    if message is None:
        raise BrokerUnreachable(f"lost {address(connection)} while reading the journal")
    # A stream is not consumed by that; it opens the window for the next ones.
    await message.channel.basic_ack(message.delivery_tag or 0, wait=False)
    return message


@contextmanager
def _explained(connection: AbstractRobustConnection, queue: str) -> Generator[None]:
    try:
        with lost_not_cancelled():
            yield
    except ChannelNotFoundEntity as error:
        raise TopologyMissing([f"stream {queue!r}"]) from error
    except ChannelAccessRefused as error:
        raise AccessRefused(
            f"this user may not read {queue!r}. Grant it read permission"
        ) from error
    except CONNECTION_LOST as error:
        raise BrokerUnreachable(f"lost {address(connection)}: {error}") from error
