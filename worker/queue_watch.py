"""How long the queues are, for whoever watches or scales: asked of the broker every few seconds.

By passive declarations on a plain channel: a robust one would answer them from memory. That tells
what is ready and who consumes, not what is unacknowledged; of that each service tells its own part.
"""

import asyncio
import contextlib
import logging
import time
from typing import Final

import aiormq
from aio_pika.abc import AbstractRobustConnection
from aio_pika.exceptions import ChannelNotFoundEntity
from aiormq.exceptions import ChannelAccessRefused, ChannelLockedResource
from msgspec import Struct
from prometheus_client import Gauge

from ..producer.connection import CONNECTION_LOST, close_channel, lost_not_cancelled, open_channel
from ..producer.tasks import see_through
from ..schemas import SluiceError, topology
from ..schemas.topology import Queue, reply
from . import metrics

log = logging.getLogger(__name__)

EVERY_S: Final = 5.0
# One look, opening of the channel included.
_LOOK_S: Final = 4.0
_STEP_S: Final = 2.0
# Of one queue. They cost the channel, and the next queue gets another.
_NOT_TO_BE_SEEN: Final = (ChannelNotFoundEntity, ChannelAccessRefused, ChannelLockedResource)


class Seen(Struct, frozen=True):
    """A queue, as the broker counts it."""

    ready: int
    consumers: int


def watched(namespace: str, reply_keys: str = "") -> dict[str, Queue]:
    """The queues to count, by what stands behind the namespace in their names: those of the
    topology, and the results' of these `reply_keys`, by commas. Logs are never empty, and left
    out."""
    whole = topology(namespace)
    keys = [key for part in reply_keys.split(",") if (key := part.strip())]
    queues = [*whole.queues, *(reply(whole.names, key)[0] for key in keys)]
    return {label(namespace, each.name): each for each in queues if not each.is_stream}


def label(namespace: str, queue: str) -> str:
    """A queue's name without its namespace."""
    return queue.removeprefix(f"{namespace}.")


class QueueWatch:
    """Counts queues until it is cancelled. A broker that is gone costs the numbers, not the
    service: they are taken back, since old ones would lie."""

    def __init__(self, queues: dict[str, Queue], *, every_s: float = EVERY_S) -> None:
        self._queues = queues
        self._every_s = every_s
        self._trouble = ""

    def __repr__(self) -> str:
        return f"<QueueWatch of {len(self._queues)} queues>"

    async def run(self, connection: AbstractRobustConnection) -> None:
        """Look, rest, and look again."""
        try:
            while True:
                trouble = ""
                try:
                    # Cancelled half-way, opening a channel would cost the connection.
                    show(await see_through(self._look(connection)), self._queues)
                except (SluiceError, *CONNECTION_LOST) as error:
                    trouble = str(error) or type(error).__name__
                    show({}, self._queues)
                if trouble and trouble != self._trouble:
                    log.info("the queues can't be counted: %s", trouble)
                self._trouble = trouble
                await asyncio.sleep(self._every_s)
        finally:
            show({}, self._queues)

    async def _look(self, connection: AbstractRobustConnection) -> dict[str, Seen]:
        with lost_not_cancelled():
            async with asyncio.timeout(_LOOK_S):
                return await look(connection, self._queues)


async def look(connection: AbstractRobustConnection, queues: dict[str, Queue]) -> dict[str, Seen]:
    """Each queue that is there, and that we may see. Raises BrokerUnreachable, or what a lost
    connection looks like."""
    seen: dict[str, Seen] = {}
    channel: aiormq.abc.AbstractChannel | None = None
    try:
        for name, queue in queues.items():
            if channel is None or channel.is_closed:
                channel = await open_channel(connection, timeout_s=_STEP_S)
            try:
                stands = await channel.queue_declare(queue.name, passive=True, timeout=_STEP_S)
            except _NOT_TO_BE_SEEN:
                continue
            seen[name] = Seen(stands.message_count or 0, stands.consumer_count or 0)
    finally:
        if channel is not None:
            await close_channel(channel)
    return seen


def show(seen: dict[str, Seen], queues: dict[str, Queue]) -> None:
    """Put the numbers where they are read, which may be at any time; of what was not seen there are
    none."""
    for name, queue in queues.items():
        found = seen.get(name)
        limit = queue.arguments.get("x-max-length")
        _put(metrics.READY, name, found and found.ready)
        _put(metrics.QUEUE_CONSUMERS, name, found and found.consumers)
        _put(metrics.QUEUE_LIMIT, name, limit if found and isinstance(limit, int) else None)
    if seen:
        metrics.QUEUES_SEEN.set(time.time())


def _put(gauge: Gauge, queue: str, value: int | None) -> None:
    if value is not None:
        gauge.labels(queue=queue).set(value)
        return
    with contextlib.suppress(KeyError):  # it was not there
        gauge.remove(queue)
