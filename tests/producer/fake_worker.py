"""The other side of the broker: takes jobs and answers them, as far as a producer can tell."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime

import aio_pika
from aio_pika.abc import AbstractIncomingMessage, AbstractRobustConnection
from sluicegate.producer.confirms import ConfirmedPublisher
from sluicegate.producer.connection import close, connect
from sluicegate.schemas import (
    Completed,
    GenerationJob,
    GenerationResult,
    JobEvent,
    Names,
    decode,
    encode,
)
from sluicegate.schemas.events import Happening

Answer = Callable[[GenerationJob], GenerationResult]


def answer(job: GenerationJob, *, text: str | None = None) -> GenerationResult:
    """A completed result that says the prompt back."""
    return GenerationResult(
        job_id=job.id,
        attempt=job.attempt,
        outcome=Completed(),
        text=f"You said: {job.prompt}" if text is None else text,
        finished_at=datetime.now(UTC),
        metadata=job.metadata,
    )


class FakeWorker:
    """Answers jobs while it is `going`. `seen` are the jobs in the order of their arrival."""

    def __init__(self, connection: AbstractRobustConnection, names: Names) -> None:
        self.names = names
        self.connection = connection
        self.publisher = ConfirmedPublisher(connection)
        self.going = asyncio.Event()
        self.going.set()
        self.answer: Answer = answer
        self.copies = 1
        self.seen: list[GenerationJob] = []
        self.arrived = asyncio.Semaphore(0)
        self.answered = asyncio.Semaphore(0)
        self._tasks: set[asyncio.Task[None]] = set()
        self._channel: aio_pika.abc.AbstractChannel | None = None

    async def start(self) -> None:
        channel = self._channel = await self.connection.channel()
        await channel.set_qos(prefetch_count=100)
        for lane in ("interactive", "batch"):
            queue = await channel.get_queue(self.names.jobs_queue(lane))
            await queue.consume(self._on_job)

    async def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await close(self.connection)

    async def _on_job(self, message: AbstractIncomingMessage) -> None:
        task = asyncio.create_task(self._do(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _do(self, message: AbstractIncomingMessage) -> None:
        job = decode(message.body, GenerationJob)
        self.seen.append(job)
        self.arrived.release()
        await self.going.wait()
        for _ in range(self.copies):
            await self.publish(self.answer(job), job.reply_to)
        with contextlib.suppress(aio_pika.exceptions.ChannelInvalidStateError):
            await message.ack()
        self.answered.release()

    async def publish(self, result: GenerationResult, reply_to: str) -> None:
        await self.publish_raw(encode(result), reply_to, result.job_id)

    async def publish_raw(self, body: bytes, reply_to: str, job_id: str | None = None) -> None:
        await self.publisher.publish(
            self.names.results,
            reply_to,
            body,
            kind="generation_result",
            correlation_id=job_id,
            timeout_s=30,
        )

    async def tell(self, job: GenerationJob, event: Happening, seq: int) -> None:
        """Publish an event, as a worker does: without waiting for a confirmation."""
        message = JobEvent(
            job_id=job.id,
            attempt=job.attempt,
            seq=seq,
            at=datetime.now(UTC),
            worker="fake",
            event=event,
        )
        assert self._channel is not None
        exchange = await self._channel.get_exchange(self.names.events, ensure=False)
        await exchange.publish(
            aio_pika.Message(encode(message), content_type="application/json"),
            self.names.event_key(job.reply_to, job.id, message.kind),
            mandatory=False,
        )


@contextlib.asynccontextmanager
async def working(url: str, namespace: str) -> AsyncGenerator[FakeWorker]:
    connection = await connect(url, timeout_s=20, name="fake worker")
    worker = FakeWorker(connection, Names(namespace))
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop()
