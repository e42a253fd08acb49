"""One consumer on one queue, kept alive: across lost connections, closed channels, and a broker
that cancels it (because the queue was deleted, or a consumer timeout passed)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, cast

import aiormq
from aio_pika.abc import AbstractRobustConnection
from aiormq.abc import ConsumerCallback, DeliveredMessage
from aiormq.exceptions import ChannelAccessRefused

from ..schemas.errors import SluiceError
from .connection import (
    CONNECTION_LOST,
    address,
    close_channel,
    lost_not_cancelled,
    open_channel,
)
from .errors import AccessRefused, BrokerUnreachable, Unroutable
from .tasks import end, see_through, spawn
from .transaction import Outgoing, Transaction

log = logging.getLogger(__name__)

STEP_TIMEOUT_S: Final = 30.0
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0
# How often a consumer that may begin again looks whether enough of what it has is settled.
_LOOK_AGAIN_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as it was handed over, with the channel it must be settled on, and that channel's
    `transaction`, where it works by those. `unsettled`: the tags of all that is not settled there.
    """

    body: bytes
    message: DeliveredMessage
    queue: str = ""
    transaction: Transaction | None = None
    unsettled: set[int] | None = None

    def __repr__(self) -> str:
        return f"<Delivery {self.message.delivery_tag} of {self.queue}>"

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

    @property
    def held(self) -> bool:
        """Whether it is still ours: with its channel the broker takes it back."""
        return not self.message.channel.is_closed

    @property
    def times_returned(self) -> int:
        """How often the broker has had it back, as far as it counts."""
        count = (self.message.header.properties.headers or {}).get("x-delivery-count")
        return count if self.redelivered and isinstance(count, int) else 0

    async def ack(self) -> bool:
        """Acknowledge. False where the channel is gone: the broker will deliver it again."""
        return await self._settle(lambda channel, tag: channel.basic_ack(tag, wait=False))

    async def nack(self) -> bool:
        """Give it back to the queue. False where the channel is gone, which does the same."""
        return await self._settle(
            lambda channel, tag: channel.basic_nack(tag, requeue=True, wait=False)
        )

    async def reject(self, *, requeue: bool) -> bool:
        """Give it back and count it, or leave it to the broker's dead letters. As `ack`."""
        return await self._settle(
            lambda channel, tag: channel.basic_reject(tag, requeue=requeue, wait=False)
        )

    async def exchange(self, messages: Sequence[Outgoing]) -> bool:
        """Publish these and acknowledge, in one transaction. False where the channel is gone: both
        were done, or neither. Raises Unroutable where a message found no queue: what was delivered
        is acknowledged by then, and the caller must keep it elsewhere."""
        tag = self.message.delivery_tag
        if tag is None or self.transaction is None:
            raise RuntimeError(f"{self!r} was not delivered by a transactional subscription")
        try:
            lost = await self.transaction.commit(
                messages, lambda channel: channel.basic_ack(tag, wait=False)
            )
        except CONNECTION_LOST:
            return False
        self._is_settled(tag)
        if lost:
            keys = ", ".join(repr(each.routing_key) for each in lost)
            raise Unroutable(
                f"no queue takes routing key {keys} of exchange {lost[0].exchange!r}. "
                "Check the topology with `sluice topology check`"
            )
        return True

    async def _settle(
        self, how: Callable[[aiormq.abc.AbstractChannel, int], Awaitable[None]]
    ) -> bool:
        tag = self.message.delivery_tag
        if tag is None:
            return False
        try:
            if self.transaction is not None:
                await self.transaction.commit((), lambda channel: how(channel, tag))
            else:
                with lost_not_cancelled():
                    await how(self.message.channel, tag)
        except CONNECTION_LOST:
            return False
        self._is_settled(tag)
        return True

    def _is_settled(self, tag: int) -> None:
        if self.unsettled is not None:
            self.unsettled.discard(tag)


