"""The queue on which a backend's results come back."""

import logging
import secrets
from typing import Final

from aio_pika.abc import AbstractRobustConnection

from ..schemas.topology import Names, Topology, reply
from . import declare
from .errors import AccessRefused, BrokerError, TopologyConflict

log = logging.getLogger(__name__)

STEP_TIMEOUT_S: Final = 10.0


class ReplyQueue:
    """A private queue, deleted when done with, or the backend's own, which stays.

    `expires`: the queue goes away by itself when nobody has used it for half an hour. A private
    one always does, in case its owner dies.
    """

    def __init__(
        self,
        connection: AbstractRobustConnection,
        names: Names,
        key: str | None,
        *,
        expires: bool = False,
    ) -> None:
        self.private = key is None
        self.key = key if key is not None else f"private-{secrets.token_hex(8)}"
        self._connection = connection
        self._names = names
        self._queue, self._binding = reply(names, self.key, private=self.private or expires)

    def __repr__(self) -> str:
        return f"<ReplyQueue {self._queue.name}>"

    async def prepare(self) -> str:
        """Make sure of the queue and its binding; returns the queue's name.

        A named one that this user may not declare, or that stands with other arguments, is used
        as it is. Raises TopologyMissing where it doesn't stand at all, AccessRefused for a
        private one, BrokerUnreachable.
        """
        try:
            async with declare.one_channel(self._connection, STEP_TIMEOUT_S) as channel:
                await declare.declare_queue(channel, self._queue)
        except (AccessRefused, TopologyConflict) as error:
            if self.private:
                raise
            log.debug("reply queue taken as it is: %s", error)
            await declare.require(
                self._connection,
                Topology(names=self._names, exchanges=(), queues=(self._queue,), bindings=()),
                timeout_s=STEP_TIMEOUT_S,
            )
        try:
            async with declare.one_channel(self._connection, STEP_TIMEOUT_S) as channel:
                await declare.bind(channel, self._binding)
        except AccessRefused as error:
            if self.private:
                raise
            log.debug("the operator must have bound it: %s", error)
        return self._queue.name

    async def delete(self) -> None:
        """Remove the queue with whatever is on it. Where that can't be, it expires later."""
        try:
            async with declare.one_channel(self._connection, STEP_TIMEOUT_S) as channel:
                with declare.explained(f"queue {self._queue.name!r}"):
                    await channel.queue_delete(self._queue.name)
        except BrokerError as error:
            log.debug("reply queue left to expire: %s", error)
