"""A worker and a backend as a careful person writes them on aio-pika: persistent messages,
confirmed publishes, a job acknowledged behind its result, and rejected where there can be none."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import aio_pika
import msgspec
from aio_pika.abc import AbstractConnection, AbstractExchange, AbstractIncomingMessage
from sluicegate.schemas import GenerationJob, Names

from .contender import RESULT_S, Came, Contender, Place

Answerer = Callable[[GenerationJob], Awaitable[Came]]


@asynccontextmanager
async def plain(place: Place, answer: Answerer) -> AsyncGenerator[Contender]:
    """Both. `answer` is what the worker does with a job."""
    names = Names(place.namespace)
    waiting: dict[str, asyncio.Future[Came]] = {}

    async with await aio_pika.connect(place.url) as connection:
        jobs = await (await connection.channel()).get_exchange(names.jobs)
        await serve(connection, names, place.concurrency, answer)

        async def on_result(message: AbstractIncomingMessage) -> None:
            await message.ack()
            waiting.pop(message.message_id or "").set_result(
                msgspec.json.decode(message.body, type=Came)
            )

        backend = await connection.channel()
        await backend.set_qos(prefetch_count=256)
        await (await backend.get_queue(names.results_queue("default"))).consume(on_result)

        async def run(job: GenerationJob) -> Came:
            waiting[job.id] = future = asyncio.get_running_loop().create_future()
            await publish(jobs, names.jobs_key("interactive"), msgspec.json.encode(job), job.id)
            async with asyncio.timeout(RESULT_S):
                return await future

        yield run


async def serve(
    connection: AbstractConnection, names: Names, concurrency: int, answer: Answerer
) -> None:
    """The worker: it takes jobs until the connection is closed."""
    publishing = await connection.channel()
    results = await publishing.get_exchange(names.results)
    consuming = await connection.channel()
    await consuming.set_qos(prefetch_count=concurrency)

    async def on_job(message: AbstractIncomingMessage) -> None:
        async with message.process(requeue=False):
            job = msgspec.json.decode(message.body, type=GenerationJob)
            await publish(results, "default", msgspec.json.encode(await answer(job)), job.id)

    await (await consuming.get_queue(names.jobs_queue("interactive"))).consume(on_job)


async def publish(exchange: AbstractExchange, key: str, body: bytes, message_id: str) -> None:
    """A persistent message; returns when the broker has it."""
    message = aio_pika.Message(
        body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT, message_id=message_id
    )
    await exchange.publish(message, key, mandatory=True)
