"""What becomes of a delivery of the agents' queues: begun, joined, taken further, or ended."""

import asyncio
import itertools
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from ...producer.errors import BrokerError, Unroutable
from ...producer.subscription import Delivery
from ...producer.transaction import Outgoing
from ...schemas import (
    Accepted,
    AgentContext,
    AgentJob,
    Finished,
    InvalidMessage,
    Reason,
    decode,
    encode,
    peek,
)
from ...schemas.agents import Ended
from ...schemas.codec import tag_of
from .. import logs, metrics
from ..event_stream import EventStream
from ..publications import Identity, Settlement, Verb, bury
from ..settler import Settler
from . import endings, rounds
from .journal import Journal
from .moves import Goes, Move, Over
from .sites import Sites
from .step import Stepper

log = logging.getLogger(__name__)

T = TypeVar("T")
Key = tuple[str, int]
# Between tries of what the broker does not do right now.
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0
# Jobs of which is known how far they were published from here.
_REMEMBERED: Final = 10_000
# New jobs are begun when those under way have room: so often that is looked at.
_ROOM_PAUSE_S: Final = 0.2
# An event's number within its job: each revision has so many.
_SEQ_STRIDE: Final = 100


@dataclass(eq=False)
class _Running:
    """A step under way, and the deliveries to settle with it."""

    context: AgentContext
    deliveries: list[Delivery]
    over: asyncio.Event = field(default_factory=asyncio.Event)


