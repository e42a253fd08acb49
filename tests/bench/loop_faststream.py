"""FastStream: confirms and returns raised, persistent messages, acknowledgement by hand."""

import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from faststream import AckPolicy
from faststream.rabbit import Channel, RabbitBroker, RabbitExchange, RabbitQueue
from faststream.rabbit.annotations import RabbitMessage
from faststream.rabbit.schemas.queue import QueueType
from pydantic import BaseModel

from .contender import Run, Setup, Tally, each
from .work import PROMPT_BYTES, Answerer


class Job(BaseModel):
    """A job. pydantic is FastStream's default."""

    id: str
    prompt: str
    max_tokens: int = PROMPT_BYTES


class Result(BaseModel):
    """A result, likewise."""

    job_id: str
    text: str


@asynccontextmanager
async def serve(setup: Setup) -> AsyncGenerator[None]:
    """The worker."""
    answerer = Answerer()
    await answerer.open()
    broker = _broker(setup)
    results = RabbitExchange(setup.names.results, declare=False)

    @broker.subscriber(
        _queue(setup.names.jobs_queue("interactive")),
        ack_policy=AckPolicy.MANUAL,
        channel=Channel(prefetch_count=setup.concurrency),
    )
    async def on_job(job: Job, message: RabbitMessage) -> None:
        answer = await answerer.answer(job.id, job.prompt)
        await broker.publish(
            Result(job_id=job.id, text=answer),
            exchange=results,
            routing_key="default",
            persist=True,
            mandatory=True,
            correlation_id=job.id,
        )
        await message.ack()

    async with broker:
        await broker.start()
        yield


@asynccontextmanager
async def backend(setup: Setup) -> AsyncGenerator[Run]:
    """The backend."""
    tally = Tally()
    broker = _broker(setup)
    jobs = RabbitExchange(setup.names.jobs, declare=False)

    @broker.subscriber(
        _queue(setup.names.results_queue("default")),
        ack_policy=AckPolicy.MANUAL,
        channel=Channel(prefetch_count=setup.concurrency),
    )
    async def on_result(result: Result, message: RabbitMessage) -> None:
        await message.ack()
        tally.tick(result.job_id, result.text)

    async def publish(job_id: str, prompt: str) -> None:
        await broker.publish(
            Job(id=job_id, prompt=prompt),
            exchange=jobs,
            routing_key=setup.names.jobs_key("interactive"),
            persist=True,
            mandatory=True,
            correlation_id=job_id,
        )

    async def run(prompts: Sequence[str]) -> None:
        wanted = {uuid.uuid4().hex: prompt for prompt in prompts}
        tally.expect(wanted)
        await each(wanted, publish, setup.concurrency)
        await tally.all_here()

    async with broker:
        await broker.start()
        yield run


def _broker(setup: Setup) -> RabbitBroker:
    return RabbitBroker(
        setup.url,
        default_channel=Channel(publisher_confirms=True, on_return_raises=True),
        logger=None,
    )


def _queue(name: str) -> RabbitQueue:
    return RabbitQueue(name, queue_type=QueueType.QUORUM, durable=True, declare=False)
