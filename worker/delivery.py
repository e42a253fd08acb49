"""One delivery of one message. The three words that settle it are said in `settler` alone."""

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any

import aiormq
from aiormq.abc import DeliveredMessage


class Verb(Enum):
    """How a delivery is settled.

    REJECT puts it back and counts against it on every version of the broker. NACK puts it back for
    something that is not the job's fault. DISCARD leaves it to the broker's own dead-lettering.
    """

    ACK = "ack"
    REJECT = "reject"
    NACK = "nack"
    DISCARD = "discard"


class Delivery:
    """A message as the broker handed it over, bound to the channel it came on."""

    def __init__(self, message: DeliveredMessage, queue: str) -> None:
        properties = message.header.properties
        headers: dict[str, Any] = properties.headers or {}
        count = headers.get("x-delivery-count")
        self._message = message
        self.queue = queue
        self.body = bytes(message.body)
        self.routing_key = message.routing_key
        self.message_id: str | None = properties.message_id
        self.correlation_id: str | None = properties.correlation_id
        self.redelivered = bool(message.redelivered)
        self.times_returned = count if isinstance(count, int) else 0

    def __repr__(self) -> str:
        return f"<Delivery {self._message.delivery_tag} of {self.queue}>"

    async def settle(self, verb: Verb) -> None:
        """Say it to the broker. Raises what aiormq raises when the channel is gone."""
        channel: aiormq.abc.AbstractChannel = self._message.channel
        tag = self._message.delivery_tag
        assert tag is not None  # noqa: S101 - only messages that were delivered come here
        say: dict[Verb, Callable[[], Awaitable[None]]] = {
            Verb.ACK: lambda: channel.basic_ack(tag),
            Verb.REJECT: lambda: channel.basic_reject(tag, requeue=True),
            Verb.NACK: lambda: channel.basic_nack(tag, requeue=True),
            Verb.DISCARD: lambda: channel.basic_reject(tag, requeue=False),
        }
        await say[verb]()
