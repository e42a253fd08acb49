"""New agent jobs, from their delivery until they are under way: they wait for room, and are begun
or refused."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from ...producer.errors import BrokerError, Unroutable
from ...producer.subscription import Delivery
from ...producer.tasks import answer_cancellation, see_through
from ...producer.transaction import Outgoing
from ...schemas import Accepted, AgentJob, InvalidMessage, Reason
from ...schemas.codec import tag_of
from ...schemas.topology import DELIVERY_LIMIT
from .. import logs, metrics
from ..cancellations import Cancellations
from ..event_stream import EventStream
from ..publications import Identity, Settlement, Verb, bury
from ..registry import Key
from . import endings, rounds
from .carrier import Carrier
from .patience import patiently
from .sites import Sites

log = logging.getLogger(__name__)

# New jobs are begun when those under way have room: so often that is looked at.
_ROOM_PAUSE_S: Final = 0.2


@dataclass(eq=False)
class New:
    """A job that is to be begun, and its deliveries, the newest last. `task` is what waits for
    room; `waits` until there is some."""

    job: AgentJob
    deliveries: list[Delivery]
    waits: bool = True
    task: asyncio.Task[None] | None = None
    called_off: bool = False

    @property
    def key(self) -> Key:
        """By what copies of it are known."""
        return self.job.id, self.job.attempt


class Beginning:
    """Begins jobs, each once: what comes of one that waits already joins it.

    `slots` are those of the steps. A job waits at most `room_s` seconds for room; then it goes
    back, before the broker takes it away and counts that.
    """

    def __init__(  # noqa: PLR0913 - its parts, each from another maker
        self,
        who: Identity,
        sites: Sites,
        carrier: Carrier,
        events: EventStream,
        *,
        rules: str,
        slots: asyncio.Semaphore,
        patience_s: float,
        room_s: float,
        crowded: Callable[[], Awaitable[bool]],
        cancellations: Cancellations,
    ) -> None:
        self._who = who
        self._sites = sites
        self._carrier = carrier
        self._events = events
        self._rules = rules
        self._slots = slots
        self._patience_s = patience_s
        self._room_s = room_s
        self._crowded = crowded
        self._cancellations = cancellations
        self._new: dict[Key, New] = {}
        self._closed = False

    def join(self, job: AgentJob, delivery: Delivery) -> bool:
        """Add a delivery to those of its job; False where none of it is here."""
        one = self._new.get((job.id, job.attempt))
        if one is not None:
            metrics.DUPLICATES.inc()
            one.deliveries.append(delivery)
        return one is not None

    def take(self, job: AgentJob, delivery: Delivery) -> New:
        """A job that is to be begun, by `begin`."""
        one = New(job, [delivery])
        self._new[one.key] = one
        return one

    def cancel(self, job_id: str) -> None:
        """A job was called off: if it waits for room here, it does not any more."""
        for one in self._new.values():
            if one.job.id == job_id and one.waits and self._is_cancelled(one.job):
                one.called_off = True
                if one.task is not None:
                    one.task.cancel()

    def _is_cancelled(self, job: AgentJob) -> bool:
        return self._cancellations.covers(job.id, job.enqueued_at)

    def close(self) -> list[Delivery]:
        """Begin nothing more. Gives the deliveries of those that waited for room."""
        self._closed = True
        given: list[Delivery] = []
        for one in self._new.values():
            if one.waits:
                given.extend(one.deliveries)
                one.deliveries.clear()
                if one.task is not None:
                    one.task.cancel()
        return given

    async def begin(self, one: New) -> list[Delivery]:
        """Wait for room, and begin it. Gives the deliveries that came when it was settled."""
        try:
            with logs.about(*one.key):
                await self._begin(one)
        finally:
            if self._new.get(one.key) is one:
                del self._new[one.key]
        return one.deliveries

    async def _begin(self, one: New) -> None:
        try:
            if self._is_cancelled(one.job):
                await self._call_off(one)
                return
            if not await self._has_room(one):
                await self._give_back(one)
                return
            try:
                await self._admit(one)
            finally:
                self._slots.release()
        except asyncio.CancelledError:
            if not one.called_off or self._closed:
                await self._carrier.settle(Settlement((), Verb.NACK), one.deliveries)
                raise
            answer_cancellation()
            await self._call_off(one)
        except BrokerError as error:
            log.warning("the broker is in the way, the job goes back: %s", error)
            await self._carrier.settle(Settlement((), Verb.NACK), one.deliveries)
        except Exception as error:
            log.exception("the job can't be begun")
            await self._give_up(one, error)

    async def _has_room(self, one: New) -> bool:
        """Wait for a slot that no job under way needs, and take it. False where there is none in
        time, or nothing is to be begun any more."""
        if self._closed:
            return False
        one.task = asyncio.current_task()
        try:
            async with asyncio.timeout(self._room_s):
                await self._until_room()
                await self._slots.acquire()
                return True
        except TimeoutError:
            return False
        finally:
            one.waits = False

    async def _until_room(self) -> None:
        """Jobs under way come first: their time runs."""
        crowded = True
        while crowded:
            # A channel whose opening is cancelled costs the connection, which is the steps', too.
            crowded = await patiently(lambda _: see_through(self._ask()), self._patience_s)
            if crowded:
                await asyncio.sleep(_ROOM_PAUSE_S)

    async def _ask(self) -> bool:
        return await self._crowded()

    async def _give_back(self, one: New) -> None:
        """Nothing is wrong with it. Brokers before 4.3 count it all the same, so that it would end
        in the dead letters: before that it is published anew, at the end of its queue."""
        if not one.deliveries:
            return
        newest = await self._newest(one)
        log.info("no room within %g s, the job goes back", self._room_s)
        if newest.times_returned < DELIVERY_LIMIT - 1:
            await self._carrier.settle(Settlement((), Verb.NACK), one.deliveries)
            return
        _let_go(one, newest)
        names = self._who.names
        again = Outgoing(
            exchange=names.jobs,
            routing_key=names.new_agents_key,
            body=newest.body,
            kind=tag_of(AgentJob),
            correlation_id=one.job.id,
        )
        try:
            await newest.exchange([again])
        except Unroutable as error:
            log.critical("the job goes to the dead letters: %s", error)
            unroutable = InvalidMessage(Reason.RESULT_UNROUTABLE, "$", str(error))
            await self._carrier.settle(bury(self._who, newest, unroutable), [])

    async def _admit(self, one: New) -> None:
        job = one.job
        newest = await self._newest(one)
        if await self._carrier.answer_copy(job, newest):
            _let_go(one, newest)
            return
        newest = await self._newest(one)
        now = datetime.now(UTC)
        if self._is_cancelled(job):
            await self._refuse(one, newest, endings.not_wanted(self._who, job, newest, now))
            return
        if job.deadline is not None and job.deadline <= now:
            await self._refuse(one, newest, endings.too_late(self._who, job, newest, now))
            return
        try:
            self._sites.of(job)
        except InvalidMessage as error:
            log.warning("refused: %s", error)
            await self._refuse(one, newest, endings.refused(self._who, job, error, newest, now))
            return
        context = rounds.begun(job, now, self._who.worker, self._rules)
        if await self._carrier.begin(context, one.deliveries):
            self._events.of(job).emit(Accepted())

    async def _call_off(self, one: New) -> None:
        if not one.deliveries:
            return
        newest = await self._newest(one)
        try:
            if await self._carrier.answer_copy(one.job, newest):
                _let_go(one, newest)
                return
            now = datetime.now(UTC)
            await self._refuse(one, newest, endings.not_wanted(self._who, one.job, newest, now))
        except BrokerError as error:
            log.warning("the broker is in the way, the job goes back: %s", error)
            await self._carrier.settle(Settlement((), Verb.NACK), one.deliveries)

    async def _refuse(self, one: New, newest: Delivery, settlement: Settlement) -> None:
        await self._carrier.refuse(settlement, one.job, newest)
        _let_go(one, newest)

    async def _give_up(self, one: New, error: Exception) -> None:
        """A fault of our own. Whoever published the job hears of it before the broker gives up."""
        if not one.deliveries or one.deliveries[-1].times_returned < DELIVERY_LIMIT - 1:
            await self._carrier.settle(Settlement((), Verb.REJECT), one.deliveries)
            return
        newest = await self._newest(one)
        why = InvalidMessage(
            Reason.GENERATION_FAILED, "$", f"it can't be begun: {type(error).__name__}"
        )
        settlement = endings.refused(self._who, one.job, why, newest, datetime.now(UTC))
        try:
            await self._refuse(one, newest, settlement)
        except BrokerError as away:
            log.warning("the broker is in the way, the job goes back: %s", away)
            await self._carrier.settle(Settlement((), Verb.NACK), one.deliveries)

    async def _newest(self, one: New) -> Delivery:
        """The delivery whose channel lives. The others are copies: of the same message, on channels
        that are gone, or published twice."""
        while len(one.deliveries) > 1:
            older = one.deliveries[:-1]
            del one.deliveries[:-1]
            await self._carrier.settle(Settlement((), Verb.ACK), older)
        return one.deliveries[0]


def _let_go(one: New, settled: Delivery) -> None:
    """It is not ours any more."""
    one.deliveries[:] = [each for each in one.deliveries if each is not settled]
