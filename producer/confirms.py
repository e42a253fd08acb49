"""Publishing that knows what became of each message: stored, refused, or unknown."""

import asyncio
import uuid
from datetime import UTC, datetime
from typing import Any, Final

import aiormq
import msgspec
from aio_pika.abc import AbstractRobustConnection
from aio_pika.exceptions import (
    ChannelInvalidStateError,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    DeliveryError,
    PublishError,
)
from aiormq.exceptions import ChannelAccessRefused
from pamqp.commands import Basic

from ..schemas.codec import CONTENT_TYPE
from ..schemas.errors import InvalidMessage, SluiceError
from ..schemas.limits import MAX_HEADER_BYTES
from ..schemas.reasons import Reason
from .connection import CONNECTION_LOST, address, close_channel, lost_not_cancelled, open_channel
from .errors import (
    AccessRefused,
    BrokerUnreachable,
    PublishLost,
    QueueFull,
    TopologyMissing,
    Unroutable,
    seconds,
)
from .tasks import see_through

APP_ID: Final = "sluicegate"
PERSISTENT: Final = 2
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 1.0


class _NotSent(Exception):
    """This try never reached the broker."""


class _Unknown(Exception):
    """This try may have reached the broker; the answer was lost."""


class ConfirmedPublisher:
    """Publishes persistent messages and waits for the broker's confirmation of each.

    It has one plain channel per exchange, and asks for the exchange before it uses one: publishing
    to a missing exchange closes the channel under whatever else is on its way there, and what is
    sent to a closed channel costs the whole connection. Safe to use from many tasks at once.
    """

    def __init__(self, connection: AbstractRobustConnection) -> None:
        self._connection = connection
        self._channels: dict[str, aiormq.abc.AbstractChannel] = {}
        self._opening: dict[str, asyncio.Lock] = {}

    def __repr__(self) -> str:
        return f"<ConfirmedPublisher to {address(self._connection)}>"

    async def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        *,
        kind: str,
        correlation_id: str | None,
        headers: dict[str, Any] | None = None,
        expiration_s: float | None = None,
        timeout_s: float,
    ) -> None:
        """Return when the broker has stored the message. `kind` is the AMQP type.

        A lost connection is waited for and the message sent again, with a new message id, until
        `timeout_s` seconds are over. Raises:

        - InvalidMessage: headers over the limit, or a body the broker finds too large;
        - Unroutable, QueueFull, TopologyMissing, AccessRefused: not stored, at once;
        - BrokerUnreachable: no connection in time, not stored;
        - PublishLost: sent, but not confirmed in time; it may be stored.
        """
        _require_small(headers)
        maybe_stored = False
        why: Exception | None = None
        pause_s = FIRST_PAUSE_S
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    try:
                        channel = await self._channel(exchange, timeout_s)
                        # From here on a time-out leaves the outcome open.
                        sent_before, maybe_stored = maybe_stored, True
                        try:
                            return await _publish_once(
                                channel,
                                exchange,
                                routing_key,
                                body,
                                _properties(kind, correlation_id, headers, expiration_s),
                            )
                        except _NotSent:
                            maybe_stored = sent_before
                            raise
                    except (_NotSent, _Unknown, BrokerUnreachable) as error:
                        if self._connection.is_closed:
                            raise self._gave_up(timeout_s, maybe_stored, error) from error
                        why = error
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        except TimeoutError as error:
            raise self._gave_up(timeout_s, maybe_stored, why) from (why or error)

    async def close(self) -> None:
        """Close the channels, not the connection. What is under way ends in PublishLost."""
        channels = list(self._channels.values())
        self._channels.clear()
        await asyncio.gather(*(close_channel(channel) for channel in channels))

    async def _channel(self, exchange: str, timeout_s: float) -> aiormq.abc.AbstractChannel:
        async with self._opening.setdefault(exchange, asyncio.Lock()):
            channel = self._channels.get(exchange)
            if channel is None or channel.is_closed:
                channel = await open_channel(self._connection, confirms=True, timeout_s=timeout_s)
                if exchange:  # the default exchange is always there, and may not be asked for
                    await _require_exchange(channel, exchange)
                self._channels[exchange] = channel
            return channel

    def _gave_up(
        self, timeout_s: float, maybe_stored: bool, why: Exception | None
    ) -> PublishLost | BrokerUnreachable:
        where = address(self._connection)
        last = f" ({why})" if why is not None else ""
        if maybe_stored:
            return PublishLost(
                f"{where} did not confirm within {seconds(timeout_s)}{last}; the message may be "
                "stored. Publishing it again with the same job id is safe. Look for a memory or "
                "disk alarm of the broker, or a stalled network"
            )
        return BrokerUnreachable(
            f"no connection to {where} within {seconds(timeout_s)}{last}; nothing was published"
        )


