"""When the clock decides: calls that waited too long for a person are timed out, which means no. So
does a job's being called off, which then goes on to its end."""

import asyncio
import logging
import math
import random
from collections.abc import Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Final

from aio_pika.abc import AbstractRobustConnection
from aiormq.abc import DeliveredMessage

from ...producer.connection import CONNECTION_LOST
from ...producer.look import Look, Patience, SomebodyLooks, standing
from ...producer.secrecy import OPEN, Secrecy
from ...producer.taking import Taking
from ...producer.tasks import see_through
from ...schemas.agents import AgentContext
from ...schemas.errors import InvalidMessage, SluiceError
from ...schemas.topology import Names
from ..cancellations import Cancellations
from .approval_queue import CONNECT_TIMEOUT_S, Moving, Seen, in_hand, own_url, read
from .deciding import decided, expired, soonest

log = logging.getLogger(__name__)

_JITTER: Final = 0.2
# What one sweep moves at most, and holds in memory to do so.
_MOST_MOVED: Final = 64
_MOST_BYTES: Final = 32 * 1024 * 1024
# A look is not repeated before this many times its own duration: it is in the way of people.
_REST: Final = 9.0
_LONGEST_REST_S: Final = 30.0
# One job in, another out, between two counts: the length tells nothing of that.
_BLIND_S: Final = 60.0
_CALLED_OFF: Final = "the job was called off"


