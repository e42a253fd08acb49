"""What becomes of a delivery of the agents' queues: begun, joined, taken further, or ended."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from ...producer.errors import BrokerError
from ...producer.subscription import Delivery
from ...producer.tasks import answer_cancellation
from ...schemas import AgentContext, AgentJob, InvalidMessage, Reason, Stop, decode, peek
from ...schemas.topology import DELIVERY_LIMIT
from .. import logs, metrics
from ..cancellations import Cancellations
from ..event_stream import EventStream
from ..observing import observe_change
from ..publications import Identity, Settlement, Verb, bury
from ..registry import Key
from ..tracing import TRACING
from . import rounds
from .beginning import Beginning, New
from .body import within_limit
from .calling_off import CallingOff
from .carrier import Carrier
from .effects import NotOurs
from .final import close_open_calls
from .moves import Goes, Move, Over, partial, stop_for
from .patience import patiently
from .sites import Sites
from .step import Stepper
from .validity import fault_of

log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Running:
    """A step under way, and the deliveries to settle with it."""

    context: AgentContext
    deliveries: list[Delivery]
    # Set where it is called off; no longer heeded once its outcome is on its way.
    called_off: bool = False
    decided: bool = False
    begun: bool = False
    task: asyncio.Task[None] | None = None


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
        room_s: float,
        crowded: Callable[[], Awaitable[bool]],
        cancellations: Cancellations,
        cancel_generation: Callable[[str], Awaitable[object]],
    ) -> None:
        self._group = group
        self._who = who
        self._stepper = stepper
        self._sites = sites
        self._carrier = carrier
        self._slots = asyncio.Semaphore(slots)
        self._patience_s = patience_s
        self._beginning = Beginning(
            who,
            sites,
            carrier,
            events,
            rules=rules,
            slots=self._slots,
            patience_s=patience_s,
            room_s=room_s,
            crowded=crowded,
            cancellations=cancellations,
        )
        self._calling_off = CallingOff(
            stepper, sites, carrier, cancellations, cancel_generation, patience_s=patience_s
        )
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
        elif not self._beginning.join(job, delivery):
            one = self._beginning.take(job, delivery)
            self._start(self._begin(one), f"begin {job.id}", step=True)

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
            run = self._run(one, again=delivery.redelivered)
            one.task = self._start(run, context.id, step=True)

    def cancel(self, job_id: str) -> None:
        """A job was called off: its step is ended, and with it what runs for it."""
        self._beginning.cancel(job_id)
        for one in self._running.values():
            unwanted = one.context.id == job_id and self._calling_off.covers(one.context)
            # One that has not begun sees it by itself, and could not settle anything.
            if unwanted and one.begun and not one.decided:
                one.called_off = True
                if one.task is not None:
                    one.task.cancel()

    def close(self) -> None:
        """Begin nothing more; what waits for room does not any more."""
        self._closed = True
        # Given back now, it would come again at once.
        self._late.extend(self._beginning.close())

    async def hand_back(self) -> None:
        """Return what came after `close`, and what was not begun."""
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

    def _start(
        self, work: Coroutine[Any, Any, None], name: str, *, step: bool = False
    ) -> asyncio.Task[None]:
        task = self._group.create_task(work, name=f"agent {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if step:
            self._steps.add(task)
            task.add_done_callback(self._steps.discard)
        return task

    # --- beginning ---

    async def _begin(self, one: New) -> None:
        for delivery in await self._beginning.begin(one):
            self.take_new(delivery)

    # --- steps ---

    async def _run(self, one: _Running, *, again: bool) -> None:
        context = one.context
        one.begun = True
        try:
            with (
                logs.about(context.id, context.job.attempt),
                metrics.AGENT_STEPS.track_inprogress(),
            ):
                async with self._slots:
                    began = time.monotonic()
                    await self._step(one, again=again)
                    took_s = time.monotonic() - began
                    phase = context.orchestration.phase
                    metrics.AGENT_STEP_SECONDS.labels(phase=phase).observe(took_s)
                    TRACING.step(context, took_s)
        except asyncio.CancelledError:
            if self._closed or not one.called_off:
                await self._carrier.settle(Settlement((), Verb.NACK), one.deliveries)
                raise
            answer_cancellation()
            try:
                await self._calling_off.end(context, one.deliveries)
            except NotOurs as error:
                self._leave(one, error)
        finally:
            if self._running.get(rounds.key_of(context)) is one:
                del self._running[rounds.key_of(context)]
        # What joined while the step was being settled on a channel that was gone.
        for delivery in one.deliveries:
            self.take(delivery)

    async def _step(self, one: _Running, *, again: bool) -> None:
        try:
            await self._take_step(one, again=again)
        except NotOurs as error:
            self._leave(one, error)
        except BrokerError as error:
            log.warning("the broker is in the way, the job goes back: %s", error)
            await self._carrier.settle(Settlement((), Verb.NACK), one.deliveries)
        except Exception as error:
            # A fault of our own.
            log.exception("the step failed unexpectedly")
            why = f"its step failed unexpectedly: {type(error).__name__}"
            await self._give_up(one, stop_for(Reason.GENERATION_FAILED, why))

    def _leave(self, one: _Running, error: NotOurs) -> None:
        log.warning("the step is left to others: %s", error)
        # What has come back to us meanwhile is taken anew, with what the journal knows.
        one.deliveries[:] = [each for each in one.deliveries if each.held]

    async def _take_step(self, one: _Running, *, again: bool) -> None:
        if (fault := fault_of(one.context)) is not None:
            log.error("it can't be taken further: %s", fault)
            await self._end(one, stop_for(Reason.INVALID_FIELD, f"its state is wrong: {fault}"))
            return
        if self._calling_off.covers(one.context):
            await self._calling_off.end(one.context, one.deliveries)
            return
        try:
            site = self._sites.of(one.context.job)
        except InvalidMessage as error:
            # Another service may have what this one lacks.
            log.error("can't go on here: %s", error)  # noqa: TRY400
            await self._give_up(one, stop_for(error.reason, error.detail))
            return
        first = one.deliveries[0]
        move = await patiently(
            lambda tries: self._stepper.step(
                one.context, site, again=again or tries > 0, held=lambda: first.held
            ),
            self._patience_s,
        )
        one.decided = True
        await self._carry_out(move, one.deliveries)
        observe_change(one.context, move.context)

    async def _give_up(self, one: _Running, stop: Stop) -> None:
        """Leave it to the next who gets it. Before the broker gives it up, and whoever published it
        hears nothing, it is ended."""
        returned = max((each.times_returned for each in one.deliveries), default=0)
        if returned < DELIVERY_LIMIT - 1:
            await self._carrier.settle(Settlement((), Verb.REJECT), one.deliveries)
            return
        try:
            await self._end(one, stop)
        except BrokerError as error:
            log.warning("the broker is in the way, the job goes back: %s", error)
            await self._carrier.settle(Settlement((), Verb.NACK), one.deliveries)
        except Exception:
            log.exception("the job can't be ended by its record either")
            await self._carrier.settle(Settlement((), Verb.REJECT), one.deliveries)

    async def _end(self, one: _Running, stop: Stop) -> None:
        """The end by the record, here and now: nothing else of it can be trusted to work."""
        context = within_limit(close_open_calls(one.context))
        await self._carrier.finish(partial(context, stop), one.deliveries)

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