async def _require_exchange(channel: aiormq.abc.AbstractChannel, exchange: str) -> None:
    try:
        with lost_not_cancelled():
            await channel.exchange_declare(exchange=exchange, passive=True)
    except ChannelNotFoundEntity as error:
        raise TopologyMissing([f"exchange {exchange!r}"]) from error
    except CONNECTION_LOST as error:
        raise _NotSent(str(error)) from error
    except BaseException:
        await see_through(close_channel(channel))
        raise


async def _publish_once(
    channel: aiormq.abc.AbstractChannel,
    exchange: str,
    routing_key: str,
    body: bytes,
    properties: Basic.Properties,
) -> None:
    try:
        with lost_not_cancelled():
            answer = await channel.basic_publish(
                body,
                exchange=exchange,
                routing_key=routing_key,
                properties=properties,
                mandatory=True,
            )
    except CONNECTION_LOST as error:
        raise (_refusal(error, exchange, routing_key, len(body)) or _unanswered(error)) from error
    if not isinstance(answer, Basic.Ack):
        raise _Unknown(f"the broker answered {answer!r}")


def _refusal(error: Exception, exchange: str, routing_key: str, size: int) -> SluiceError | None:
    """The broker's "no" in our words; None where it gave no answer."""
    match error:
        case PublishError():
            return Unroutable(
                f"no queue takes routing key {routing_key!r} of exchange {exchange!r}. "
                "Check the topology with `sluice topology check`"
            )
        case DeliveryError():
            return QueueFull(
                f"the queue behind {exchange!r} {routing_key!r} is full. "
                "Try again later, or add workers"
            )
        case ChannelNotFoundEntity():
            return TopologyMissing([f"exchange {exchange!r}"])
        case ChannelAccessRefused():
            return AccessRefused(
                f"this user may not write to exchange {exchange!r}. Grant it write permission"
            )
        case ChannelPreconditionFailed() if f"message size {size} " in str(error):
            return InvalidMessage(
                Reason.TOO_LARGE,
                "$",
                f"the body has {size:,} bytes, more than this broker's max_message_size",
            )
        case _:
            return None


def _unanswered(error: Exception) -> _NotSent | _Unknown:
    if isinstance(error, ChannelInvalidStateError):
        # Raised before the first byte is queued for sending.
        return _NotSent("the channel was closed")
    return _Unknown(f"the connection was lost: {error}")


def _properties(
    kind: str,
    correlation_id: str | None,
    headers: dict[str, Any] | None,
    expiration_s: float | None,
) -> Basic.Properties:
    return Basic.Properties(
        content_type=CONTENT_TYPE,
        delivery_mode=PERSISTENT,
        # Fresh for each try: returned messages are told apart by it and by nothing else.
        message_id=uuid.uuid4().hex,
        correlation_id=correlation_id,
        message_type=kind,
        timestamp=datetime.now(UTC),
        app_id=APP_ID,
        headers=headers or None,
        expiration=None if expiration_s is None else str(max(0, round(expiration_s * 1000))),
    )


def _require_small(headers: dict[str, Any] | None) -> None:
    if not headers:
        return
    size = len(msgspec.json.encode(headers))
    if size > MAX_HEADER_BYTES:
        raise InvalidMessage(
            Reason.TOO_LARGE,
            "headers",
            f"take {size:,} bytes, the limit is {MAX_HEADER_BYTES:,}",
        )