class AgentIntake:
    """Owns every agent job that this service holds, each in a task of the group it is given."""

    def __init__(  # noqa: PLR0913 - its parts, each from another maker
        self,
        group: asyncio.TaskGroup,
        who: Identity,
        stepper: Stepper,
        sites: Sites,
        journal: Journal,
        settler: Settler,
        events: EventStream,
        *,
        slots: int,
        patience_s: float,
        crowded: Callable[[], Awaitable[bool]],
        release: Callable[[str], Awaitable[None]],
    ) -> None:
        self._group = group
        self._who = who
        self._stepper = stepper
        self._sites = sites
        self._journal = journal
        self._settler = settler
        self._events = events
        self._slots = asyncio.Semaphore(slots)
        self._patience_s = patience_s
        self._crowded = crowded
        self._release = release
        self._running: dict[Key, _Running] = {}
        self._published: OrderedDict[Key, int] = OrderedDict()
        self._closed = False
        self._late: list[Delivery] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._steps: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<AgentIntake {len(self._running)} running>"

    # --- deliveries ---

    def take_new(self, delivery: Delivery) -> None:
        """A job that nobody has begun. Never waits."""
        if self._closed:
            self._late.append(delivery)
            return
        try:
            job = decode(delivery.body, AgentJob)
        except InvalidMessage as error:
            self._start(self._bury(delivery, error), "bury")
            return
        self._start(self._begin(job, delivery), f"begin {job.id}", step=True)

    def take(self, delivery: Delivery) -> None:
        """A job under way. Never waits."""
        if self._closed:
            self._late.append(delivery)
            return
        try:
            context = decode(delivery.body, AgentContext)
        except InvalidMessage as error:
            self._start(self._bury(delivery, error), "bury")
            return
        key = _key(context)
        running = self._running.get(key)
        # A step's successor may come before the broker has said that the step is over.
        furthest = running.context.revision if running is not None else 0
        if running is not None and context.revision == furthest:
            # The channel was lost, and the broker has put it back; the step goes on.
            metrics.DUPLICATES.inc()
            running.deliveries.append(delivery)
        elif context.revision < max(furthest, self._published.get(key, 0)):
            # The broker lost half of a transaction: another copy of the job is further.
            metrics.DUPLICATES.inc()
            log.warning("%s: revision %d is behind; dropped", context.id, context.revision)
            self._start(self._settle(Settlement((), Verb.ACK), [delivery]), "drop")
        else:
            self._running[key] = one = _Running(context, [delivery])
            self._start(self._run(one, again=delivery.redelivered), context.id, step=True)

    def close(self) -> None:
        """Begin nothing more."""
        self._closed = True

    async def hand_back(self) -> None:
        """Return what came after `close`."""
        await self._settle(Settlement((), Verb.NACK), self._late)

    async def idle(self, timeout_s: float) -> bool:
        """Wait until nothing runs; False when that takes longer."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        return not self._tasks

    def interrupt(self, why: str) -> None:
        """End every step; their jobs go back as they were."""
        log.info("handing back %d agent jobs: %s", len(self._steps), why)
        for task in self._steps:
            task.cancel()

    def abandon(self) -> None:
        """Let go of everything, unsettled."""
        for task in self._tasks:
            task.cancel()

    def _start(self, work: Coroutine[Any, Any, None], name: str, *, step: bool = False) -> None:
        task = self._group.create_task(work, name=f"agent {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if step:
            self._steps.add(task)
            task.add_done_callback(self._steps.discard)

    # --- beginning ---

    async def _begin(self, job: AgentJob, delivery: Delivery) -> None:
        with logs.about(job.id, job.attempt):
            try:
                await self._until_room()
                async with self._slots:
                    await self._admit(job, delivery)
            except asyncio.CancelledError:
                await self._settle(Settlement((), Verb.NACK), [delivery])
                raise
            except BrokerError as error:
                log.warning("the broker is in the way, the job goes back: %s", error)
                await self._settle(Settlement((), Verb.NACK), [delivery])
            except Exception:
                log.exception("the job can't be begun")
                await self._settle(Settlement((), Verb.REJECT), [delivery])

    async def _until_room(self) -> None:
        """Jobs under way come first: their time runs."""
        crowded = True
        while crowded:
            crowded = await self._patiently(lambda _: self._crowded())
            if crowded:
                await asyncio.sleep(_ROOM_PAUSE_S)

    async def _admit(self, job: AgentJob, delivery: Delivery) -> None:
        now = datetime.now(UTC)
        if job.deadline is not None and job.deadline <= now:
            await self._end(endings.too_late(self._who, job, delivery, now), job, [delivery])
            return
        try:
            self._sites.of(job)
        except InvalidMessage as error:
            log.warning("refused: %s", error)
            settlement = endings.refused(self._who, job, error, delivery, now)
            await self._end(settlement, job, [delivery])
            return
        context = rounds.begun(job, now, self._who.worker)
        if await self._hand_on(Goes(context), [delivery]):
            self._events.of(job).emit(Accepted())

    # --- steps ---

    async def _run(self, one: _Running, *, again: bool) -> None:
        context = one.context
        try:
            with (
                logs.about(context.id, context.job.attempt),
                metrics.AGENT_STEPS.track_inprogress(),
            ):
                async with self._slots:
                    began = time.monotonic()
                    await self._step(one, again=again)
                    metrics.AGENT_STEP_SECONDS.labels(phase=context.orchestration.phase).observe(
                        time.monotonic() - began
                    )
        except asyncio.CancelledError:
            await self._settle(Settlement((), Verb.NACK), one.deliveries)
            raise
        finally:
            if self._running.get(_key(context)) is one:
                del self._running[_key(context)]
            one.over.set()

    async def _step(self, one: _Running, *, again: bool) -> None:
        try:
            site = self._sites.of(one.context.job)
        except InvalidMessage as error:
            # Another service may have what this one lacks; the delivery limit ends it otherwise.
            log.error("can't go on here: %s", error)  # noqa: TRY400
            await self._settle(Settlement((), Verb.REJECT), one.deliveries)
            return
        try:
            move = await self._patiently(
                lambda tries: self._stepper.step(one.context, site, again=again or tries > 0)
            )
            await self._carry_out(move, one)
        except BrokerError as error:
            log.warning("the broker is in the way, the job goes back: %s", error)
            await self._settle(Settlement((), Verb.NACK), one.deliveries)
        except Exception:
            # A fault of our own. The delivery limit ends it, with the job in the dead letters.
            log.exception("the step failed unexpectedly")
            await self._settle(Settlement((), Verb.REJECT), one.deliveries)

    async def _patiently(self, work: Callable[[int], Awaitable[T]]) -> T:
        """What the work comes to, tried again while the broker is in the way: a stream, for one, is
        back a second or so after its node. Given back, the job would come again at once, and be
        counted as one that kills its services. Raises BrokerError when the time of a step is over.
        """
        pause_s = _FIRST_PAUSE_S
        give_up = time.monotonic() + self._patience_s
        for tries in itertools.count():
            try:
                return await work(tries)
            except BrokerError as error:
                if time.monotonic() + pause_s > give_up:
                    raise
                log.info("the broker is in the way, trying again: %s", error)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        raise AssertionError  # itertools.count() has no end

    async def _carry_out(self, move: Move, one: _Running) -> None:
        match move:
            case Goes():
                await self._hand_on(move, one.deliveries)
            case Over():
                await self._finish(move, one)

    async def _hand_on(self, move: Goes, deliveries: list[Delivery]) -> bool:
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
        deliveries.clear()
        await self._settle(Settlement((), Verb.ACK), older)
        try:
            done = await newest.exchange([message])
        except Unroutable as error:
            log.critical("the job goes to the dead letters: %s", error)
            await self._settle(bury(self._who, newest, _lost(error)), [])
            return False
        if done:
            self._published[_key(context)] = context.revision
            self._published.move_to_end(_key(context))
            while len(self._published) > _REMEMBERED:
                self._published.popitem(last=False)
            events = self._events.of(context.job, context.revision * _SEQ_STRIDE)
            for event in move.events:
                events.emit(event)
        return done

    async def _finish(self, move: Over, one: _Running) -> None:
        context = move.context
        kind = str(move.outcome.__struct_config__.tag)
        entry = Ended(context=context, outcome=kind, record=move.record, text=move.text[:20_000])
        await self._patiently(lambda _: self._journal.write(context.id, entry))
        now = datetime.now(UTC)
        settlement = endings.ended(self._who, move, one.deliveries[-1], now)
        await self._end(settlement, context.job, one.deliveries, revision=context.revision + 1)
        await self._release(context.id)

    async def _end(
        self,
        settlement: Settlement,
        job: AgentJob,
        deliveries: list[Delivery],
        *,
        revision: int = 1,
    ) -> None:
        done = await self._settler.settle(settlement, deliveries)
        outcome = settlement.outcome
        if not done.sent or outcome is None:
            return
        kind = str(outcome.__struct_config__.tag)
        reason = getattr(outcome, "reason", "")
        metrics.AGENTS.labels(outcome=kind, reason=str(reason)).inc()
        log.info("%s%s", kind, f": {detail}" if (detail := getattr(outcome, "detail", "")) else "")
        self._events.of(job, revision * _SEQ_STRIDE).emit(Finished(outcome=outcome))

    async def _bury(self, delivery: Delivery, error: InvalidMessage) -> None:
        log.warning("a message of %s can't be read, it goes to the dead: %s", delivery.queue, error)
        with logs.about(peek(delivery.body)[0] or "unreadable", 1):
            await self._settle(bury(self._who, delivery, error), [delivery])

    async def _settle(self, settlement: Settlement, deliveries: list[Delivery]) -> None:
        await self._settler.settle(settlement, deliveries)


def _key(context: AgentContext) -> Key:
    return context.id, context.job.attempt


def _lost(error: Unroutable) -> InvalidMessage:
    return InvalidMessage(Reason.RESULT_UNROUTABLE, "$", str(error))
