"""One consumer on one queue, kept alive: across lost connections, closed channels, and a broker
that cancels it (because the queue was deleted, or a consumer timeout passed)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, cast

import aiormq
from aio_pika.abc import AbstractRobustConnection
from aiormq.abc import DeliveredMessage

from ..schemas.errors import SluiceError
from .connection import (
    CONNECTION_LOST,
    address,
    close_channel,
    lost_not_cancelled,
    open_channel,
)
from .errors import BrokerUnreachable
from .shielding import see_through

log = logging.getLogger(__name__)

STEP_TIMEOUT_S: Final = 30.0
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as it was handed over, with the channel it must be settled on."""

    body: bytes
    message: DeliveredMessage

    @property
    def correlation_id(self) -> str | None:
        return self.message.header.properties.correlation_id

    @property
    def message_id(self) -> str | None:
        return self.message.header.properties.message_id

    @property
    def routing_key(self) -> str | None:
        return self.message.routing_key

    @property
    def redelivered(self) -> bool:
        return bool(self.message.redelivered)

    async def ack(self) -> bool:
        """Acknowledge. False where the channel is gone: the broker will deliver it again."""
        return await self._settle(lambda channel, tag: channel.basic_ack(tag, wait=False))

    async def nack(self) -> bool:
        """Give it back to the queue. False where the channel is gone, which does the same."""
        return await self._settle(
            lambda channel, tag: channel.basic_nack(tag, requeue=True, wait=False)
        )

    async def _settle(
        self, how: Callable[[aiormq.abc.AbstractChannel, int], Awaitable[None]]
    ) -> bool:
        tag = self.message.delivery_tag
        if tag is None:
            return False
        try:
            with lost_not_cancelled():
                await how(self.message.channel, tag)
        except CONNECTION_LOST:
            return False
        return True


class Subscription:
    """Consumes a queue from `start` to `stop`.

    `prepare` makes sure of the queue and gives its name; it runs before every subscription, the
    first and each renewed one. `on_message` is called with each delivery, in order, and must not
    block. `prefetch` 0 means no limit.
    """

    def __init__(
        self,
        connection: AbstractRobustConnection,
        *,
        what: str,
        prepare: Callable[[], Awaitable[str]],
        on_message: Callable[[Delivery], None],
        prefetch: int = 0,
        no_ack: bool = False,
    ) -> None:
        self._connection = connection
        self._what = what
        self._prepare = prepare
        self._on_message = on_message
        self._no_ack = no_ack
        self.prefetch = prefetch
        self._task: asyncio.Task[None] | None = None
        self._standing: asyncio.Future[None] | None = None
        self._over = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Subscription {self._what} prefetch={self.prefetch}>"

    async def start(self, on_death: Callable[[BaseException], None]) -> None:
        """Return when it consumes; raise what stood in the way of that. Start once only.

        `on_death` hears of an error that nobody reckoned with: then the subscription is over.
        """
        self._standing = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(), name=f"sluicegate {self._what}")
        self._task.add_done_callback(lambda task: self._report(task, on_death))
        try:
            await asyncio.wait([self._standing, self._task], return_when=asyncio.FIRST_COMPLETED)
            if self._task.done():
                await self._task
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop consuming; what was not acknowledged goes back to the queue. Harmless twice."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await see_through(_ended(task))

    def widen(self, prefetch: int) -> None:
        """Ask for more unacknowledged messages at once. They all come again, on a new channel."""
        self.prefetch = prefetch
        self._over.set()

    async def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                await self._consume()
                pause_s = FIRST_PAUSE_S
                continue
            except (SluiceError, *CONNECTION_LOST) as error:
                if self._standing is not None and not self._standing.done():
                    raise
                log.warning("%s interrupted: %s", self._what, error)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _consume(self) -> None:
        """Subscribe, and return when the subscription has to be renewed."""
        await self._connection.ready()
        queue = await self._prepare()
        channel = await open_channel(self._connection, timeout_s=STEP_TIMEOUT_S)
        try:
            over = self._over = asyncio.Event()
            channel.on_consumer_cancel_callbacks.add(lambda _frame: over.set())
            # Held for as long as this lasts: nothing else keeps the observer alive.
            closing = cast("asyncio.Future[Any]", channel.closing)
            closing.add_done_callback(lambda _closing: over.set())
            prefetch = self.prefetch
            with lost_not_cancelled():
                async with asyncio.timeout(STEP_TIMEOUT_S):
                    if prefetch:
                        await channel.basic_qos(prefetch_count=prefetch)
                    await channel.basic_consume(queue, self._deliver, no_ack=self._no_ack)
            if self._standing is not None and not self._standing.done():
                self._standing.set_result(None)
            else:
                log.info("%s stands again at %s", self._what, address(self._connection))
            if prefetch == self.prefetch:
                await over.wait()
            if prefetch == self.prefetch:
                lost = closing.done() or channel.is_closed
                raise BrokerUnreachable(
                    "the connection or channel was lost"
                    if lost
                    else "the broker cancelled the consumer"
                )
        finally:
            await see_through(close_channel(channel))

    async def _deliver(self, message: DeliveredMessage) -> None:
        self._on_message(Delivery(message.body, message))

    def _report(self, task: asyncio.Task[None], on_death: Callable[[BaseException], None]) -> None:
        stood = self._standing is not None and self._standing.done()
        if task.cancelled() or (error := task.exception()) is None or not stood:
            return  # `start` raises what happened before it stood.
        log.critical("%s died", self._what, exc_info=error)
        on_death(error)


async def _ended(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task])
