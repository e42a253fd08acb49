"""AMQP transactions: publish and settle in one step, both or neither.

A channel in this mode keeps what is published and acknowledged on it until it is committed; the
broker then carries all of it out by itself, so a client that is killed has done both or neither
(killed at random moments on 3.10.8, in quorum queues, nothing was lost or doubled). It is no
promise against the death of the broker itself (https://www.rabbitmq.com/docs/semantics). A queue
that is full drops the message without a word: publish so only to queues without a limit.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

import aiormq
from msgspec import Struct
from pamqp.commands import Basic

from ..schemas.codec import CONTENT_TYPE
from .confirms import APP_ID, PERSISTENT
from .connection import close_channel, lost_not_cancelled
from .tasks import see_through

STEP_TIMEOUT_S: Final = 30.0

Settle = Callable[[aiormq.abc.AbstractChannel], Awaitable[None]]


class Outgoing(Struct, frozen=True, kw_only=True):
    """A message to publish in a transaction. `kind` is the AMQP type."""

    exchange: str
    routing_key: str
    body: bytes
    kind: str
    correlation_id: str | None = None
    headers: dict[str, Any] = {}


class Transaction:
    """The transactions of one channel, one after the other: what two of them have on the channel at
    the same time would be committed by whichever is first."""

    def __init__(self, channel: aiormq.abc.AbstractChannel) -> None:
        self._channel = channel
        self._turn = asyncio.Lock()

    async def begin(self) -> None:
        """From here on nothing on the channel counts before it is committed."""
        with lost_not_cancelled():
            await self._channel.tx_select(timeout=STEP_TIMEOUT_S)

    async def commit(self, messages: Sequence[Outgoing], settle: Settle) -> tuple[Outgoing, ...]:
        """Publish and settle. Gives the messages that found no queue: they are lost, and the rest
        is done. Raises CONNECTION_LOST where it is not known whether it was done; whole, or not at
        all. A cancellation is raised after it, not instead of it.
        """
        return await see_through(self._commit(messages, settle))

    async def _commit(self, messages: Sequence[Outgoing], settle: Settle) -> tuple[Outgoing, ...]:
        async with self._turn:
            try:
                with lost_not_cancelled():
                    async with asyncio.timeout(STEP_TIMEOUT_S):
                        return await self._exchange(messages, settle)
            except BaseException:
                # What is on the channel must not be committed with the next transaction.
                await close_channel(self._channel)
                raise

    async def _exchange(self, messages: Sequence[Outgoing], settle: Settle) -> tuple[Outgoing, ...]:
        channel = cast("aiormq.Channel", self._channel)
        # aiormq looks up here whom a returned message is to be told, without confirmations, too.
        told = cast("dict[int, Any]", channel.confirmations)
        returned: dict[str, tuple[int, asyncio.Future[object], Outgoing]] = {}
        try:
            for message in messages:
                message_id = uuid.uuid4().hex
                number = channel.delivery_tag + 1
                answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
                told[number] = answer
                channel.message_id_delivery_tag[message_id] = number
                returned[message_id] = number, answer, message
                await _publish(channel, message, message_id)
            await settle(channel)
            await channel.tx_commit(timeout=STEP_TIMEOUT_S)
            return tuple(message for _, answer, message in returned.values() if answer.done())
        finally:
            for message_id, (number, answer, _) in returned.items():
                told.pop(number, None)
                channel.message_id_delivery_tag.pop(message_id, None)
                if answer.done() and not answer.cancelled():
                    answer.exception()


async def _publish(channel: aiormq.Channel, message: Outgoing, message_id: str) -> None:
    await channel.basic_publish(
        message.body,
        exchange=message.exchange,
        routing_key=message.routing_key,
        properties=Basic.Properties(
            content_type=CONTENT_TYPE,
            delivery_mode=PERSISTENT,
            message_id=message_id,
            correlation_id=message.correlation_id,
            message_type=message.kind,
            timestamp=datetime.now(UTC),
            app_id=APP_ID,
            headers=message.headers or None,
        ),
        mandatory=True,
        wait=False,
    )
