"""Events on their way out: best effort, in order, never in the way of a job."""

import asyncio
import logging
import time
import uuid
from collections import deque
from datetime import UTC, datetime
from typing import Final

import aiormq
import msgspec
from aio_pika.abc import AbstractRobustConnection
from pamqp.commands import Basic

from ..producer.confirms import APP_ID
from ..producer.connection import CONNECTION_LOST, open_channel
from ..producer.errors import BrokerUnreachable
from ..producer.secrecy import OPEN, Secrecy
from ..producer.sending import Job
from ..schemas import CONTENT_TYPE, Delta, JobEvent, Names, ServiceEvent, encode
from ..schemas.codec import tag_of
from ..schemas.events import Happening
from .metrics import EVENTS_DROPPED

log = logging.getLogger(__name__)

_CAPACITY: Final = 10_000
_TIMEOUT_S: Final = 5.0
# After events could not be published none are tried for this long.
_QUIET_S: Final = 2.0


class EventStream:
    """A bounded buffer of events and the task that empties it. When it is full, the oldest go."""

    def __init__(self, names: Names, worker: str, capacity: int = _CAPACITY) -> None:
        self.names = names
        self.secrecy: Secrecy = OPEN
        self._worker = worker
        self._capacity = capacity
        self._waiting: deque[tuple[str, JobEvent | ServiceEvent]] = deque()
        self._wake = asyncio.Event()
        self._closing = False
        self._quiet_until = 0.0

    def of(self, job: Job, first: int = 0) -> "JobEvents":
        """The events of one run of a job, numbered from `first`."""
        return JobEvents(self, job, self._worker, first)

    def put(self, routing_key: str, message: JobEvent | ServiceEvent) -> None:
        """Hand an event over. Returns at once."""
        if time.monotonic() < self._quiet_until:
            EVENTS_DROPPED.inc()
            return
        if len(self._waiting) >= self._capacity:
            self._waiting.popleft()
            EVENTS_DROPPED.inc()
        self._waiting.append((routing_key, message))
        self._wake.set()

    def close(self) -> None:
        """Let `run` return once the buffer is empty."""
        self._closing = True
        self._wake.set()

    async def run(self, connection: AbstractRobustConnection) -> None:
        """Publish until `close`. An event that can't be published is dropped and counted."""
        channel: aiormq.abc.AbstractChannel | None = None
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                try:
                    async with asyncio.timeout(_TIMEOUT_S):
                        if channel is None or channel.is_closed:
                            channel = await self._open(connection)
                        await self._publish(channel, *self._next())
                except (BrokerUnreachable, *CONNECTION_LOST) as error:
                    log.debug("dropping events: %s", error)
                    EVENTS_DROPPED.inc(max(1, len(self._waiting)))
                    self._waiting.clear()
                    self._quiet_until = time.monotonic() + _QUIET_S
                except Exception:
                    # Whatever is wrong with one event, jobs go on.
                    log.exception("dropping an event")
                    EVENTS_DROPPED.inc()
            if self._closing:
                return

    async def _open(self, connection: AbstractRobustConnection) -> aiormq.abc.AbstractChannel:
        """A channel, if the exchange is there: what is published to a missing one takes the channel
        with it, and what is on its way then takes the connection."""
        channel = await open_channel(connection, timeout_s=_TIMEOUT_S)
        await channel.exchange_declare(self.names.events, passive=True)
        return channel

    def _next(self) -> tuple[str, JobEvent | ServiceEvent]:
        """The oldest event; deltas of the same job right behind it go along in one message."""
        routing_key, first = self._waiting.popleft()
        if isinstance(first, ServiceEvent) or not isinstance(first.event, Delta):
            return routing_key, first
        texts = [first.event.text]
        while self._waiting and (more := _delta_of(self._waiting[0][1], first)) is not None:
            texts.append(more.text)
            self._waiting.popleft()
        if len(texts) == 1:
            return routing_key, first
        whole = Delta(offset=first.event.offset, text="".join(texts), channel=first.event.channel)
        return routing_key, msgspec.structs.replace(first, event=whole)

    async def _publish(
        self,
        channel: aiormq.abc.AbstractChannel,
        routing_key: str,
        message: JobEvent | ServiceEvent,
    ) -> None:
        if isinstance(message, JobEvent):
            message = self.secrecy.event(message)
        await channel.basic_publish(
            encode(message),
            exchange=self.names.events,
            routing_key=routing_key,
            properties=Basic.Properties(
                content_type=CONTENT_TYPE,
                message_type=tag_of(type(message)),
                message_id=uuid.uuid4().hex,
                correlation_id=message.job_id if isinstance(message, JobEvent) else None,
                app_id=APP_ID,
            ),
        )


class JobEvents:
    """Numbers and stamps the events of one run of a job."""

    def __init__(self, stream: EventStream, job: Job, worker: str, first: int = 0) -> None:
        self._stream = stream
        self._job = job
        self._worker = worker
        self._seq = first

    @property
    def next(self) -> int:
        """The number of the next one."""
        return self._seq

    def emit(self, event: Happening) -> None:
        """Say what happened. Returns at once."""
        message = JobEvent(
            job_id=self._job.id,
            attempt=self._job.attempt,
            seq=self._seq,
            at=datetime.now(UTC),
            worker=self._worker,
            event=event,
        )
        self._seq += 1
        self._stream.put(self._key(message.kind), message)

    def _key(self, kind: str) -> str:
        return self._stream.names.event_key(self._job.reply_to, self._job.id, kind)

    def delta(self, offset: int, text: str) -> None:
        """Say what text came."""
        self.emit(Delta(offset=offset, text=text))

    def thought(self, offset: int, text: str) -> None:
        """Say what the model thinks before it."""
        self.emit(Delta(offset=offset, text=text, channel="reasoning"))


def _delta_of(message: JobEvent | ServiceEvent, first: JobEvent) -> Delta | None:
    """The message's delta, if it goes on where the same job's deltas left off."""
    if isinstance(message, ServiceEvent):
        return None
    event = message.event
    same = message.job_id == first.job_id and message.attempt == first.attempt
    if same and isinstance(event, Delta) and isinstance(first.event, Delta):
        return event if event.channel == first.event.channel else None
    return None
