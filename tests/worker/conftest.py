"""A worker in this process on the scripted engine, and a view of the queues around it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import aiormq
import msgspec
import pytest
import pytest_asyncio
from aio_pika.abc import AbstractRobustConnection
from pamqp.commands import Basic
from sluicegate.producer.confirms import ConfirmedPublisher
from sluicegate.producer.connection import close, connect, open_channel
from sluicegate.schemas import DeadLetter, GenerationJob, GenerationResult, Lane, Names, decode
from sluicegate.schemas import encode as encoded
from sluicegate.worker.config import Config
from sluicegate.worker.scripted import ScriptedEngine
from sluicegate.worker.service import ExitCode, Worker

WAIT_S = 20


@dataclass
class Desk:
    """Publishes bodies of any kind and takes what comes out, over plain AMQP."""

    connection: AbstractRobustConnection
    names: Names
    publisher: ConfirmedPublisher = field(init=False)

    def __post_init__(self) -> None:
        self.publisher = ConfirmedPublisher(self.connection)

    async def put(
        self, body: bytes, lane: Lane = "interactive", correlation_id: str | None = None
    ) -> None:
        await self.publisher.publish(
            self.names.jobs,
            self.names.jobs_key(lane),
            body,
            kind="generation_job",
            correlation_id=correlation_id,
            timeout_s=WAIT_S,
        )

    async def publish(self, job: GenerationJob) -> GenerationJob:
        await self.put(encoded(job), job.lane)
        return job

    async def result(self, reply_to: str = "default") -> GenerationResult:
        return decode(await self.take(self.names.results_queue(reply_to)), GenerationResult)

    async def dead(self) -> DeadLetter:
        return decode(await self.take(self.names.dead), DeadLetter)

    async def take(self, queue: str) -> bytes:
        """The next body of a queue, taken for good."""
        channel = await open_channel(self.connection, timeout_s=WAIT_S)
        try:
            async with asyncio.timeout(WAIT_S):
                while True:
                    message = await channel.basic_get(queue, no_ack=True)
                    if isinstance(message.delivery, Basic.GetOk):
                        return bytes(message.body)
                    await asyncio.sleep(0.02)
        finally:
            await channel.close()

    async def depth(self, queue: str) -> int:
        """Messages ready in a queue, as the broker counts them now."""
        channel = await open_channel(self.connection, timeout_s=WAIT_S)
        try:
            answer = await channel.queue_declare(queue, passive=True)
            return answer.message_count or 0
        finally:
            await channel.close()

    async def until_depth(self, queue: str, wanted: int) -> None:
        async with asyncio.timeout(WAIT_S):
            while await self.depth(queue) != wanted:
                await asyncio.sleep(0.05)

    async def channel(self) -> aiormq.abc.AbstractChannel:
        return await open_channel(self.connection, timeout_s=WAIT_S)


@pytest_asyncio.fixture
async def desk(broker_url: str, namespace: str) -> AsyncGenerator[Desk]:
    connection = await connect(broker_url, timeout_s=WAIT_S, name="worker tests")
    yield Desk(connection, Names(namespace))
    await close(connection)


class StartWorker(Protocol):
    def __call__(self, engine: ScriptedEngine | None = None, **settings: Any) -> "Running": ...


@dataclass
class Running:
    """A worker and the task it runs in."""

    worker: Worker
    task: asyncio.Task[ExitCode]

    async def ready(self) -> None:
        async with asyncio.timeout(WAIT_S):
            while self.worker.not_ready() is not None:
                if self.task.done():
                    self.task.result()
                await asyncio.sleep(0.01)

    async def stopped(self) -> ExitCode:
        self.worker.stop()
        async with asyncio.timeout(WAIT_S):
            return await self.task


@pytest.fixture
def impatient(tmp_path: Path) -> str:
    """A file of rules by which an engine may fail once, and not again."""
    file = tmp_path / "retry.toml"
    file.write_text("[limits]\nfaults = 1\n")
    return str(file)


@pytest_asyncio.fixture
async def start_worker(broker_url: str, namespace: str) -> AsyncGenerator[StartWorker]:
    running: list[Running] = []

    def start(engine: ScriptedEngine | None = None, **settings: Any) -> Running:
        config = msgspec.structs.replace(
            Config(
                amqp_url=broker_url,
                namespace=namespace,
                engine="scripted",
                metrics_port=0,
                worker_id="w1",
                publish_timeout_s=5.0,
                # Engines here may take seconds for a token, and count what is asked of them.
                canary_prompt="",
                engine_restarts=0,
            ),
            **settings,
        )
        worker = Worker(config, engine or ScriptedEngine())
        one = Running(worker, asyncio.create_task(worker.run()))
        running.append(one)
        return one

    yield start
    for one in running:
        one.worker.stop()
        await asyncio.wait([one.task], timeout=WAIT_S)


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], Any]:
    async def wait(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                await asyncio.sleep(0.01)

    return wait