class Sweeper:
    """Times calls out. As many services as like may sweep: who looks holds the lock of the queue,
    and the others come again later.

    Every `every_s` seconds or so it asks how long the queue is, and looks into it only where that
    is not what it knows, or the time of a call it knows is over. `on_moved` is called with each
    context that was published in place of the one that waited. `worker` and `versions` are for
    dead letters about what can't be read.
    """

    def __init__(
        self,
        connection: AbstractRobustConnection,
        names: Names,
        *,
        every_s: float = 1.0,
        on_moved: Callable[[AgentContext], None] | None = None,
        worker: str = "",
        versions: Mapping[str, str] | None = None,
        secrecy: Secrecy = OPEN,
        cancellations: Cancellations | None = None,
    ) -> None:
        self._connection = connection
        self._names = names
        self._every_s = every_s
        self._on_moved = on_moved
        self._worker = worker
        self._versions = versions
        self._secrecy = secrecy
        # When those that lay there time out, by what tells their messages apart.
        self._known: dict[object, datetime] = {}
        # Of the same, the job and when it was published.
        self._jobs: dict[object, tuple[str, datetime | None]] = {}
        self._cancellations = cancellations if cancellations is not None else Cancellations()
        self._looked_at = -math.inf
        self._rest_until = -math.inf
        self._trouble = ""

    def __repr__(self) -> str:
        return f"<Sweeper of {self._names.approvals}: {len(self._known)} wait>"

    async def run(self) -> None:
        """Sweep until cancelled. A broker that is gone, or lacks the queue, is tried again."""
        while True:
            trouble = ""
            try:
                await self.sweep()
            except SomebodyLooks as error:
                log.debug("%r: %s", self, error)
            except (SluiceError, *CONNECTION_LOST) as error:
                trouble = str(error) or type(error).__name__
                self._forget()
            if trouble and trouble != self._trouble:
                log.warning("%r: calls can't be timed out now: %s", self, trouble)
            self._trouble = trouble
            pause_s = self._every_s * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311  no secret
            await asyncio.sleep(pause_s)

    async def sweep(self) -> int:
        """Look where there is a reason to, and time out what is over; gives how many jobs were
        moved. Errors as `producer.look.looking`, which are SluiceErrors."""
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            await self._connection.ready()
        # A channel whose opening is cancelled costs the connection, which is not ours alone.
        ready, consumers = await see_through(standing(self._connection, self._names.approvals))
        if consumers or not self._is_due(ready):  # whoever looks would see a part
            return 0
        clock = asyncio.get_running_loop().time
        began = clock()
        async with in_hand(
            own_url(self._connection),
            self._names,
            timeout_s=CONNECT_TIMEOUT_S,
            patience=Patience(lock_s=0.0),
        ) as look:
            moved = await self._look(look)
        self._looked_at = clock()
        self._rest_until = self._looked_at + min(_LONGEST_REST_S, _REST * (self._looked_at - began))
        return moved

    def _forget(self) -> None:
        self._known.clear()
        self._jobs.clear()

    def _is_due(self, ready: int) -> bool:
        if not ready:
            self._forget()
            return False
        now = asyncio.get_running_loop().time()
        if now < self._rest_until:
            return False
        return (
            ready != len(self._known)
            or min(self._known.values()) <= datetime.now(UTC)
            or now - self._looked_at >= _BLIND_S
            or any(self._cancellations.covers(*job) for job in self._jobs.values())
        )

    async def _look(self, look: Look) -> int:
        """Read all, and move what is over."""
        now = datetime.now(UTC)
        known: dict[object, datetime] = {}
        jobs: dict[object, tuple[str, datetime | None]] = {}
        over: list[Seen] = []
        size = 0
        async with aclosing(look.messages()) as messages:
            async for message in messages:
                key = _key(message)
                job = self._jobs.get(key)
                unwanted = job is not None and self._cancellations.covers(*job)
                due = now if unwanted else self._known.get(key)
                full = len(over) >= _MOST_MOVED or size >= _MOST_BYTES
                if (due is None or due <= now) and not full:
                    seen = read(message)
                    if not isinstance(seen.context, InvalidMessage):
                        job = seen.context.id, seen.context.job.enqueued_at
                    due = now if self._is_unwanted(seen) else _due(seen, now)
                    if due <= now:
                        over.append(seen)
                        size += len(message.body)
                        continue
                # What there was no room for is over, too, or may be.
                known[key] = due or now
                if job is not None:
                    jobs[key] = job
        self._known, self._jobs = known, jobs
        if not over:
            return 0
        async with Taking(look) as taking:
            moving = Moving(
                look,
                taking,
                self._names,
                worker=self._worker,
                versions=self._versions,
                secrecy=self._secrecy,
            )
            return await self._move(moving, over, now)

    def _is_unwanted(self, seen: Seen) -> bool:
        if isinstance(seen.context, InvalidMessage):
            return False
        return self._cancellations.covers(seen.context.id, seen.context.job.enqueued_at)

    async def _move(self, moving: Moving, over: list[Seen], now: datetime) -> int:
        moved = 0
        unreadable: list[Seen] = []
        for seen in over:
            if isinstance(seen.context, InvalidMessage):
                unreadable.append(seen)
                continue
            unwanted = self._is_unwanted(seen)
            if unwanted:
                after = decided(seen.context, None, "denied", why=_CALLED_OFF, now=now)
            else:
                after = decided(seen.context, expired(seen.context, now), "timed_out", now=now)
            try:
                await moving.move(after, seen, [seen.tag])
            except InvalidMessage as error:  # with its last words it is over the limit
                unreadable.append(Seen(seen.message, error))
                continue
            moved += 1
            why = _CALLED_OFF if unwanted else "waited too long for a person"
            log.info("job %s: %s (revision %d)", after.id, why, after.revision)
            if self._on_moved is not None:
                self._on_moved(after)
        await moving.bury(unreadable)
        return moved


def _key(message: DeliveredMessage) -> object:
    """Publishers give each message an id of its own; without one, it is read at each look."""
    message_id = message.header.properties.message_id
    return (message_id, len(message.body)) if message_id else (message.delivery_tag, object())


def _due(seen: Seen, now: datetime) -> datetime:
    """When a message is to be moved: at once where it is no context, or waits for nobody."""
    if isinstance(seen.context, InvalidMessage):
        return now
    return soonest(seen.context) or now
