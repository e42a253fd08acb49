"""Carries moves out: the next context for the one before, in one transaction; or the end."""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Final

from ...producer.errors import BrokerError, Unroutable
from ...producer.subscription import Delivery
from ...producer.transaction import Outgoing
from ...schemas import (
    AgentContext,
    AgentJob,
    AgentRecord,
    Finished,
    InvalidMessage,
    Outcome,
    Reason,
    encode,
)
from ...schemas.agents import Begun, Ended
from ...schemas.codec import tag_of
from ...schemas.limits import MAX_SUMMARY_CHARS
from .. import metrics
from ..event_stream import EventStream
from ..observing import observe_end, outcome_of
from ..publications import Identity, Settlement, Verb, bury
from ..registry import Key, Keyed, Registry
from ..settler import Settler
from . import endings, rounds
from .journal import Journal
from .moves import Goes, Over, stop_for
from .patience import patiently

log = logging.getLogger(__name__)

# Jobs of which is known how far they were published from here.
_REMEMBERED: Final = 10_000
# How far back the journal is asked whether a job is over.
_LOOK_BACK: Final = timedelta(days=1)
# An event's number within its job: each revision has so many.
_SEQ_STRIDE: Final = 100


class Carrier:
    """Publishes, settles, and knows for a while what it has published."""

    def __init__(
        self,
        who: Identity,
        settler: Settler,
        journal: Journal,
        events: EventStream,
        *,
        patience_s: float,
        release: Callable[[str], Awaitable[None]],
    ) -> None:
        self._who = who
        self._settler = settler
        self._journal = journal
        self._events = events
        self._patience_s = patience_s
        self._release = release
        self._published: OrderedDict[Key, tuple[int, str]] = OrderedDict()
        self._over: Registry[Keyed] = Registry()

    def furthest(self, key: Key) -> int:
        """The last revision of a job that was published here; 0 where none is known."""
        return self._published.get(key, (0, ""))[0]

    def settled(self, key: Key) -> Settlement | None:
        """What a job came to, if it ended here not long ago."""
        return self._over.settled(key)

    async def begin(self, context: AgentContext, deliveries: list[Delivery]) -> bool:
        """Publish the first context of a job for the job itself. As `hand_on`."""
        begun = await self.hand_on(Goes(context), deliveries)
        if begun:
            try:
                await self._journal.write(context.id, Begun(job=context.job))
            except BrokerError as error:
                # It is for whoever looks on; nothing depends on it.
                log.info("that the job is begun can't be written down: %s", error)
        return begun

    async def hand_on(self, move: Goes, deliveries: list[Delivery]) -> bool:
        """Publish the next context and acknowledge the one before, in one step. False where it is
        not known whether it was done: the broker has one of the two."""
        context = rounds.stepped(move.context, datetime.now(UTC), self._who.worker)
        names = self._who.names
        message = Outgoing(
            exchange=names.jobs,
            routing_key=names.approvals_key if move.to_person else names.agents_key,
            body=encode(context),
            kind=tag_of(AgentContext),
            correlation_id=context.id,
        )
        # The newest is the one whose channel lives.
        *older, newest = deliveries
        deliveries.clear()  # what joins from here on is another's turn
        await self.settle(Settlement((), Verb.ACK), older)
        try:
            done = await newest.exchange([message])
        except Unroutable as error:
            log.critical("the job goes to the dead letters: %s", error)
            unroutable = InvalidMessage(Reason.RESULT_UNROUTABLE, "$", str(error))
            await self.settle(bury(self._who, newest, unroutable), [])
            return False
        except Exception:
            # A fault of ours: it is still there to be given back.
            deliveries.append(newest)
            raise
        if not done:
            log.warning(
                "the channel is gone, revision %d is left to the broker", move.context.revision
            )
        else:
            self._remember(context)
            events = self._events.of(context.job, context.revision * _SEQ_STRIDE)
            for event in move.events:
                events.emit(event)
        return done

    async def finish(self, move: Over, deliveries: list[Delivery]) -> None:
        """Write the scene down, then publish the end, and let the tools go."""
        context = move.context
        settlement = endings.ended(self._who, move, deliveries[-1], datetime.now(UTC))
        await self._write_down(context, move.outcome, move.record, move.text)
        await self._end(settlement, context.job, deliveries, revision=context.revision + 1)
        await self._release(context.id)

    async def refuse(self, settlement: Settlement, job: AgentJob, delivery: Delivery) -> None:
        """The same for a job that is not begun."""
        outcome = settlement.outcome
        if outcome is not None:
            reason = endings.reason_of(outcome)
            stop = stop_for(reason, getattr(outcome, "detail", "") or "before it was begun")
            context = rounds.begun(job, datetime.now(UTC), self._who.worker)
            await self._write_down(
                rounds.stopping(context, stop), outcome, AgentRecord(stopped=stop)
            )
        await self._end(settlement, job, [delivery], revision=1)

    async def _write_down(
        self, context: AgentContext, outcome: Outcome, record: AgentRecord, text: str = ""
    ) -> None:
        entry = Ended(
            context=context,
            outcome=str(outcome.__struct_config__.tag),
            record=record,
            text=text[:MAX_SUMMARY_CHARS],
        )
        await patiently(lambda _: self._journal.write(context.id, entry), self._patience_s)

    async def _end(
        self, settlement: Settlement, job: AgentJob, deliveries: list[Delivery], *, revision: int
    ) -> None:
        """Publish what a job came to, and remember it for copies of the job that still come."""
        key = (job.id, job.attempt)
        self._over.remember(key, settlement)
        done = await self._settler.settle(settlement, deliveries)
        self._over.remember(key, done.delivered() if done.sent else done)
        outcome = settlement.outcome
        if not done.sent or outcome is None:
            return
        kind = outcome_of(outcome)
        observe_end(job, outcome)
        metrics.AGENTS.labels(outcome=kind, reason=str(getattr(outcome, "reason", ""))).inc()
        log.info("%s%s", kind, f": {detail}" if (detail := getattr(outcome, "detail", "")) else "")
        self._events.of(job, revision * _SEQ_STRIDE).emit(Finished(outcome=outcome))

    async def answer_copy(self, job: AgentJob, delivery: Delivery) -> bool:
        """Deal with a job that was begun here before: twice under way, its effects would happen
        twice. Where it is over, wherever it ended, its result comes once more; where it is not, its
        result comes to whoever published it first, and anybody else is told so. False for a job
        that is not known here."""
        known = self._published.get((job.id, job.attempt))
        if known is None:
            return False
        metrics.DUPLICATES.inc()
        _, reply_to = known
        now = datetime.now(UTC)
        if (told := await self._told(job)) is not None:
            log.info("a copy of a job that is over; answered again")
            settlement = endings.told_again(self._who, told, job.reply_to, now)
        elif job.reply_to == reply_to:
            log.info("a copy of a job that is under way; dropped")
            settlement = Settlement((), Verb.ACK)
        else:
            log.warning("a copy of a job that is under way, for %s; refused", job.reply_to)
            settlement = endings.under_way(self._who, job, reply_to, now)
        await self.settle(settlement, [delivery])
        return True

    async def _told(self, job: AgentJob) -> Ended | None:
        since = datetime.now(UTC) - _LOOK_BACK
        found: Ended | None = None
        async with aclosing(self._journal.lines(since, job.id)) as lines:
            async for line in lines:
                if isinstance(line.entry, Ended) and line.entry.context.job.attempt == job.attempt:
                    found = line.entry
        return found

    async def answer_again(self, settled: Settlement, reply_to: str, delivery: Delivery) -> None:
        """A copy of a job that is over: the same result once more, which its reader knows by
        `(job_id, attempt)`."""
        await self.settle(settled.again(reply_to), [delivery])

    async def settle(self, settlement: Settlement, deliveries: list[Delivery]) -> None:
        """Carry a settlement out."""
        await self._settler.settle(settlement, deliveries)

    def _remember(self, context: AgentContext) -> None:
        key = rounds.key_of(context)
        self._published[key] = context.revision, context.job.reply_to
        self._published.move_to_end(key)
        while len(self._published) > _REMEMBERED:
            self._published.popitem(last=False)
