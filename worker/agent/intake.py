"""What becomes of a delivery of the agents' queues: begun, joined, taken further, or ended."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from ...producer.errors import BrokerError
from ...producer.subscription import Delivery
from ...schemas import Accepted, AgentContext, AgentJob, InvalidMessage, decode, peek
from .. import logs, metrics
from ..event_stream import EventStream
from ..publications import Identity, Settlement, Verb, bury
from ..registry import Key
from . import endings, rounds
from .carrier import Carrier
from .effects import NotOurs
from .moves import Goes, Move, Over
from .patience import patiently
from .sites import Sites
from .step import Stepper

log = logging.getLogger(__name__)

# New jobs are begun when those under way have room: so often that is looked at.
_ROOM_PAUSE_S: Final = 0.2


@dataclass(eq=False)
class _Running:
    """A step under way, and the deliveries to settle with it."""

    context: AgentContext
    deliveries: list[Delivery]


class AgentIntake:
    """Owns every agent job that this service holds, each in a task of the group it is given."""

    def __init__(  # noqa: PLR0913 - its parts, each from another maker
        self,
        group: asyncio.TaskGroup,
        who: Identity,
        stepper: Stepper,
        sites: Sites,
        carrier: Carrier,
        events: EventStream,
        *,
        rules: str,
        slots: int,
        patience_s: float,
        crowded: Callable[[], Awaitable[bool]],
    ) -> None:
        self._group = group
        self._who = who
        self._stepper = stepper
        self._sites = sites
        self._carrier = carrier
        self._events = events
        self._rules = rules
        self._slots = asyncio.Semaphore(slots)
        self._patience_s = patience_s
        self._crowded = crowded
        self._running: dict[Key, _Running] = {}
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
        key = (job.id, job.attempt)
        if (settled := self._carrier.settled(key)) is not None:
            metrics.DUPLICATES.inc()
            work = self._carrier.answer_again(settled, job.reply_to, delivery)
            self._start(work, f"answer again {job.id}")
        else:
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
        key = rounds.key_of(context)
        running = self._running.get(key)
        # A step's successor may come before the broker has said that the step is over.
        furthest = running.context.revision if running is not None else 0
        if (settled := self._carrier.settled(key)) is not None:
            metrics.DUPLICATES.inc()
            work = self._carrier.answer_again(settled, context.job.reply_to, delivery)
            self._start(work, f"answer again {context.id}")
        elif running is not None and context.revision == furthest:
            # The channel was lost, and the broker has put it back; the step goes on.
            metrics.DUPLICATES.inc()
            running.deliveries.append(delivery)
        elif context.revision < max(furthest, self._carrier.furthest(key)):
            # The broker lost half of a transaction: another copy of the job is further.
            metrics.DUPLICATES.inc()
            log.warning("%s: revision %d is behind; dropped", context.id, context.revision)
            self._start(self._carrier.settle(Settlement((), Verb.ACK), [delivery]), "drop")
        else:
            self._running[key] = one = _Running(context, [delivery])
            self._start(self._run(one, again=delivery.redelivered), context.id, step=True)

    def close(self) -> None:
        """Begin nothing more."""
        self._closed = True

    async def hand_back(self) -> None:
        """Return what came after `close`."""
        await self._carrier.settle(Settlement((), Verb.NACK), self._late)

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
                await self._carrier.settle(Settlement((), Verb.NACK), [delivery])
                raise
            except BrokerError as error:
                log.warning("the broker is in the way, the job goes back: %s", error)
                await self._carrier.settle(Settlement((), Verb.NACK), [delivery])
            except Exception:
                log.exception("the job can't be begun")
                await self._carrier.settle(Settlement((), Verb.REJECT), [delivery])

    async def _until_room(self) -> None:
        """Jobs under way come first: their time runs."""
        crowded = True
        while crowded:
            crowded = await patiently(lambda _: self._crowded(), self._patience_s)
            if crowded:
                await asyncio.sleep(_ROOM_PAUSE_S)

    async def _admit(self, job: AgentJob, delivery: Delivery) -> None:
        if await self._carrier.answer_copy(job, delivery):
            return
        now = datetime.now(UTC)
        if job.deadline is not None and job.deadline <= now:
            settlement = endings.too_late(self._who, job, delivery, now)
            await self._carrier.refuse(settlement, job, delivery)
            return
        try:
            self._sites.of(job)
        except InvalidMessage as error:
            log.warning("refused: %s", error)
            settlement = endings.refused(self._who, job, error, delivery, now)
            await self._carrier.refuse(settlement, job, delivery)
            return
        context = rounds.begun(job, now, self._who.worker, self._rules)
        if await self._carrier.hand_on(Goes(context), [delivery]):
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
            await self._carrier.settle(Settlement((), Verb.NACK), one.deliveries)
            raise
        finally:
            if self._running.get(rounds.key_of(context)) is one:
                del self._running[rounds.key_of(context)]
        # What joined while the step was being settled on a channel that was gone.
        for delivery in one.deliveries:
            self.take(delivery)

    async def _step(self, one: _Running, *, again: bool) -> None:
        try:
            site = self._sites.of(one.context.job)
        except InvalidMessage as error:
            # Another service may have what this one lacks; the delivery limit ends it otherwise.
            log.error("can't go on here: %s", error)  # noqa: TRY400
            await self._carrier.settle(Settlement((), Verb.REJECT), one.deliveries)
            return
        first = one.deliveries[0]
        try:
            move = await patiently(
                lambda tries: self._stepper.step(
                    one.context, site, again=again or tries > 0, held=lambda: first.held
                ),
                self._patience_s,
            )
            await self._carry_out(move, one.deliveries)
        except NotOurs as error:
            log.warning("the step is left to others: %s", error)
            # What has come back to us meanwhile is taken anew, with what the journal knows.
            one.deliveries[:] = [each for each in one.deliveries if each.held]
        except BrokerError as error:
            log.warning("the broker is in the way, the job goes back: %s", error)
            await self._carrier.settle(Settlement((), Verb.NACK), one.deliveries)
        except Exception:
            # A fault of our own. The delivery limit ends it, with the job in the dead letters.
            log.exception("the step failed unexpectedly")
            await self._carrier.settle(Settlement((), Verb.REJECT), one.deliveries)

    async def _carry_out(self, move: Move, deliveries: list[Delivery]) -> None:
        match move:
            case Goes():
                await self._carrier.hand_on(move, deliveries)
            case Over():
                await self._carrier.finish(move, deliveries)

    async def _bury(self, delivery: Delivery, error: InvalidMessage) -> None:
        log.warning("a message of %s can't be read, it goes to the dead: %s", delivery.queue, error)
        with logs.about(peek(delivery.body)[0] or "unreadable", 1):
            await self._carrier.settle(bury(self._who, delivery, error), [delivery])
