"""Worker and checker in this process, on a real engine that can be made to say anything."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
from pamqp.commands import Basic
from sluicegate.guards.checks.scores import TextScores
from sluicegate.ops.faults import Fault, Order, Orders
from sluicegate.producer import Producer, declare
from sluicegate.producer.connection import close, connect, open_channel
from sluicegate.schemas import (
    AttemptRecord,
    DeadLetter,
    GenerationJob,
    GenerationResult,
    JobEvent,
    Names,
    decode,
    topology,
)
from sluicegate.worker.checker import Checker
from sluicegate.worker.config import Config
from sluicegate.worker.engine import Detokenizer, Engine, EngineInfo, Piece, Segment
from sluicegate.worker.frame import ExitCode, Service
from sluicegate.worker.model_tokenizer import ModelTokenizer
from sluicegate.worker.scoring import Scorer, ScoreRequest, Wants
from sluicegate.worker.service import Worker

WAIT_S = 200


@dataclass
class LentEngine:
    """An open engine for one worker after the other: they open and close it to no effect."""

    engine: Engine

    @property
    def info(self) -> EngineInfo:
        return self.engine.info

    async def open(self) -> EngineInfo:
        return self.engine.info

    async def prompt_token_ids(self, job: GenerationJob) -> tuple[int, ...]:
        return await self.engine.prompt_token_ids(job)

    def detokenizer(self, prompt_token_ids: tuple[int, ...]) -> Detokenizer:
        return self.engine.detokenizer(prompt_token_ids)

    def encode(self, text: str) -> tuple[int, ...]:
        return self.engine.encode(text)

    def stream(self, segment: Segment) -> AsyncGenerator[Piece, None]:
        return self.engine.stream(segment)

    async def health(self) -> None:
        await self.engine.health()

    async def close(self) -> None:
        """It is its owner's."""


@dataclass
class LentScorer:
    """A scoring model for one checker after the other."""

    scorer: Scorer

    @property
    def name(self) -> str:
        return self.scorer.name

    def score(self, requests: Sequence[ScoreRequest], wants: Wants) -> list[TextScores]:
        return self.scorer.score(requests, wants)

    def close(self) -> None:
        """It is its owner's."""


class Story(msgspec.Struct, frozen=True):
    """What a backend sees of its job."""

    result: GenerationResult
    events: list[JobEvent]

    @property
    def attempts(self) -> tuple[AttemptRecord, ...]:
        return self.result.lineage.attempts


class Site:
    """A namespace with everything in it, and a worker; the producer is the backend's."""

    def __init__(self, bench: "Bench", name: str, producer: Producer) -> None:
        self.names = Names(name)
        self.producer = producer
        self._bench = bench
        self._letters: dict[str | None, DeadLetter] = {}

    async def story(self, job: GenerationJob) -> Story:
        handle = await self.producer.publish(job)
        events = [event async for event in handle.events()]
        return Story(await handle.result(timeout=WAIT_S), events)

    def checker(self) -> Checker:
        return Checker(self._bench.config(self.names, "checker-1"), LentScorer(self._bench.scorer))

    async def letter(self, job_id: str) -> DeadLetter:
        """The dead letter of a job that has its result: the letter was published before it."""
        connection = await connect(self._bench.url, timeout_s=20, name="live checks, dead letters")
        try:
            channel = await open_channel(connection, timeout_s=20)
            while job_id not in self._letters:
                message = await channel.basic_get(self.names.dead, no_ack=True)
                assert isinstance(message.delivery, Basic.GetOk), f"no dead letter of {job_id}"
                letter = decode(bytes(message.body), DeadLetter)
                assert letter.job_id not in self._letters
                self._letters[letter.job_id] = letter
        finally:
            await close(connection)
        return self._letters[job_id]

    async def depth(self, queue: str) -> int:
        """Messages that are ready there."""
        connection = await connect(self._bench.url, timeout_s=20, name="live checks, depth")
        try:
            channel = await open_channel(connection, timeout_s=20)
            return (await channel.queue_declare(queue, passive=True)).message_count or 0
        finally:
            await close(connection)


class Bench:
    """An open engine and an open scoring model, for namespaces of any number."""

    def __init__(
        self, url: str, engine: Engine, orders: Orders, tokenizer: ModelTokenizer, scorer: Scorer
    ) -> None:
        self.url = url
        self.scorer = scorer
        self._engine = engine
        self._orders = orders
        self._tokenizer = tokenizer

    def config(self, names: Names, who: str) -> Config:
        return Config(
            amqp_url=self.url,
            namespace=names.namespace,
            metrics_port=0,
            worker_id=who,
            lanes="interactive=16",
            publish_timeout_s=20,
        )

    def say(self, job_id: str, text: str, *, persistent: bool = False) -> None:
        """Make the engine answer this job with the text and no more: once, or every time."""
        ids = (*self._tokenizer.encode(text), self._tokenizer.tokenizer.eos_token_id)
        ordered = Order(
            kind=Fault.LANGUAGE, at=0, length=len(ids), ids=ids, text=text, persistent=persistent
        )
        self._orders.place(job_id, ordered)

    @asynccontextmanager
    async def site(self, name: str) -> AsyncGenerator[Site]:
        """A namespace of its own, the whole topology in it, and a worker on it."""
        connection = await connect(self.url, timeout_s=20, name="live checks, topology")
        try:
            await declare.apply(connection, topology(name))
            worker = Worker(self.config(Names(name), "worker-1"), LentEngine(self._engine))
            async with running(worker), Producer(self.url, namespace=name) as producer:
                yield Site(self, name, producer)
            channel = await open_channel(connection, timeout_s=20)
            for queue in topology(name).queues:
                await channel.queue_delete(queue.name)
            for exchange in topology(name).exchanges:
                await channel.exchange_delete(exchange.name)
        finally:
            await close(connection)


@asynccontextmanager
async def running(service: Service) -> AsyncGenerator[None]:
    """A service that takes work, until the block ends; then it has drained."""
    task = asyncio.create_task(service.run())
    try:
        async with asyncio.timeout(WAIT_S):
            while service.not_ready() is not None and not task.done():
                await asyncio.sleep(0.02)
        yield
    finally:
        service.stop()
        code = await asyncio.wait_for(task, WAIT_S)
    assert code == ExitCode.OK
