"""Consuming one lane: on a channel of its own, and again whenever channel or consumer is lost.

The consumer callback only hands the message on. Everything that can make a consumer deaf ends the
same way: a channel that closed, a consumer that the broker cancelled, a tag that went missing.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import Final

import aiormq
from aio_pika.abc import AbstractRobustConnection
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import ChannelNotFoundEntity

from ..producer.connection import CONNECTION_LOST, close_channel, open_channel
from ..producer.errors import BrokerUnreachable
from ..producer.tasks import see_through
from .delivery import Delivery
from .metrics import CONSUMER_RESTARTS, CONSUMERS

log = logging.getLogger(__name__)

_OPEN_TIMEOUT_S: Final = 30.0
_RETRY_S: Final = 1.0
_WATCH_S: Final = 5.0


class LaneConsumer:
    """Takes messages from one queue until it is stopped, at most `prefetch` unsettled at a time."""

    def __init__(
        self,
        connection: AbstractRobustConnection,
        queue: str,
        prefetch: int,
        take: Callable[[Delivery], None],
    ) -> None:
        self._connection = connection
        self._queue = queue
        self._prefetch = prefetch
        self._take = take
        self._channel: aiormq.abc.AbstractChannel | None = None
        self._tag = ""
        self._stopping = False
        self._wake = asyncio.Event()
        self.consuming = False

    def __repr__(self) -> str:
        return f"<LaneConsumer of {self._queue}, {'consuming' if self.consuming else 'deaf'}>"

    async def run(self) -> None:
        """Consume until `stop`. The channel stays open after it: deliveries wait to be settled."""
        while not self._stopping:
            try:
                await self._consume()
            except (ChannelNotFoundEntity, BrokerUnreachable, *CONNECTION_LOST) as error:
                log.warning("not consuming %s: %s", self._queue, error)
            finally:
                self._is_consuming(False)
            if not self._stopping:
                CONSUMER_RESTARTS.inc()
                await self._pause(_RETRY_S)

    async def stop(self) -> None:
        """No more deliveries. What was delivered can still be settled."""
        self._stopping = True
        self._wake.set()
        channel = self._channel
        if channel is not None and not channel.is_closed and self._tag in channel.consumers:
            try:
                await channel.basic_cancel(self._tag, timeout=_OPEN_TIMEOUT_S)
            except CONNECTION_LOST as error:
                log.info("could not cancel the consumer of %s: %s", self._queue, error)

    async def close(self) -> None:
        """Close the channel: whatever is unsettled goes back to the queue."""
        if self._channel is not None:
            await close_channel(self._channel)

    async def _consume(self) -> None:
        channel = await open_channel(self._connection, timeout_s=_OPEN_TIMEOUT_S)
        if self._stopping:
            await see_through(close_channel(channel))
            return
        self._channel = channel
        self._tag = f"sluice.{uuid.uuid4().hex}"
        self._wake.clear()
        channel.on_consumer_cancel_callbacks.add(self._cancelled_by_broker)
        await channel.basic_qos(prefetch_count=self._prefetch, timeout=_OPEN_TIMEOUT_S)
        await channel.basic_consume(
            self._queue, self._on_message, consumer_tag=self._tag, timeout=_OPEN_TIMEOUT_S
        )
        self._is_consuming(True)
        log.info("consuming %s, %d at a time", self._queue, self._prefetch)
        while not self._stopping and not channel.is_closed and self._tag in channel.consumers:
            await self._pause(_WATCH_S, channel)

    async def _pause(
        self, seconds: float, channel: aiormq.abc.AbstractChannel | None = None
    ) -> None:
        """Wait, but no longer than the channel lives and nobody wakes us."""
        waits: list[asyncio.Future[object]] = [asyncio.ensure_future(self._wake.wait())]
        watched = channel.closing if channel is not None else None
        try:
            await asyncio.wait(
                [*waits, watched] if watched is not None else waits,
                timeout=seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            waits[0].cancel()

    def _is_consuming(self, now: bool) -> None:
        if now != self.consuming:
            self.consuming = now
            CONSUMERS.inc(1 if now else -1)

    async def _on_message(self, message: DeliveredMessage) -> None:
        # aiormq cancels this task when the channel goes: nothing may be awaited here.
        self._take(Delivery(message, self._queue))

    def _cancelled_by_broker(self, *_: object) -> None:
        log.warning("the broker cancelled the consumer of %s", self._queue)
        self._wake.set()
