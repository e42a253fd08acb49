"""sluicegate itself: its producer and its worker, as they are."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from sluicegate.producer.handle import Handle
from sluicegate.producer.producer import Producer
from sluicegate.worker.config import Config
from sluicegate.worker.service import Worker

from . import work
from .contender import RESULT_TIMEOUT_S, Run, Setup, each


@asynccontextmanager
async def serve(setup: Setup) -> AsyncGenerator[None]:
    """The worker."""
    config = Config(
        amqp_url=setup.url,
        namespace=setup.namespace,
        lanes=f"interactive={setup.concurrency}",
        engine="scripted",
        metrics_port=0,
    )
    worker = Worker(config, work.engine())
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run(), name="worker")
        try:
            yield
        finally:
            worker.stop()


@asynccontextmanager
async def backend(setup: Setup, *, events: bool = False) -> AsyncGenerator[Run]:
    """The backend."""
    async with Producer(setup.url, "default", namespace=setup.namespace, events=events) as producer:

        async def run(prompts: Sequence[str]) -> None:
            jobs = {job.id: job for job in map(work.job, prompts)}
            async with asyncio.TaskGroup() as receiving:

                async def publish(job_id: str, prompt: str) -> None:
                    handle = await producer.publish(jobs[job_id])
                    receiving.create_task(receive(handle, prompt))

                await each(
                    {job.id: job.prompt or "" for job in jobs.values()}, publish, setup.concurrency
                )

        yield run


async def receive(handle: Handle, answer: str) -> None:
    """A result, acknowledged. Raises ValueError where it is a wrong one."""
    result = await handle.result(RESULT_TIMEOUT_S)
    if result.text != answer:
        raise ValueError(f"a wrong answer for job {result.job_id}: {result.outcome!r}")
