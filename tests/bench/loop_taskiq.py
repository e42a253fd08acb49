"""taskiq on taskiq-aio-pika, as near to the same promises as it comes.

taskiq keeps results in a result backend and has none on RabbitMQ, so one is written here: a
confirmed publish to the results queue. `when_saved` makes taskiq acknowledge after that; it does so
too when saving failed. Its channel for jobs has confirms, but returned messages don't raise.
"""

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import aio_pika
from aio_pika.abc import AbstractExchange, AbstractIncomingMessage, AbstractRobustConnection
from taskiq import AsyncResultBackend, AsyncTaskiqDecoratedTask, TaskiqResult
from taskiq.acks import AcknowledgeType
from taskiq.api import run_receiver_task
from taskiq_aio_pika import AioPikaBroker, Exchange, Queue

from .contender import Run, Setup, Tally, each
from .work import PROMPT_BYTES, Answerer


class QueueResults(AsyncResultBackend[Any]):
    """Results as messages on a quorum queue, each publish confirmed."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._connection: AbstractRobustConnection | None = None
        self._exchange: AbstractExchange | None = None

    async def startup(self) -> None:
        self._connection = await aio_pika.connect_robust(self._setup.url)
        channel = await self._connection.channel(publisher_confirms=True, on_return_raises=True)
        self._exchange = await channel.get_exchange(self._setup.names.results)

    async def shutdown(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def set_result(self, task_id: str, result: TaskiqResult[Any]) -> None:
        if self._exchange is None:
            raise RuntimeError("startup comes first")
        await self._exchange.publish(
            aio_pika.Message(
                result.model_dump_json().encode(),
                content_type="application/json",
                delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
                message_id=uuid.uuid4().hex,
                correlation_id=task_id,
            ),
            routing_key="default",
            mandatory=True,
        )

    async def is_result_ready(self, task_id: str) -> bool:
        raise NotImplementedError("results are consumed here, not polled")

    async def get_result(self, task_id: str, with_logs: bool = False) -> TaskiqResult[Any]:
        raise NotImplementedError("results are consumed here, not polled")


@asynccontextmanager
async def serve(setup: Setup) -> AsyncGenerator[None]:
    """The worker."""
    answerer = Answerer()
    await answerer.open()
    broker = _broker(setup).with_result_backend(QueueResults(setup))
    _task(broker, answerer)
    # It warns of being stopped, which is how it is stopped. Its errors are still seen.
    logging.getLogger("taskiq.receiver").setLevel(logging.ERROR)
    async with asyncio.TaskGroup() as group:
        receiving = group.create_task(
            run_receiver_task(
                broker,
                max_async_tasks=setup.concurrency,
                ack_time=AcknowledgeType.WHEN_SAVED,
                run_startup=True,
            )
        )
        try:
            yield
        finally:
            receiving.cancel()
            with suppress(asyncio.CancelledError):
                await receiving
            await broker.shutdown()


@asynccontextmanager
async def backend(setup: Setup) -> AsyncGenerator[Run]:
    """The backend."""
    tally = Tally()
    broker = _broker(setup)
    task = _task(broker, None)

    async def on_result(message: AbstractIncomingMessage) -> None:
        result: TaskiqResult[str] = TaskiqResult[str].model_validate_json(message.body)
        await message.ack()
        tally.tick(message.correlation_id or "", result.return_value)

    async def publish(job_id: str, prompt: str) -> None:
        await task.kicker().with_task_id(job_id).kiq(prompt=prompt, max_tokens=PROMPT_BYTES)

    async def run(prompts: Sequence[str]) -> None:
        wanted = {uuid.uuid4().hex: prompt for prompt in prompts}
        tally.expect(wanted)
        await each(wanted, publish, setup.concurrency)
        await tally.all_here()

    await broker.startup()
    try:
        async with await aio_pika.connect_robust(setup.url) as connection:
            consuming = await connection.channel()
            await consuming.set_qos(prefetch_count=setup.concurrency)
            queue = await consuming.get_queue(setup.names.results_queue("default"))
            await queue.consume(on_result)
            yield run
    finally:
        await broker.shutdown()


def _broker(setup: Setup) -> AioPikaBroker:
    names = setup.names
    return AioPikaBroker(
        setup.url,
        qos=setup.concurrency,
        exchange=Exchange(name=names.jobs, declare=False),
        task_queues=[
            Queue(
                name=names.jobs_queue("interactive"),
                routing_key=names.jobs_key("interactive"),
                declare=False,
            )
        ],
        dead_letter_queue=Queue(name=names.dead, declare=False),
    )


def _task(broker: AioPikaBroker, answerer: Answerer | None) -> AsyncTaskiqDecoratedTask[..., Any]:
    async def generate(prompt: str, max_tokens: int) -> str:
        if answerer is None:
            raise RuntimeError("this is the backend's side")
        return await answerer.answer("taskiq", prompt[:max_tokens])

    return broker.register_task(generate, task_name="generate")