class _Consumer:
    """One consumer on one channel. `news` is set when it is `lost`, or should be widened."""

    def __init__(
        self, channel: aiormq.abc.AbstractChannel, transaction: Transaction | None = None
    ) -> None:
        self.channel = channel
        self.transaction = transaction
        self.tag: str | None = None
        self.prefetch = 0
        # Tags of deliveries that the broker waits to hear of.
        self.unsettled: set[int] = set()
        self.news = asyncio.Event()
        self.lost = ""
        # Held here because nothing else keeps this observer of the channel alive.
        self._closing = cast("asyncio.Future[Any]", channel.closing)
        self._closing.add_done_callback(self._closed)
        channel.on_consumer_cancel_callbacks.add(lambda _: self._over("cancelled by the broker"))

    @property
    def listed(self) -> bool:
        """Whether the channel still knows of it: a broker may forget a consumer in silence."""
        return self.tag in cast("aiormq.Channel", self.channel).consumers

    async def cease(self) -> None:
        """No more deliveries; the channel stays, to settle those that came."""
        with lost_not_cancelled():
            async with asyncio.timeout(STEP_TIMEOUT_S):
                if self.tag is not None:
                    await self.channel.basic_cancel(self.tag)
                    self.tag = None

    def _closed(self, closing: "asyncio.Future[Any]") -> None:
        why = "" if closing.cancelled() else closing.exception() or ""
        self._over(f"connection or channel lost{why and f' ({why})'}")

    def _over(self, why: str) -> None:
        self.lost = self.lost or why
        self.news.set()

    async def consume(
        self,
        queue: str,
        prefetch: int,
        callback: ConsumerCallback,
        no_ack: bool,
        arguments: dict[str, Any] | None = None,
    ) -> None:
        """Begin, or go on with another prefetch; what is unacknowledged stays with us."""
        with lost_not_cancelled():
            async with asyncio.timeout(STEP_TIMEOUT_S):
                if self.tag is not None:
                    await self.channel.basic_cancel(self.tag)
                if prefetch:
                    await self.channel.basic_qos(prefetch_count=prefetch)
                try:
                    answer = await self.channel.basic_consume(
                        queue, callback, no_ack=no_ack, arguments=arguments
                    )
                except ChannelAccessRefused as error:
                    raise AccessRefused(
                        f"this user may not read queue {queue!r}. Grant it read permission"
                    ) from error
        self.tag, self.prefetch = answer.consumer_tag, prefetch


