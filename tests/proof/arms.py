"""The contenders of the proof: each takes a job off a real queue and brings a text, or none."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aio_pika
import msgspec
from aio_pika.abc import AbstractIncomingMessage
from msgspec import Struct
from sluicegate.producer import Producer
from sluicegate.rollback import attempt_seed
from sluicegate.schemas import GenerationJob, GenerationResult, Names
from sluicegate.worker.checker import Checker
from sluicegate.worker.config import Config
from sluicegate.worker.service import Worker

from ..live.checks_bench import running
from .contender import Came, Contender
from .judge import Judge
from .scorer import NoScores
from .tap import Tap, TappedEngine

# Of jobs that have their texts checked, without the scoring model.
CHECKS: Final = (
    "[base]\ncheck_perplexity = false\ncheck_relevance = false\ncheck_coherence = false\n"
)
_TRIES: Final = 3
RESULT_S: Final = 120.0


class Place(Struct, frozen=True, kw_only=True):
    """Where the contenders run. `folder` is for files of theirs."""

    url: str
    namespace: str
    concurrency: int
    folder: Path


@asynccontextmanager
async def gated(place: Place, tap: Tap, *, sick_jobs: int) -> AsyncGenerator[Contender]:
    """Worker and checker as they are, in this process, which has the engine's front end."""
    checks = place.folder / "checks.toml"
    checks.write_text(CHECKS, encoding="utf-8")
    config = Config(
        amqp_url=place.url,
        namespace=place.namespace,
        metrics_port=0,
        worker_id="proof-worker",
        lanes=f"interactive={place.concurrency}",
        checks_file=str(checks),
        sick_jobs=sick_jobs,
        canary_every_s=0,
        check_wait_s=0.0,
    )
    worker = Worker(config, TappedEngine(tap))
    checker = Checker(msgspec.structs.replace(config, worker_id="proof-checker"), NoScores())
    async with (
        running(worker),
        running(checker),
        Producer(place.url, namespace=place.namespace, events=False) as producer,
    ):

        async def run(job: GenerationJob) -> Came:
            handle = await producer.publish(job)
            return came(await handle.result(timeout=RESULT_S))

        yield run


def came(result: GenerationResult) -> Came:
    """A result of ours, as the others are told."""
    attempts = result.lineage.attempts
    trips = [trip for each in attempts for trip in each.trips if trip.action != "note"]
    return Came(
        text=result.text if result.ok else None,
        detail="" if result.ok else str(result.outcome),
        touched=bool(trips) or len(attempts) > 1 or not result.ok,
        rollbacks=sum(trip.action == "rollback" for trip in trips),
        retries=len(attempts) - 1,
        dead=not result.ok,
    )


Answerer = Callable[[GenerationJob], Awaitable[Came]]


@asynccontextmanager
async def plain(place: Place, answer: Answerer) -> AsyncGenerator[Contender]:
    """A worker and a backend as a careful person writes them on aio-pika: persistent messages,
    confirmed publishes, the job acknowledged behind its result. `answer` is what it does with a
    job."""
    names = Names(place.namespace)
    waiting: dict[str, asyncio.Future[Came]] = {}

    async with await aio_pika.connect(place.url) as connection:
        publishing = await connection.channel()
        jobs = await publishing.get_exchange(names.jobs)
        results = await publishing.get_exchange(names.results)
        consuming = await connection.channel()
        await consuming.set_qos(prefetch_count=place.concurrency)

        async def on_job(message: AbstractIncomingMessage) -> None:
            job = msgspec.json.decode(message.body, type=GenerationJob)
            body = msgspec.json.encode(await answer(job))
            await _publish(results, "default", body, job.id)
            await message.ack()

        async def on_result(message: AbstractIncomingMessage) -> None:
            await message.ack()
            waiting.pop(message.message_id or "").set_result(
                msgspec.json.decode(message.body, type=Came)
            )

        await (await consuming.get_queue(names.jobs_queue("interactive"))).consume(on_job)
        backend = await connection.channel()
        await backend.set_qos(prefetch_count=256)
        await (await backend.get_queue(names.results_queue("default"))).consume(on_result)

        async def run(job: GenerationJob) -> Came:
            waiting[job.id] = future = asyncio.get_running_loop().create_future()
            await _publish(jobs, names.jobs_key("interactive"), msgspec.json.encode(job), job.id)
            async with asyncio.timeout(RESULT_S):
                return await future

        yield run


async def _publish(
    exchange: aio_pika.abc.AbstractExchange, key: str, body: bytes, message_id: str
) -> None:
    message = aio_pika.Message(
        body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT, message_id=message_id
    )
    await exchange.publish(message, key, mandatory=True)


def unjudged(tap: Tap) -> Answerer:
    """Whatever the engine says."""

    async def answer(job: GenerationJob) -> Came:
        return Came(text=(await tap.whole(job, seed=_seed(job, 1))).text)

    return answer


def with_repetition_detection(tap: Tap) -> Answerer:
    """What the engine stops is no text: its end is missing."""

    async def answer(job: GenerationJob) -> Came:
        whole = await tap.whole(job, seed=_seed(job, 1), repetition=True)
        if whole.finish == "repetition":
            return Came(text=None, detail="repetition", touched=True, dead=True)
        return Came(text=whole.text)

    return answer


def judged_at_the_end(tap: Tap, judge: Judge) -> Answerer:
    """A gateway before a model: the whole text is judged, and made again under another seed."""

    async def answer(job: GenerationJob) -> Came:
        problem = ""
        for attempt in range(1, _TRIES + 1):
            whole = await tap.whole(job, seed=_seed(job, attempt))
            problem = await asyncio.to_thread(judge.problem, job, whole.text, whole.ids)
            if not problem:
                return Came(text=whole.text, touched=attempt > 1, retries=attempt - 1)
        return Came(text=None, detail=problem, touched=True, retries=_TRIES - 1, dead=True)

    return answer


def _seed(job: GenerationJob, attempt: int) -> int:
    return attempt_seed(job.id, job.sampling.seed, attempt)
