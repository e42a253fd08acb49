"""Looking at the queue of dead letters without changing it; how, says `producer.look`."""

import os
import socket
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from typing import Any, Final, cast

from aiormq.abc import DeliveredMessage
from msgspec import Struct

from ..producer import look as whole
from ..producer.look import LookLost, SomebodyLooks
from ..producer.sealing import OpeningKey
from ..schemas.topology import Names
from ..worker.config import Config
from .dlq_keys import opener
from .dlq_letter import Letter, Properties, read_letter

__all__ = ["Dead", "Look", "LookLost", "SomebodyLooks", "looking"]

LOCK_WAIT_S: Final = whole.Patience().lock_s
LARGEST_PREFETCH: Final = whole.Patience().prefetch
_IDLE_S: Final = whole.Patience().idle_s
_MOST_IDLE_S: Final = whole.Patience().most_idle_s


class Dead(Struct, frozen=True):
    """A dead message in hand, and the tag to settle it by."""

    letter: Letter
    tag: int


class Look:
    """The dead letters in hand: every one once, oldest first, none of them settled. `held` is the
    queue itself, `key` opens those that are encrypted."""

    def __init__(self, held: whole.Look, names: Names, key: OpeningKey | None = None) -> None:
        self.held = held
        self.names = names
        self.key = key

    @property
    def total(self) -> int:
        """How many there were when the look began."""
        return self.held.total

    async def letters(self) -> AsyncGenerator[Dead]:
        """All that lay there when the look began. Raises LookLost, BrokerUnreachable.

        They come as fast as the broker can send: whoever is slow holds them all in memory.
        """
        position = 0
        async with aclosing(self.held.messages()) as messages:
            async for message in messages:
                yield Dead(_read(message, position, self.key), message.delivery_tag or 0)
                position += 1


@asynccontextmanager
async def looking(config: Config) -> AsyncGenerator[Look]:
    """The queue of dead letters in hand, alone. When the context ends, however it does, all that
    was not acknowledged lies there as before.

    Raises BrokerUnreachable, TopologyMissing, AccessRefused, SomebodyLooks; ConfigError for a key
    that can't be used.
    """
    names = Names(config.namespace)
    key = opener(config)
    async with whole.looking(
        config.amqp_url,
        whole.Subject(names.dead, "the dead letters", "`sluice dlq`"),
        timeout_s=config.connect_timeout_s,
        name=f"sluice dlq {socket.gethostname()}:{os.getpid()}",
        patience=whole.Patience(LOCK_WAIT_S, _IDLE_S, _MOST_IDLE_S, LARGEST_PREFETCH),
    ) as held:
        yield Look(held, names, key)


def _read(message: DeliveredMessage, position: int, key: OpeningKey | None) -> Letter:
    given = message.header.properties
    return read_letter(
        message.body,
        Properties(
            message_id=given.message_id or "",
            correlation_id=given.correlation_id or "",
            message_type=given.message_type or "",
            routing_key=message.routing_key or "",
            timestamp=given.timestamp if isinstance(given.timestamp, datetime) else None,
            headers=cast("dict[str, Any]", given.headers or {}),
        ),
        position,
        key,
    )
