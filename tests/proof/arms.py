"""The contenders of the proof: each takes a job off a real queue and brings a text, or none."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from sluicegate.producer import Producer
from sluicegate.rollback import attempt_seed
from sluicegate.schemas import GenerationJob, GenerationResult
from sluicegate.worker.checker import Checker
from sluicegate.worker.config import Config
from sluicegate.worker.service import Worker

from ..live.checks_bench import running
from .arm_plain import Answerer
from .contender import RESULT_S, Came, Contender, Place
from .judge import Judge
from .scorer import NoScores
from .tap import Tap, TappedEngine

# Of jobs that have their texts checked, without the scoring model.
CHECKS: Final = (
    "[base]\ncheck_perplexity = false\ncheck_relevance = false\ncheck_coherence = false\n"
)
_TRIES: Final = 3


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
