"""Putting the topology on the broker, and asking whether it stands."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import aiormq
from aio_pika.abc import AbstractRobustConnection
from aio_pika.exceptions import AMQPChannelError, ChannelNotFoundEntity, ChannelPreconditionFailed
from aiormq.exceptions import ChannelAccessRefused, ChannelLockedResource

from ..schemas.topology import Binding, Exchange, Queue, Topology
from .connection import CONNECTION_LOST, address, close_channel, lost_not_cancelled, open_channel
from .errors import AccessRefused, BrokerUnreachable, TopologyConflict, TopologyMissing

TIMEOUT_S: Final = 30.0

Channel = aiormq.abc.AbstractChannel


async def apply(
    connection: AbstractRobustConnection, topology: Topology, *, timeout_s: float = TIMEOUT_S
) -> None:
    """Declare all of it, in the topology's own safe order. What stands already is left alone.

    Raises TopologyConflict where something of the same name stands with other properties,
    AccessRefused without the right to configure, BrokerUnreachable.
    """
    async with one_channel(connection, timeout_s) as channel:
        for exchange in topology.exchanges:
            await declare_exchange(channel, exchange)
        for queue in topology.queues:
            await declare_queue(channel, queue)
        for binding in topology.bindings:
            await bind(channel, binding)


async def require(
    connection: AbstractRobustConnection, topology: Topology, *, timeout_s: float = TIMEOUT_S
) -> None:
    """Raise TopologyMissing, naming all that is missing. Changes nothing, needs no rights.

    Bindings can't be asked for over AMQP: a missing one shows as Unroutable when publishing.
    """
    missing: list[str] = []
    try:
        with lost_not_cancelled():
            async with asyncio.timeout(timeout_s):
                missing = await _missing(connection, topology, timeout_s)
    except CONNECTION_LOST as error:
        raise _lost(connection, error) from error
    if missing:
        raise TopologyMissing(missing)


async def declare_exchange(channel: Channel, exchange: Exchange) -> None:
    """Declare one exchange; errors as `apply`. They close the channel, as AMQP has it."""
    with explained(f"exchange {exchange.name!r}"):
        await channel.exchange_declare(
            exchange=exchange.name, exchange_type=exchange.kind, durable=True
        )


async def declare_queue(channel: Channel, queue: Queue) -> None:
    """Declare one queue; errors as `apply`. They close the channel, as AMQP has it."""
    with explained(f"queue {queue.name!r}"):
        await channel.queue_declare(queue=queue.name, durable=True, arguments=_table(queue))


async def bind(channel: Channel, binding: Binding) -> None:
    """Bind a queue to an exchange; errors as `apply`, and TopologyMissing."""
    with explained(f"binding of {binding.queue!r} to {binding.exchange!r}"):
        await channel.queue_bind(
            queue=binding.queue,
            exchange=binding.exchange,
            routing_key=binding.routing_key,
            arguments=dict(binding.arguments) or None,
        )


async def _missing(
    connection: AbstractRobustConnection, topology: Topology, timeout_s: float
) -> list[str]:
    missing: list[str] = []
    channel: Channel | None = None
    checks = [*map(_exchange_check, topology.exchanges), *map(_queue_check, topology.queues)]
    try:
        for what, ask in checks:
            # The broker closes the channel with each "not found".
            if channel is None or channel.is_closed:
                channel = await open_channel(connection, timeout_s=timeout_s)
            try:
                await ask(channel)
            except ChannelNotFoundEntity:
                missing.append(what)
                await close_channel(channel)
    finally:
        if channel is not None:
            await close_channel(channel)
    return missing


_Check = tuple[str, Callable[[Channel], Awaitable[object]]]


def _exchange_check(exchange: Exchange) -> _Check:
    def ask(channel: Channel) -> Awaitable[object]:
        return channel.exchange_declare(exchange=exchange.name, passive=True)

    return f"exchange {exchange.name!r}", ask


def _queue_check(queue: Queue) -> _Check:
    def ask(channel: Channel) -> Awaitable[object]:
        return channel.queue_declare(queue=queue.name, passive=True)

    return f"queue {queue.name!r}", ask


def _table(queue: Queue) -> dict[str, Any]:
    return dict(queue.arguments)


@asynccontextmanager
async def one_channel(
    connection: AbstractRobustConnection, timeout_s: float
) -> AsyncGenerator[Channel]:
    """A channel for a few declarations, all of them within `timeout_s` seconds.

    Raises BrokerUnreachable. Put `explained` around what is asked on it.
    """
    try:
        with lost_not_cancelled():
            async with asyncio.timeout(timeout_s):
                channel = await open_channel(connection, timeout_s=timeout_s)
                try:
                    yield channel
                finally:
                    await close_channel(channel)
    except AMQPChannelError:
        raise  # The broker's "no" to what was asked on it, not a lost connection.
    except CONNECTION_LOST as error:
        raise _lost(connection, error) from error


@contextmanager
def explained(what: str) -> Generator[None]:
    """Say what a refused declaration means: TopologyConflict, AccessRefused, TopologyMissing."""
    try:
        yield
    except (ChannelPreconditionFailed, ChannelLockedResource) as error:
        raise TopologyConflict(
            f"{what} stands on the broker with other properties: {error}. "
            "See `sluice topology check`, or use another namespace"
        ) from error
    except ChannelAccessRefused as error:
        raise AccessRefused(
            f"this user may not declare the {what}. Grant it configure, write and read permission, "
            "or let an operator run `sluice topology apply`"
        ) from error
    except ChannelNotFoundEntity as error:
        raise TopologyMissing([what]) from error


def _lost(connection: AbstractRobustConnection, error: BaseException) -> BrokerUnreachable:
    return BrokerUnreachable(f"lost {address(connection)} while asking for its topology: {error}")
