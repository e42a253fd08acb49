"""The consumer of a backend's reply queue: hands results to those who wait, and settles them."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from typing import Final

from aio_pika.abc import AbstractRobustConnection

from ..schemas.codec import decode, encode, peek, tag_of
from ..schemas.dead_letters import DeadLetter, Origin
from ..schemas.errors import InvalidMessage, SluiceError
from ..schemas.limits import MAX_JOB_BYTES
from ..schemas.results import Cancelled, GenerationResult
from ..schemas.topology import Names
from .confirms import ConfirmedPublisher
from .errors import ResultTimeout, ResultUnreadable
from .ledger import Held, Ledger, Slot
from .reply_queue import ReplyQueue
from .secrecy import OPEN, Secrecy
from .subscription import Delivery, Subscription
from .tasks import end, spawn

log = logging.getLogger(__name__)

# Unacknowledged results at once, to begin with; see `_widen_if_stuck`.
PREFETCH: Final = 256
# On a private queue nobody else can ever ask for them.
PRIVATE_ORPHANS_KEPT: Final = 1_000
FLUSH_TIMEOUT_S: Final = 5.0
# Who runs a job that is called off has so long to say what became of it.
CALLED_OFF_S: Final = 0.5
# How long a result that can't be read rests before it is tried again.
UNREADABLE_PAUSE_S: Final = 30.0


class Inbox:
    """Results come in here. The only place where a delivery of a result is settled."""

    def __init__(
        self,
        connection: AbstractRobustConnection,
        names: Names,
        reply: ReplyQueue,
        publisher: ConfirmedPublisher,
        *,
        publish_timeout_s: float,
        orphans_kept: int | None = None,
        secrecy: Secrecy = OPEN,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._names = names
        self._reply = reply
        self._publisher = publisher
        self._publish_timeout_s = publish_timeout_s
        self._secrecy = secrecy
        # Where the bound is the user's own, to drop what is over it is no news.
        self._warns = orphans_kept is None
        if orphans_kept is None and reply.private:
            orphans_kept = PRIVATE_ORPHANS_KEPT
        self.ledger: Ledger[Delivery] = Ledger(defer=_deferrer(loop), orphans_kept=orphans_kept)
        self._subscription = Subscription(
            connection,
            what=f"results of {reply.key}",
            prepare=reply.prepare,
            on_message=self._on_message,
            # All that is on a private queue is ours, and the order of waiting is our user's.
            prefetch=0 if reply.private else PREFETCH,
        )
        self._to_ack: asyncio.Queue[Delivery] = asyncio.Queue()
        self._acker: asyncio.Task[None] | None = None
        self._unreadable: set[asyncio.Task[None]] = set()

    async def start(self, on_death: Callable[[BaseException], None]) -> None:
        """Return when results come in. Errors as `ReplyQueue.prepare`."""
        self._acker = spawn(self._ack_all(), f"acknowledgements of {self._reply.key}", on_death)
        await self._subscription.start(on_death)

    async def stop(self) -> None:
        """Settle what was taken; the rest goes back to the queue. Harmless twice."""
        for task in tuple(self._unreadable):
            await end(task)
        try:
            async with asyncio.timeout(FLUSH_TIMEOUT_S):
                await self._to_ack.join()
        except TimeoutError:
            log.warning("%d results stay unacknowledged and come again", self._to_ack.qsize())
        await self._subscription.stop()
        acker, self._acker = self._acker, None
        await end(acker)

    async def wait(self, slot: Slot, timeout_s: float | None) -> GenerationResult:
        """A job's result, acknowledged now. Raises ResultTimeout, ResultUnreadable."""
        if slot.result is None:
            held = await self._next(slot, timeout_s)
            # Nothing is awaited from here on: either the caller gets it, or it isn't acknowledged.
            if held is not None:
                self._done(held)
        assert slot.result is not None  # noqa: S101  `_next` saw to it
        return slot.result

    @contextlib.asynccontextmanager
    async def receive(
        self, slot: Slot, timeout_s: float | None
    ) -> AsyncGenerator[GenerationResult]:
        """A job's result, acknowledged when the body has ended well. Errors as `wait`."""
        held = None if slot.result is not None else await self._next(slot, timeout_s)
        if held is None:
            assert slot.result is not None  # noqa: S101  `_next` saw to it
            yield slot.result
            return
        async with self._lent(held) as result:
            yield result

    async def results(self, idle_s: float | None) -> AsyncGenerator[GenerationResult]:
        """Results nobody holds a handle for, each acknowledged when the next is asked for."""
        while not self.ledger.closed:
            held = self.ledger.lend_orphan()
            if held is not None:
                async with self._lent(held) as result:
                    yield result
                continue
            try:
                async with asyncio.timeout(idle_s):
                    await self.ledger.orphaned.wait()
            except TimeoutError:
                return

    def call_off(self, job_id: str) -> None:
        """A job was called off. What runs ends at once, and says so; a job that waits in its queue
        would say so when its turn comes. Whoever holds a handle is answered before that, in half a
        second. What still comes of the job is dropped."""
        slot = self.ledger.live(job_id)
        if slot is not None and slot.result is None:
            slot.called_off = True
            asyncio.get_running_loop().call_later(CALLED_OFF_S, self._answer, slot)

    def _answer(self, slot: Slot) -> None:
        # Published again meanwhile, or taken, or being taken.
        if slot.called_off and not self.ledger.closed:
            self.ledger.call_off(slot, _called_off(slot.job_id))

    async def _next(self, slot: Slot, timeout_s: float | None) -> Held[Delivery] | None:
        """Lend a job's result to the caller; None where the job has got it meanwhile."""
        self._widen_if_stuck()
        try:
            async with asyncio.timeout(timeout_s):
                while slot.result is None:
                    await slot.arrived.wait()
                    if (held := self.ledger.lend(slot)) is not None:
                        return held
                    if slot.error is not None:
                        raise slot.error.with_traceback(None)  # raised for many, perhaps
        except TimeoutError as error:
            raise ResultTimeout(slot.job_id, timeout_s or 0.0) from error
        return None

    @contextlib.asynccontextmanager
    async def _lent(self, held: Held[Delivery]) -> AsyncGenerator[GenerationResult]:
        try:
            yield held.result
        except BaseException:
            self.ledger.give_back(held)
            raise
        self._done(held)

    def _done(self, held: Held[Delivery]) -> None:
        self._to_ack.put_nowait(self.ledger.done(held))

    def _on_message(self, delivery: Delivery) -> None:
        try:
            result = decode(delivery.body, GenerationResult)
        except InvalidMessage as error:
            self._set_aside(delivery, error)
            return
        before = self.ledger.discarded
        for surplus in self.ledger.arrive(result, delivery):
            log.debug("result of %s attempt %d dropped", result.job_id, result.attempt)
            self._to_ack.put_nowait(surplus)
        if self._warns and self.ledger.discarded > before == 0:
            log.warning(
                "more than %d results that nobody asks for: the oldest are dropped. "
                "Keep the handles, or give the producer a queue of its own with reply=...",
                PRIVATE_ORPHANS_KEPT,
            )
        self._widen_if_stuck()

    def _widen_if_stuck(self) -> None:
        """With the window full of results that nobody takes, those behind could never come."""
        prefetch = self._subscription.prefetch
        if prefetch and self.ledger.held >= prefetch and self.ledger.starving:
            log.info("%d results wait to be taken: asking for more at once", self.ledger.held)
            self._subscription.widen(2 * prefetch)

    async def _ack_all(self) -> None:
        while True:
            delivery = await self._to_ack.get()
            try:
                if not await delivery.ack():
                    log.debug("a result could not be acknowledged and will come again")
            finally:
                self._to_ack.task_done()

    def _set_aside(self, delivery: Delivery, error: InvalidMessage) -> None:
        job_id = peek(delivery.body)[0] or delivery.correlation_id
        log.error(
            "a result can't be read (%s, field %s): %s. Job %s",
            error.reason,
            error.field,
            error.detail,
            job_id,
        )
        if job_id is not None and (slot := self.ledger.live(job_id)) is not None:
            slot.fail(ResultUnreadable(job_id, error))
        task = asyncio.create_task(
            self._dead_letter(delivery, error, job_id), name="sluicegate unreadable result"
        )
        self._unreadable.add(task)
        task.add_done_callback(self._unreadable.discard)

    async def _dead_letter(
        self, delivery: Delivery, error: InvalidMessage, job_id: str | None
    ) -> None:
        """Keep a copy with the dead letters, then acknowledge; otherwise give it back, later."""
        letter = _letter(delivery, error, job_id, self._names.results_queue(self._reply.key))
        kept = await asyncio.to_thread(self._secrecy.letter, letter)
        bodies = [(encode(kept), tag_of(DeadLetter))]
        if letter.raw_body_bytes is not None and not self._secrecy.hides:
            bodies.append((delivery.body, tag_of(GenerationResult)))
        try:
            for body, kind in bodies:
                await self._publisher.publish(
                    self._names.dlx,
                    "",
                    body,
                    kind=kind,
                    correlation_id=delivery.correlation_id,
                    timeout_s=self._publish_timeout_s,
                )
        except SluiceError as failure:
            log.error("an unreadable result could not be kept as a dead letter: %s", failure)  # noqa: TRY400
            # Given back at once it would come again at once, for ever.
            await asyncio.sleep(UNREADABLE_PAUSE_S)
            await delivery.nack()
        else:
            await delivery.ack()


def _called_off(job_id: str) -> GenerationResult:
    """What becomes of a job that was called off, and that nobody works on."""
    return GenerationResult(
        job_id=job_id, attempt=1, outcome=Cancelled(), finished_at=datetime.now(UTC)
    )


def _letter(
    delivery: Delivery, error: InvalidMessage, job_id: str | None, queue: str
) -> DeadLetter:
    size = len(delivery.body)
    return DeadLetter(
        job_id=job_id,
        reason=error.reason,
        field=error.field,
        detail=error.detail,
        at=datetime.now(UTC),
        origin=Origin(
            stage="deliver",
            worker="",
            queue=queue,
            routing_key=delivery.routing_key,
            message_id=delivery.message_id,
            correlation_id=delivery.correlation_id,
            redelivered=delivery.redelivered,
        ),
        raw_body=delivery.body[:MAX_JOB_BYTES],
        raw_body_bytes=size if size > MAX_JOB_BYTES else None,
    )


def _deferrer(loop: asyncio.AbstractEventLoop) -> Callable[[Callable[[], None]], None]:
    def defer(work: Callable[[], None]) -> None:
        # At the end of a program handles may die after their loop.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(work)

    return defer
