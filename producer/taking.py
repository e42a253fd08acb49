"""Taking messages out of a queue that is in hand: what follows from one, and its acknowledgement,
in one transaction."""

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

import aiormq
from aio_pika.abc import AbstractRobustConnection

from .connection import close_channel, open_channel
from .errors import AccessRefused
from .look import STEP_S, Look, told
from .transaction import Outgoing, Transaction

_UNSEEN: Final = 16


class Taking:
    """Takes from a look, in its transactions. Enter it before the first."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._transaction = Transaction(look.channel)
        self._unseen = 0

    async def __aenter__(self) -> "Taking":
        """From here on what the look's channel publishes and acknowledges counts once it is
        committed. Raises BrokerUnreachable."""
        with told(self._look.connection):
            await self._transaction.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave when the queue itself has every acknowledgement."""
        if self._unseen and not self._look.channel.is_closed:
            await self._look.settled()

    async def take(
        self, tags: Iterable[int], sending: Sequence[Outgoing] = (), *, discard: bool = False
    ) -> bool:
        """Publish, and acknowledge the messages with these tags, or `discard` them, which leaves
        them to the queue's own dead-lettering.

        False where no queue took something of `sending`: that is lost, and all else is done, since
        the broker says so only as it commits; see `require_way`. Raises BrokerUnreachable: then all
        of it is done, or nothing.
        """
        if self._unseen >= _UNSEEN:
            # With 32 acknowledgements that the queue has not seen yet, a channel of RabbitMQ begins
            # to keep them to itself.
            await self._look.settled()
            self._unseen = 0

        async def settle(channel: aiormq.abc.AbstractChannel) -> None:
            for tag in tags:
                if discard:
                    await channel.basic_reject(tag, requeue=False, wait=False)
                else:
                    await channel.basic_ack(tag, wait=False)

        with told(self._look.connection):
            lost = await self._transaction.commit(sending, settle)
        self._unseen += 1
        return not lost


async def require_way(
    connection: AbstractRobustConnection,
    exchange: str,
    queue: str,
    *,
    routing_key: str = "",
    arguments: dict[str, Any] | None = None,
) -> int:
    """See that the way to a queue stands, before anything is at stake; gives how many messages wait
    in it. Raises TopologyMissing, BrokerUnreachable.

    A binding can't be looked at over AMQP, and a message that nothing took would be known only
    after what it stood for was acknowledged. To bind what is bound changes nothing; what was not,
    is. A user who may not bind is taken at the word of whoever set the topology up.
    """
    channel = await open_channel(connection, timeout_s=STEP_S)
    try:
        with told(connection, exchange, kind="exchange"):
            await channel.exchange_declare(exchange, passive=True, timeout=STEP_S)
        with told(connection, queue):
            stands = await channel.queue_declare(queue, passive=True, timeout=STEP_S)
        with contextlib.suppress(AccessRefused), told(connection, queue):
            await channel.queue_bind(
                queue, exchange, routing_key, arguments=arguments, timeout=STEP_S
            )
    finally:
        await close_channel(channel)
    return stands.message_count or 0
