"""Dead letters of every kind, made for tests; and a queue of them on a broker."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import aiormq
from aio_pika.abc import AbstractRobustConnection
from sluicegate.ops.dlq_letter import Kept, Letter, Properties, read_letter
from sluicegate.ops.dlq_queue import looking
from sluicegate.producer.connection import close_channel, open_channel
from sluicegate.schemas import (
    AttemptRecord,
    Candidate,
    CheckRecord,
    Completed,
    DeadLetter,
    Evidence,
    FaultRecord,
    Flaw,
    GenerationJob,
    GenerationResult,
    Level,
    Lineage,
    Names,
    Origin,
    Reason,
    SegmentRecord,
    TripRecord,
    Usage,
    Verdict,
    encode,
)
from sluicegate.worker.config import Config

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
LIMIT_S = 30.0
BAD = "Rivers run. qzx vvk qqq."


def attempt(number: int, **more: Any) -> AttemptRecord:
    given: dict[str, Any] = {
        "worker": f"gpu-{number}:77",
        "model": "tiny",
        "engine": "vllm 0.32",
        "started_at": NOW - timedelta(minutes=10 - number),
        "ended_at": NOW - timedelta(minutes=10 - number) + timedelta(seconds=3),
        "segments": (SegmentRecord(seed=1000 + number, prompt_tokens=5, tokens=9),),
        "usage": Usage(prompt_tokens=5, completion_tokens=9, wasted_tokens=2),
        "finish_reason": "stop",
        "flaw": Flaw.HIGH_PERPLEXITY,
        "found_by": "perplexity",
        "detail": "a window of it is most unlikely",
        "text": BAD,
        "text_chars": len(BAD),
    }
    return AttemptRecord(attempt=number, **{**given, **more})


def verdict() -> Verdict:
    return Verdict(
        outcome="rejected",
        checks=(
            CheckRecord(
                check="perplexity",
                outcome="rejected",
                flaw=Flaw.HIGH_PERPLEXITY,
                score=93.5,
                threshold=41.25,
                detail="a window of it is most unlikely",
                evidence=(Evidence(chars=(12, 23), quote="qzx vvk qqq"),),
            ),
            CheckRecord(check="language", outcome="skipped", detail="no language was declared"),
            CheckRecord(check="own:brand", outcome="failed", trace="Traceback\n  boom"),
        ),
        checker="cpu-1:5",
        model="scorer",
        at=NOW,
    )


def trip(**more: Any) -> TripRecord:
    given: dict[str, Any] = {
        "segment": 0,
        "gate": "runs",
        "level": Level.TEXT,
        "flaw": Flaw.CHARACTER_RUN,
        "tokens": (4, 9),
        "chars": (3, 9),
        "score": 12.0,
        "threshold": 8.0,
        "quote": "!!!!!!",
        "action": "rollback",
        "kept": 4,
        "wasted": 5,
    }
    return TripRecord(**{**given, **more})


def job(job_id: str = "job-1", **more: Any) -> GenerationJob:
    given: dict[str, Any] = {"id": job_id, "prompt": "Tell me of rivers.", **more}
    return GenerationJob(**given)


def lineage(attempts: int = 2) -> Lineage:
    records = [attempt(number) for number in range(1, attempts + 1)]
    if records:
        changed = {"parameters": {"temperature": 0.3}, "instruction": "Answer in English."}
        records[-1] = attempt(
            attempts, verdict=verdict(), trips=(trip(),), **(changed if attempts > 1 else {})
        )
    fault = FaultRecord(
        attempt=1, worker="gpu-1:77", at=NOW - timedelta(minutes=8, seconds=30), detail="lost it"
    )
    return Lineage(attempts=tuple(records), faults=(fault,))


def rejected(job_id: str = "job-1", *, attempts: int = 2, **more: Any) -> DeadLetter:
    """A job whose texts the checks did not take."""
    told = {
        "profile",
        "lane",
        "metadata",
        "deadline",
        "max_attempts",
        "sampling",
        "checks",
        "gates",
    }
    about = {name: more.pop(name) for name in list(more) if name in told}
    given: dict[str, Any] = {
        "job_id": job_id,
        "reason": Reason.CHECKS_REJECTED,
        "flaw": Flaw.HIGH_PERPLEXITY,
        "found_by": "perplexity",
        "detail": "no text passed the checks",
        "at": NOW,
        "origin": Origin(stage="check", worker="cpu-1:5", queue="sluice.v1.checks"),
        "job": job(job_id, attempt=max(1, attempts), lineage=lineage(attempts), **about),
        "versions": {"sluicegate": "0.1.0"},
    }
    return DeadLetter(**{**given, **more})


def written_again(job_id: str, times: int) -> list[DeadLetter]:
    """The letter of a service that was killed before it acknowledged, once and again: the same id,
    another time; the job says which of them it was."""
    return [
        rejected(
            job_id,
            id=f"the-letter-of-{job_id}",
            at=NOW + timedelta(seconds=number),
            metadata={"time": number},
        )
        for number in range(1, times + 1)
    ]


def result(job_id: str = "job-1", number: int = 1) -> GenerationResult:
    return GenerationResult(
        job_id=job_id,
        attempt=number,
        outcome=Completed(),
        text="Rivers run to the sea.",
        lineage=Lineage(attempts=(attempt(number, flaw=None, found_by="", text="", text_chars=0),)),
        worker="gpu-1:77",
        finished_at=NOW,
    )


def unroutable(job_id: str = "job-1", key: str = "nobody") -> DeadLetter:
    """A result that found no queue."""
    return DeadLetter(
        job_id=job_id,
        reason=Reason.RESULT_UNROUTABLE,
        detail=f"no queue takes results for {key!r}",
        at=NOW,
        origin=Origin(stage="deliver", worker="gpu-1:77", queue="r", routing_key=key),
        result=result(job_id),
    )


def undecodable(job_id: str | None = None) -> DeadLetter:
    """A body that a worker could not read."""
    return DeadLetter(
        job_id=job_id,
        reason=Reason.MALFORMED_JSON,
        field="$",
        detail="JSON is malformed",
        at=NOW,
        origin=Origin(stage="decode", worker="gpu-1:77", queue="q"),
        raw_body=b"{oh \x1b[31mno",
        raw_body_bytes=11,
    )


def candidate(job_id: str = "job-1", **more: Any) -> Candidate:
    return Candidate(job=job(job_id, checks="block", **more), result=result(job_id))


def moved(reason: str, queue: str = "sluice.v1.jobs.interactive") -> dict[str, Any]:
    """The headers that the broker writes when it moves a message."""
    entry = {
        "count": 1,
        "reason": reason,
        "queue": queue,
        "exchange": "sluice.v1",
        "routing-keys": ["jobs.interactive"],
        "time": datetime(2026, 5, 4, 11, 30),  # noqa: DTZ001  as AMQP brings it
    }
    return {"x-death": [entry], "x-first-death-reason": reason, "x-first-death-queue": queue}


def view(
    message: Kept | bytes,
    headers: dict[str, Any] | None = None,
    *,
    position: int = 0,
    message_id: str = "m1",
) -> Letter:
    body = message if isinstance(message, bytes) else encode(message)
    return read_letter(body, Properties(message_id=message_id, headers=headers or {}), position)


async def bury(
    connection: AbstractRobustConnection,
    names: Names,
    bodies: Iterable[Kept | bytes],
    headers: dict[str, Any] | None = None,
) -> None:
    """Publish them to the dead letters, in order, each confirmed."""
    channel = await open_channel(connection, confirms=True, timeout_s=LIMIT_S)
    raw = [body if isinstance(body, bytes) else encode(body) for body in bodies]
    for start in range(0, len(raw), 1000):
        await asyncio.gather(
            *(
                channel.basic_publish(
                    body,
                    exchange=names.dlx,
                    mandatory=True,
                    properties=aiormq.spec.Basic.Properties(delivery_mode=2, headers=headers),
                )
                for body in raw[start : start + 1000]
            )
        )
    await close_channel(channel)


async def drained(
    connection: AbstractRobustConnection, queues: Sequence[str], least: int = 0
) -> list[bytes]:
    """Everything in these queues, queue by queue in order, taken away. Where messages move from one
    of them to the next, at least so many are waited for."""
    found: list[bytes] = []
    async with asyncio.timeout(LIMIT_S):
        while True:
            before = len(found)
            for queue in queues:
                if await ready(connection, queue):
                    found += await _taken(connection, queue)
            if len(found) == before and before >= least:
                return found


async def _taken(connection: AbstractRobustConnection, queue: str) -> list[bytes]:
    found: list[bytes] = []

    async def take(message: aiormq.abc.DeliveredMessage) -> None:
        found.append(message.body)

    channel = await open_channel(connection, timeout_s=LIMIT_S)
    await channel.basic_consume(queue, take, no_ack=True)
    before = -1
    while len(found) > before:
        before = len(found)
        await asyncio.sleep(0.3)
    await close_channel(channel)
    return found


async def ready(connection: AbstractRobustConnection, queue: str) -> int:
    """How many messages wait in a queue."""
    channel = await open_channel(connection, timeout_s=LIMIT_S)
    stands = await channel.queue_declare(queue, passive=True)
    await close_channel(channel)
    return stands.message_count or 0


async def left(config: Config) -> list[str | None]:
    async with looking(config) as look:
        return [dead.letter.head.job_id async for dead in look.letters()]


def on_the_way(names: Names) -> list[str]:
    """Where jobs that were sent back may be."""
    return [names.retry_queue("5s"), *(names.jobs_queue(lane) for lane in ("interactive", "batch"))]


def numbered(count: int) -> list[DeadLetter]:
    return [rejected(f"job-{number:05d}") for number in range(count)]
