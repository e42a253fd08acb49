"""The client of a backend: publishes jobs, hands back their results and events."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

import msgspec
from aio_pika.abc import AbstractRobustConnection

from ..schemas.codec import encode, tag_of
from ..schemas.control import CancelJob
from ..schemas.errors import InvalidMessage
from ..schemas.events import JobEvent
from ..schemas.jobs import ReplyKey
from ..schemas.reasons import Reason
from ..schemas.results import GenerationResult
from ..schemas.topology import DEFAULT_NAMESPACE, LANES, Names, Topology, topology
from . import declare
from .batch import publish_many
from .confirms import ConfirmedPublisher
from .connection import close, connect, safe_url
from .errors import BrokerUnreachable, ProducerClosed, Unroutable, seconds
from .event_feed import EventFeed
from .handle import Handle
from .inbox import Inbox
from .reply_queue import ReplyQueue
from .secrecy import OPEN, Secrecy
from .sending import Job, send_job, stamped
from .tasks import see_through

CLOSE_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Parts:
    """What an open producer is made of. Strong references: aio-pika itself holds weak ones."""

    connection: AbstractRobustConnection
    publisher: ConfirmedPublisher
    reply: ReplyQueue
    inbox: Inbox
    feed: EventFeed | None


class Producer:
    """Publishes generation jobs, and agent jobs, and brings back what became of them.

        async with Producer("amqp://localhost/") as producer:
            handle = await producer.publish(GenerationJob(prompt="Why is the sky blue?"))
            result = await handle.result(timeout=60)

    - `reply` names the queue of results. None makes a private one that ends with this producer:
      right where a caller waits. A name, say "orders", is a durable queue of that backend, where
      results wait while it is down. Let one process at a time wait for handles on a name; several
      may share it where each takes what comes, with `results()`.
    - `connect_timeout_s`, `publish_timeout_s`: how long the first connection and a confirmed
      publish may take, reconnecting included. Seconds.
    - `max_in_flight`: publishes that may await the broker's confirmation at once; more wait.
    - `events` False saves the broker work where nobody follows events.
    - `reply_expires` True lets the named queue go when nobody has used it for half an hour.
    - `secrecy` keeps texts out of its dead letters, which are about results that can't be read.
    - `orphans_kept`: of results that nobody here holds a handle for, the newest so many are kept;
      older ones are acknowledged and dropped. None keeps all of a named queue, for `results()`, and
      1000 of a private one.

    A lost connection comes back by itself; results that came meanwhile are waiting then.
    """

    def __init__(  # noqa: PLR0913 - settings, all with a default
        self,
        url: str,
        reply: str | None = None,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        connect_timeout_s: float = 5.0,
        publish_timeout_s: float = 10.0,
        max_in_flight: int = 256,
        events: bool = True,
        reply_expires: bool = False,
        orphans_kept: int | None = None,
        secrecy: Secrecy = OPEN,
    ) -> None:
        if max_in_flight < 1:
            raise ValueError(f"max_in_flight must be at least 1, not {max_in_flight}")
        if orphans_kept is not None and orphans_kept < 0:
            raise ValueError(f"orphans_kept must be at least 0, not {orphans_kept}")
        self._url = url
        self._reply = _checked(reply)
        self._names = Names(namespace)
        self._connect_timeout_s = connect_timeout_s
        self._publish_timeout_s = publish_timeout_s
        self._max_in_flight = max_in_flight
        self._confirming = asyncio.Semaphore(max_in_flight)
        self._events = events
        self._reply_expires = reply_expires
        self._orphans_kept = orphans_kept
        self._secrecy = secrecy
        self._parts: _Parts | None = None
        self._over: ProducerClosed | None = None
        self._who = f"{socket.gethostname()}:{os.getpid()}"[:256]

    def __repr__(self) -> str:
        if self._parts is None:
            return f"<Producer to {safe_url(self._url)}: not open>"
        return (
            f"<Producer to {safe_url(self._url)}, results on {self._parts.reply.key}: "
            f"{self._parts.inbox.ledger!r}>"
        )

    async def __aenter__(self) -> Self:
        """Connect. Raises BrokerUnreachable, TopologyMissing, AccessRefused."""
        if self._parts is not None or self._over is not None:
            raise ProducerClosed("a producer can be opened once: make a new one")
        connection = await connect(
            self._url,
            timeout_s=self._connect_timeout_s,
            name=_name_for_operators(self._reply),
        )
        try:
            await declare.require(connection, _needed(self._names))
            self._parts = await self._assemble(connection)
        except BaseException:
            await close(connection)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop. Whoever still waits hears ProducerClosed; results not taken stay on a named queue.

        Harmless twice. Takes at most some seconds, also where the broker is gone.
        """
        parts, self._parts = self._parts, None
        if parts is not None:
            self._over = self._over or ProducerClosed("the producer was closed")
            parts.inbox.ledger.close(self._over)
            await see_through(_shut_down(parts))

    @property
    def reply_key(self) -> str:
        """The routing key of this producer's results."""
        return self._open().reply.key

    async def publish(self, job: Job) -> Handle:
        """Publish a job; return when the broker has stored it.

        The job is given this producer's `reply_to`, and `enqueued_at` where it has none. Publishing
        the same id again is allowed: each handle gets the result, and what comes twice is dropped.

        Raises InvalidMessage before anything is sent, Unroutable, QueueFull (nothing stored),
        BrokerUnreachable (nothing stored), PublishLost (perhaps stored; publishing again with the
        same id is safe), TopologyMissing, AccessRefused, ProducerClosed.
        """
        parts = self._open()
        ready = stamped(job, parts.reply.key)
        body = encode(ready)
        parts.inbox.ledger.want(job.id)
        # Before publishing: the result may be faster than the confirmation.
        handle = self._handle(parts, job.id)
        async with self._turn_to_publish() as left_s:
            await send_job(parts.publisher, self._names, ready, body, timeout_s=left_s)
        return handle

    async def publish_many(
        self,
        jobs: Iterable[Job] | AsyncIterable[Job],
        *,
        concurrency: int | None = None,
    ) -> list[Handle]:
        """Publish many jobs, `concurrency` at once (at most, and by default, `max_in_flight`).

        Returns their handles in the order of the jobs. Jobs that come as an ordinary iterable are
        all checked before the first is sent. After a failure no further job is begun.

        Raises PublishManyFailed, which tells for each job whether it was published.
        """
        return await publish_many(self.publish, jobs, concurrency or self._max_in_flight)

    def attach(self, job_id: str) -> Handle:
        """The handle of a job that was published earlier, perhaps by another process.

        Its result must come to this producer's reply queue. Events are seen from now on.
        """
        return self._handle(self._open(), job_id)

    def results(self, *, idle_s: float | None = None) -> AsyncIterator[GenerationResult]:
        """Results that nobody here holds a handle for, as they come: after a restart, say.

        A result is acknowledged when the loop comes back for the next one. Leaving the loop by
        `break` or an error leaves the last one unacknowledged: it comes again. Ends when the
        producer is closed, or after `idle_s` seconds without a result.
        """
        return self._open().inbox.results(idle_s)

    async def cancel(self, job_id: str, *, reason: str = "") -> bool:
        """Call a job off, whoever published it; True when that is on record at the broker.

        `reason` is for logs. See `Handle.cancel`. Raises InvalidMessage for what is no job id.
        """
        parts = self._open()
        publisher = parts.publisher
        message = CancelJob(job_id=job_id, at=datetime.now(UTC), by=self._who, reason=reason)
        try:
            async with self._turn_to_publish() as left_s:
                await publisher.publish(
                    self._names.control,
                    "",
                    encode(message),
                    kind=tag_of(CancelJob),
                    correlation_id=job_id,
                    timeout_s=left_s,
                )
        except Unroutable:
            return False
        parts.inbox.call_off(job_id)
        return True

    def _open(self) -> _Parts:
        if self._over is not None:
            raise ProducerClosed(str(self._over))
        if self._parts is None:
            raise ProducerClosed("the producer is not open: use it inside `async with`")
        return self._parts

    def _handle(self, parts: _Parts, job_id: str) -> Handle:
        return Handle(parts.inbox.ledger.slot(job_id), parts.inbox, self.cancel)

    async def _assemble(self, connection: AbstractRobustConnection) -> _Parts:
        reply = ReplyQueue(connection, self._names, self._reply, expires=self._reply_expires)
        publisher = ConfirmedPublisher(connection)
        inbox = Inbox(
            connection,
            self._names,
            reply,
            publisher,
            publish_timeout_s=self._publish_timeout_s,
            orphans_kept=self._orphans_kept,
            secrecy=self._secrecy,
        )
        ledger = inbox.ledger

        def on_event(event: JobEvent) -> None:
            if (slot := ledger.live(event.job_id)) is not None:
                slot.events.add(event)

        # Before the first publish: no event of a job of ours may be missed.
        feed = (
            EventFeed(
                connection,
                self._names,
                f"{reply.key}.#",
                on_event,
                on_cancel=inbox.call_off,
            )
            if self._events
            else None
        )
        parts = _Parts(connection, publisher, reply, inbox, feed)
        try:
            await inbox.start(self._on_death)
            if feed is not None:
                await feed.start(self._on_death)
        except BaseException:
            await see_through(_shut_down(parts))
            raise
        return parts

    def _on_death(self, error: BaseException) -> None:
        self._over = ProducerClosed(f"the producer broke down ({error!r}): open a new one")
        if self._parts is not None:
            self._parts.inbox.ledger.close(self._over)

    @contextlib.asynccontextmanager
    async def _turn_to_publish(self) -> AsyncGenerator[float]:
        """Wait until one more publish may be in flight; gives the seconds left for it."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._publish_timeout_s
        try:
            async with asyncio.timeout_at(deadline):
                await self._confirming.acquire()
        except TimeoutError as error:
            raise BrokerUnreachable(
                f"{self._max_in_flight} publishes await the broker's confirmation and none came "
                f"within {seconds(self._publish_timeout_s)}; nothing was published"
            ) from error
        try:
            yield max(0.001, deadline - clock())
        finally:
            self._confirming.release()


async def _shut_down(parts: _Parts) -> None:
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await parts.inbox.stop()
            if parts.feed is not None:
                await parts.feed.stop()
            if parts.reply.private and parts.connection.connected.is_set():
                await parts.reply.delete()
            await parts.publisher.close()
    except TimeoutError:
        pass  # The broker does not answer; closing the connection ends what is left.
    finally:
        await close(parts.connection)


def _name_for_operators(reply: str | None) -> str:
    return f"sluicegate producer {reply or 'private'} {socket.gethostname()}:{os.getpid()}"


def _needed(names: Names) -> Topology:
    """What a producer can't do without: the exchanges, and somewhere for jobs to go."""
    whole = topology(names.namespace)
    lanes = {names.jobs_queue(lane) for lane in LANES}
    return Topology(
        names=names,
        exchanges=whole.exchanges,
        queues=tuple(queue for queue in whole.queues if queue.name in lanes),
        bindings=(),
    )


def _checked(reply: str | None) -> str | None:
    if reply is not None:
        try:
            msgspec.convert(reply, ReplyKey)
        except msgspec.ValidationError as error:
            raise InvalidMessage(Reason.INVALID_FIELD, "reply", f"{error}: {reply!r}") from error
    return reply
