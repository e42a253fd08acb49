"""The queue of agent jobs that wait for a person, in hand: read, and moved on from."""

import logging
import os
import socket
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from datetime import UTC, datetime
from typing import Final, cast

from aio_pika.abc import AbstractRobustConnection
from aio_pika.connection import Connection
from aiormq.abc import DeliveredMessage
from msgspec import Struct

from ...producer.confirms import ConfirmedPublisher
from ...producer.errors import BrokerError, BrokerUnreachable, TopologyMissing
from ...producer.look import Look, Patience, Subject, looking
from ...producer.secrecy import OPEN, Secrecy
from ...producer.taking import Taking, require_way
from ...producer.transaction import Outgoing
from ...schemas.agents import AgentContext
from ...schemas.codec import decode, encode, peek, tag_of
from ...schemas.dead_letters import DeadLetter, Origin
from ...schemas.errors import InvalidMessage
from ...schemas.ids import content_id
from ...schemas.limits import MAX_JOB_BYTES
from ...schemas.topology import Names
from .deciding import soonest

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S: Final = 10.0
PUBLISH_TIMEOUT_S: Final = 30.0
# Of a body that stays with the broker, in the letter about it.
_KEPT_BYTES: Final = 1024


class Seen(Struct, frozen=True):
    """A message of the queue, and the context in it, or why there is none."""

    message: DeliveredMessage
    context: AgentContext | InvalidMessage

    @property
    def tag(self) -> int:
        """To settle it by."""
        return self.message.delivery_tag or 0


def in_hand(
    url: str, names: Names, *, timeout_s: float, patience: Patience | None = None
) -> AbstractAsyncContextManager[Look]:
    """The queue in hand. Errors as `producer.look.looking`."""
    return looking(
        url,
        Subject(names.approvals, "the calls that wait for approval", "`sluice agent`"),
        timeout_s=timeout_s,
        name=f"sluice agent approvals {socket.gethostname()}:{os.getpid()}",
        patience=patience or Patience(),
    )


def read(message: DeliveredMessage) -> Seen:
    """What a message is."""
    try:
        return Seen(message, decode(message.body, AgentContext))
    except InvalidMessage as error:
        return Seen(message, error)


async def each(look: Look) -> AsyncGenerator[Seen]:
    """Every message, in order. Raises LookLost, BrokerUnreachable."""
    async with aclosing(look.messages()) as messages:
        async for message in messages:
            yield read(message)


class Moving:
    """Moves jobs on from a look, each in a transaction of its own."""

    def __init__(
        self,
        look: Look,
        taking: Taking,
        names: Names,
        *,
        worker: str = "",
        versions: Mapping[str, str] | None = None,
        secrecy: Secrecy = OPEN,
    ) -> None:
        self._look = look
        self._taking = taking
        self._names = names
        self._worker = worker
        self._versions = dict(versions or {})
        self._secrecy = secrecy
        self._publisher = ConfirmedPublisher(look.connection)
        self._ways: set[str] = set()

    async def move(self, context: AgentContext, instead_of: Seen, tags: Iterable[int]) -> None:
        """Publish the context, to wait on or to go on, instead of the messages with these tags.
        Raises InvalidMessage, TopologyMissing, AccessRefused: nothing was done; BrokerUnreachable:
        it was, or not."""
        names = self._names
        waits = soonest(context) is not None
        key = names.approvals_key if waits else names.agents_key
        body = encode(context)
        await self._require_way(names.approvals if waits else names.agents, key)
        if await self._taking.take(tags, [self._outgoing(key, body, context.id)]):
            return
        # The queue, or its binding, went in this moment.
        self._ways.clear()
        await self._publisher.publish(
            "",
            names.approvals,
            instead_of.message.body,
            kind=tag_of(AgentContext),
            correlation_id=context.id,
            timeout_s=PUBLISH_TIMEOUT_S,
        )
        raise TopologyMissing([f"binding of exchange {names.jobs!r} for {key!r}"])

    async def bury(self, unreadable: Sequence[Seen]) -> int:
        """Give what can't be read to the dead letters; gives how many. What can't be given to them
        now stays, and is in nobody's way. Raises BrokerUnreachable."""
        buried = 0
        for seen in unreadable:
            try:
                await self._bury(seen)
            except BrokerUnreachable:
                raise
            except BrokerError as error:
                log.warning("a message that is no agent job can't be buried: %s", error)
            else:
                buried += 1
        return buried

    async def _bury(self, seen: Seen) -> None:
        letter = self._secrecy.letter(self._letter(seen))
        # Confirmed first: a transaction does not tell when the dead letters are full. Of two
        # letters about one body the second has the same id.
        await self._publisher.publish(
            self._names.dlx,
            "agent",
            encode(letter),
            kind=tag_of(DeadLetter),
            correlation_id=letter.job_id,
            timeout_s=PUBLISH_TIMEOUT_S,
        )
        small = len(seen.message.body) <= MAX_JOB_BYTES
        await self._taking.take([seen.tag], discard=not small and not self._secrecy.hides)
        log.warning("a message among the agent jobs that wait is none: %s", letter.detail)

    def _letter(self, seen: Seen) -> DeadLetter:
        body, given = seen.message.body, seen.message.header.properties
        error = seen.context
        if not isinstance(error, InvalidMessage):
            raise TypeError("a context that can be read is no letter")
        return DeadLetter(
            id=content_id(b"agent", body),
            job_id=peek(body)[0],
            reason=error.reason,
            field=error.field,
            detail=error.detail,
            at=datetime.now(UTC),
            origin=Origin(
                stage="agent",
                worker=self._worker,
                queue=self._names.approvals,
                routing_key=seen.message.routing_key,
                message_id=given.message_id,
                correlation_id=given.correlation_id,
                redelivered=bool(seen.message.redelivered),
            ),
            raw_body=body if len(body) <= MAX_JOB_BYTES else body[:_KEPT_BYTES],
            raw_body_bytes=len(body),
            versions=self._versions,
        )

    async def _require_way(self, queue: str, key: str) -> None:
        """Once in a look."""
        if key not in self._ways:
            await require_way(self._look.connection, self._names.jobs, queue, routing_key=key)
            self._ways.add(key)

    def _outgoing(self, key: str, body: bytes, job_id: str) -> Outgoing:
        return Outgoing(
            exchange=self._names.jobs,
            routing_key=key,
            body=body,
            kind=tag_of(AgentContext),
            correlation_id=job_id,
        )


def own_url(connection: AbstractRobustConnection) -> str:
    """Where a connection goes, password and all, for one more under a name of its own."""
    return str(cast("Connection", connection).url.without_query_params("name"))
