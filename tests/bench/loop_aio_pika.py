"""The baseline: what a careful person writes on aio-pika alone, with msgspec for the bodies."""

import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import aio_pika
import msgspec
from aio_pika.abc import AbstractChannel, AbstractExchange, AbstractIncomingMessage
from pamqp.commands import Basic

from .contender import Run, Setup, Tally, each
from .work import PROMPT_BYTES, Answerer


class Job(msgspec.Struct, frozen=True):
    """A job, without the limits of ours."""

    id: str
    prompt: str
    max_tokens: int = PROMPT_BYTES


class Result(msgspec.Struct, frozen=True):
    """A result, likewise."""

    job_id: str
    text: str


_jobs = msgspec.json.Decoder(Job)
_results = msgspec.json.Decoder(Result)


@asynccontextmanager
async def serve(setup: Setup) -> AsyncGenerator[None]:
    """The worker."""
    answerer = Answerer()
    await answerer.open()
    async with await aio_pika.connect_robust(setup.url) as connection:
        results = await _exchange(await _publishing(connection), setup.names.results)

        async def on_job(message: AbstractIncomingMessage) -> None:
            job = _jobs.decode(message.body)
            answer = await answerer.answer(job.id, job.prompt)
            await _publish(results, "default", job.id, Result(job.id, answer))
            await message.ack()

        consuming = await connection.channel()
        await consuming.set_qos(prefetch_count=setup.concurrency)
        queue = await consuming.get_queue(setup.names.jobs_queue("interactive"))
        await queue.consume(on_job)
        yield


@asynccontextmanager
async def backend(setup: Setup) -> AsyncGenerator[Run]:
    """The backend."""
    tally = Tally()

    async def on_result(message: AbstractIncomingMessage) -> None:
        result = _results.decode(message.body)
        await message.ack()
        tally.tick(result.job_id, result.text)

    async with await aio_pika.connect_robust(setup.url) as connection:
        jobs = await _exchange(await _publishing(connection), setup.names.jobs)
        consuming = await connection.channel()
        await consuming.set_qos(prefetch_count=setup.concurrency)
        queue = await consuming.get_queue(setup.names.results_queue("default"))
        await queue.consume(on_result)
        key = setup.names.jobs_key("interactive")

        async def publish(job_id: str, prompt: str) -> None:
            await _publish(jobs, key, job_id, Job(job_id, prompt))

        async def run(prompts: Sequence[str]) -> None:
            wanted = {uuid.uuid4().hex: prompt for prompt in prompts}
            tally.expect(wanted)
            await each(wanted, publish, setup.concurrency)
            await tally.all_here()

        yield run


async def _publishing(connection: aio_pika.abc.AbstractConnection) -> AbstractChannel:
    return await connection.channel(publisher_confirms=True, on_return_raises=True)


async def _exchange(channel: AbstractChannel, name: str) -> AbstractExchange:
    return await channel.get_exchange(name)


async def _publish(exchange: AbstractExchange, key: str, job_id: str, body: Job | Result) -> None:
    answer = await exchange.publish(
        aio_pika.Message(
            msgspec.json.encode(body),
            content_type="application/json",
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            message_id=uuid.uuid4().hex,
            correlation_id=job_id,
        ),
        routing_key=key,
        mandatory=True,
    )
    if not isinstance(answer, Basic.Ack):
        raise TypeError(f"the broker answered {answer!r}")