class Subscription:
    """Consumes a queue from `start` to `stop`.

    `prepare` makes sure of the queue and gives its name; it runs before every subscription, the
    first and each renewed one. `on_message` is called with each delivery, in order, and must not
    block. `prefetch` 0 means no limit. `transactional`: deliveries are settled by transactions.
    `arguments` gives the consumer's own, asked for anew with each subscription. `on_lost` hears why
    a consumer was lost, before it is renewed.
    """

    def __init__(  # noqa: PLR0913 - settings, most with a default
        self,
        connection: AbstractRobustConnection,
        *,
        what: str,
        prepare: Callable[[], Awaitable[str]],
        on_message: Callable[[Delivery], None],
        prefetch: int = 0,
        no_ack: bool = False,
        transactional: bool = False,
        arguments: Callable[[], dict[str, Any]] | None = None,
        on_lost: Callable[[str], None] | None = None,
    ) -> None:
        self._on_lost = on_lost
        self._arguments = arguments
        self._holders: set[str] = set()
        self._transactional = transactional
        self._connection = connection
        self._what = what
        self._prepare = prepare
        self._on_message = on_message
        self._no_ack = no_ack
        self.prefetch = prefetch
        self._queue = ""
        self._paused = False
        self._consumer: _Consumer | None = None
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        state = "consuming" if self.consuming else "not consuming"
        return f"<Subscription {self._what}: {state}, prefetch={self.prefetch}>"

    @property
    def queue(self) -> str:
        """The queue that it consumes, once it has begun to."""
        return self._queue

    @property
    def consuming(self) -> bool:
        """Whether messages can come."""
        return self._consumer is not None and self._consumer.listed and not self._paused

    @property
    def held(self) -> bool:
        """Whether it takes nothing because it was told so, and can be released."""
        return bool(self._holders)

    @property
    def unacknowledged(self) -> int:
        """How many deliveries came that are not settled. Those of a channel that is gone don't
        count: the broker has them back."""
        consumer = self._consumer
        if consumer is None or consumer.channel.is_closed:
            return 0
        return len(consumer.unsettled)

    async def start(self, on_death: Callable[[BaseException], None]) -> None:
        """Return when it consumes; raise what stood in the way of that, unless it is a connection
        that was just lost, and is coming back. Start once only.

        `on_death` hears of an error that nobody reckoned with: then the subscription is over.
        """
        consumer = await self._first()
        self._task = spawn(self._keep(consumer), self._what, on_death)

    async def stop(self) -> None:
        """Stop consuming; what was not acknowledged goes back to the queue. Harmless twice."""
        task, self._task = self._task, None
        await end(task)

    async def pause(self) -> None:
        """Take nothing more, for good. What came can still be settled, until `stop`."""
        self._paused = True
        if self._consumer is None:
            await self.stop()
            return
        try:
            await self._consumer.cease()
        except CONNECTION_LOST as error:
            log.info("%s: could not cancel the consumer: %s", self._what, error)

    def hold(self, holder: str) -> None:
        """Take nothing more until this holder, and every other, releases it. What came can still be
        settled. Before `start` as well."""
        self._holders.add(holder)
        self._look()

    def release(self, holder: str) -> None:
        """Take messages again, unless another holds it. The broker forgets what a consumer was
        given before: for a while up to twice `prefetch` may be here, and never more."""
        self._holders.discard(holder)
        self._look()

    def is_held_by(self, holder: str) -> bool:
        """Whether this holder has not released it."""
        return holder in self._holders

    def _look(self) -> None:
        if self._consumer is not None:
            self._consumer.news.set()

    def widen(self, prefetch: int) -> None:
        """Ask for that many unacknowledged messages at once from now on."""
        self.prefetch = prefetch
        self._look()

    async def _keep(self, consumer: _Consumer) -> None:
        while True:
            try:
                self._consumer = consumer
                await self._until_lost(consumer)
            finally:
                self._consumer = None
                await see_through(close_channel(consumer.channel))
            if self._paused:
                return
            log.warning("%s: %s; subscribing again", self._what, consumer.lost)
            if self._on_lost is not None:
                self._on_lost(consumer.lost)
            consumer = await self._resubscribe()
            log.info("%s: consuming at %s", self._what, address(self._connection))

    async def _until_lost(self, consumer: _Consumer) -> None:
        while not consumer.lost:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AGAIN_S if self._waits(consumer) else None):
                    await consumer.news.wait()
            consumer.news.clear()
            if not consumer.lost and self._is_amiss(consumer):
                try:
                    # Cancelled half-way, aiormq would close the channel, acknowledgements unsent.
                    await see_through(self._consume(consumer))
                    if self._paused:
                        await see_through(consumer.cease())
                except CONNECTION_LOST as error:
                    consumer.lost = str(error)

    def _is_amiss(self, consumer: _Consumer) -> bool:
        """Whether it consumes otherwise than it should."""
        if self._paused:
            return False
        if self.held or consumer.tag is None:
            return self.held == (consumer.tag is not None) and not self._waits(consumer)
        return consumer.prefetch != self.prefetch

    def _waits(self, consumer: _Consumer) -> bool:
        """Whether it may begin again, and has too much from before."""
        stands_still = consumer.tag is None and not self.held and not self._paused
        return stands_still and 0 < self.prefetch < len(consumer.unsettled)

    async def _resubscribe(self) -> _Consumer:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return await self._subscribe()
            except (SluiceError, *CONNECTION_LOST) as error:
                log.warning("%s: can't subscribe: %s", self._what, error)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _first(self) -> _Consumer:
        while True:
            try:
                return await self._subscribe()
            except BrokerUnreachable as error:
                if self._connection.is_closed:
                    raise
                log.info("%s: %s", self._what, error)
            await asyncio.sleep(FIRST_PAUSE_S)

    async def _subscribe(self) -> _Consumer:
        await self._connection.ready()
        self._queue = await self._prepare()
        channel = await open_channel(self._connection, timeout_s=STEP_TIMEOUT_S)
        try:
            transaction = Transaction(channel) if self._transactional else None
            if transaction is not None:
                await transaction.begin()
            consumer = _Consumer(channel, transaction)
            await self._consume(consumer)
        except BaseException:
            await see_through(close_channel(channel))
            raise
        return consumer

    async def _consume(self, consumer: _Consumer) -> None:
        if self.held:
            await consumer.cease()
            return

        async def deliver(message: DeliveredMessage) -> None:
            unsettled = None if self._no_ack else consumer.unsettled
            if unsettled is not None and message.delivery_tag is not None:
                unsettled.add(message.delivery_tag)
            self._on_message(
                Delivery(message.body, message, self._queue, consumer.transaction, unsettled)
            )

        arguments = self._arguments() if self._arguments is not None else None
        await consumer.consume(self._queue, self.prefetch, deliver, self._no_ack, arguments)
