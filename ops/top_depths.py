"""How the queues stand, from the broker itself: by passive declarations over a plain channel, since
robust ones answer from memory; or by the management API, which knows what is unacknowledged."""

import asyncio
from collections.abc import Sequence
from typing import Final

from aio_pika.abc import AbstractRobustConnection
from aiormq.abc import AbstractChannel
from aiormq.exceptions import ChannelNotFoundEntity

from ..producer.connection import close_channel, open_channel
from ..producer.look import told
from ..producer.tasks import see_through
from . import management
from .top_picture import Reading

STEP_S: Final = 5.0


async def by_amqp(
    connection: AbstractRobustConnection, queues: Sequence[str]
) -> tuple[Reading, ...]:
    """Each queue, missing ones too. Raises BrokerUnreachable, AccessRefused."""
    channel: AbstractChannel | None = None
    readings: list[Reading] = []
    try:
        for name in queues:
            # A queue that is missing costs the channel.
            if channel is None:
                channel = await open_channel(connection, timeout_s=STEP_S)
            reading = await _one(connection, channel, name)
            readings.append(reading)
            if reading.ready is None:
                await close_channel(channel)
                channel = None
    finally:
        if channel is not None:
            await see_through(close_channel(channel))
    return tuple(readings)


async def _one(
    connection: AbstractRobustConnection, channel: AbstractChannel, name: str
) -> Reading:
    with told(connection, name):
        try:
            stands = await channel.queue_declare(name, passive=True, timeout=STEP_S)
        except ChannelNotFoundEntity:
            return Reading(name=name, ready=None)
    return Reading(name=name, ready=stands.message_count or 0, consumers=stands.consumer_count or 0)


async def by_management(
    api: management.Access, namespace: str, queues: Sequence[str]
) -> tuple[Reading, ...]:
    """Each queue of the namespace: those asked for, in their order, then others that are there,
    but for what comes and goes with a program. Raises management.NoManagement."""
    there = {each.name: each for each in await asyncio.to_thread(management.depths, api)}
    strangers = sorted(
        name
        for name in there
        if name.startswith((f"{namespace}.results.", f"{namespace}.tools.")) and name not in queues
    )
    return tuple(
        Reading(
            name=name,
            ready=(there[name].messages_ready or 0) if name in there else None,
            consumers=there[name].consumers if name in there else 0,
            unacked=there[name].messages_unacknowledged if name in there else None,
        )
        for name in [*queues, *strangers]
    )
