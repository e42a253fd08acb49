"""The dead letters of a bad night, as docs/operations.md shows them. Run as a program it prints
what the page must say."""

import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from sluicegate.ops.dlq_letter import Letter, Properties, read_letter
from sluicegate.ops.dlq_story import story
from sluicegate.ops.dlq_tables import Newest, Tally, counted, listed
from sluicegate.rollback import (
    NoRetry,
    Retry,
    attempt_seed,
    back_off,
    decide_retry,
    default_retry_table,
    differences,
)
from sluicegate.schemas import (
    AttemptRecord,
    CheckRecord,
    DeadLetter,
    Evidence,
    FaultRecord,
    Flaw,
    GenerationJob,
    Names,
    Origin,
    Reason,
    Rules,
    Sampling,
    SegmentRecord,
    Usage,
    Verdict,
    encode,
)

NOW: Final = datetime(2031, 5, 2, 3, 4, tzinfo=UTC)
WIDTH: Final = 100
FAULTS: Final = 41
SHOWN: Final = 3
_MODEL: Final = "Qwen/Qwen3-0.6B"
_ENGINE: Final = "vllm 0.32.0"
_OUT_OF_MEMORY: Final = "OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB"
_NAMES: Final = Names()
_VERSIONS: Final = {
    "generate": {"sluicegate": "0.1.0", "torch": "2.13.0", "engine": _ENGINE},
    "check": {"sluicegate": "0.1.0", "torch": "2.13.0", "transformers": "5.17.0"},
}
_TABLE: Final = default_retry_table()
_ASKED: Final = "What do bees make? Answer in one sentence."
_TEXTS: Final = (
    "Bees make wax from which they build their combs.",
    "Bees are insects that live in hives and fly from flower to flower.",
)
_MISSING: Final = "the text lacks 'honey'"


def letters() -> list[Letter]:
    """Oldest first: all that lies in the queue at `NOW`."""
    faulted = [_faulted(number) for number in range(FAULTS)]
    made = [_expired(0), _expired(1), *faulted, rejected_by_the_checks()]
    made.sort(key=lambda letter: letter.at)
    read = [read_letter(encode(letter), Properties(), at) for at, letter in enumerate(made)]
    return [*read, _killed(len(read))]


def rejected_by_the_checks() -> DeadLetter:
    """Both attempts lacked the word that the job's rules demand."""
    at = NOW - timedelta(minutes=12)
    job = GenerationJob(
        id="order-4713",
        prompt=_ASKED,
        checks="block",
        rules=Rules(must_include=("honey",)),
        max_attempts=2,
        sampling=Sampling(temperature=0.7, max_tokens=64),
        reply_to="orders",
        metadata={"customer": 17},
    )
    for text in _TEXTS:
        record = _checked(job, text, at + timedelta(seconds=8 * job.attempt))
        lineage = job.lineage.with_attempt(record)
        decided = decide_retry(job, lineage, record.started_at, _TABLE)
        if isinstance(decided, Retry):
            job = decided.job
            continue
        return _letter(
            "01a22cd1-3f52-7a43-8e19-5c0d2b7f6a10",
            msgspec.structs.replace(job, lineage=lineage),
            Reason.CHECKS_REJECTED,
            f"must_include: {_MISSING}; {decided.sentence}",
            at + timedelta(seconds=20),
            flaw=Flaw.MISSING_TEXT,
            found_by="must_include",
            origin=Origin(
                stage="check",
                worker="node4-checker",
                queue=_NAMES.checks,
                routing_key=_NAMES.checks_key,
            ),
        )
    raise AssertionError("it has as many attempts as there are texts")


def _checked(job: GenerationJob, text: str, at: datetime) -> AttemptRecord:
    """An attempt whose text the checker refused."""
    sampling = job.mutation.sampling if job.mutation is not None else job.sampling
    tokens = len(text.split()) + 3
    prompt_tokens = 39 if job.mutation is None else 55
    return AttemptRecord(
        attempt=job.attempt,
        worker="node3-gpu0",
        model=_MODEL,
        engine=_ENGINE,
        started_at=at,
        ended_at=at + timedelta(seconds=0.8),
        parameters=differences(job.sampling, sampling),
        instruction=job.mutation.instruction if job.mutation is not None else "",
        segments=(
            SegmentRecord(
                seed=attempt_seed(job.id, None, job.attempt),
                prompt_tokens=prompt_tokens,
                tokens=tokens,
                engine_s=0.7,
                finish_reason="stop",
            ),
        ),
        usage=Usage(prompt_tokens=prompt_tokens, completion_tokens=tokens),
        finish_reason="stop",
        flaw=Flaw.MISSING_TEXT,
        found_by="must_include",
        detail=f"must_include: {_MISSING}",
        verdict=Verdict(
            outcome="rejected",
            checks=(
                CheckRecord(check="fences", outcome="passed"),
                CheckRecord(
                    check="must_include",
                    outcome="rejected",
                    flaw=Flaw.MISSING_TEXT,
                    detail=_MISSING,
                    evidence=(Evidence(chars=(0, len(text)), quote=text),),
                ),
                CheckRecord(
                    check="perplexity",
                    outcome="passed",
                    score=2.91 + job.attempt / 8,
                    threshold=4.6,
                ),
            ),
            checker="node4-checker",
            model="smollm2-135m-instruct-bf16-1",
            at=at + timedelta(seconds=1),
            seconds=0.2,
        ),
        text=text,
        text_chars=len(text),
    )


def _faulted(number: int) -> DeadLetter:
    """The worker's GPU had no memory left, six times."""
    began = NOW - timedelta(minutes=48) + timedelta(seconds=17 * number)
    job = GenerationJob(
        id=f"report-{number + 1:04}",
        prompt="Summarise the report below in five sentences. The board met on Monday ...",
        profile="summary",
        lane="batch",
        sampling=Sampling(max_tokens=2048),
        reply_to="reports",
    )
    at = began
    while True:
        fault = FaultRecord(attempt=job.attempt, worker="node3-gpu1", at=at, detail=_OUT_OF_MEMORY)
        decided = back_off(job, fault, at, 0.5, _TABLE.limits)
        if isinstance(decided, NoRetry):
            break
        job = decided.job
        at += timedelta(seconds=2 + (decided.expiration_s or 0.0))
    record = AttemptRecord(
        attempt=1,
        worker="node3-gpu1",
        model=_MODEL,
        engine=_ENGINE,
        started_at=at - timedelta(seconds=1.3),
        ended_at=at,
        usage=Usage(prompt_tokens=1804),
        detail=_OUT_OF_MEMORY,
    )
    return _letter(
        f"01a22cb{number % 10}-{number:04x}-7c1e-9b60-d41f00a7e5{number:02x}",
        msgspec.structs.replace(job, lineage=job.lineage.with_attempt(record)),
        Reason.ENGINE_FAULT,
        f"{_OUT_OF_MEMORY}; {decided.sentence}",
        at,
        origin=_from("batch", "node3-gpu1"),
    )


def _expired(number: int) -> DeadLetter:
    at = NOW - timedelta(minutes=3 + number)
    job = GenerationJob(
        id=f"chat-{number + 881}", prompt="And what then?", deadline=at, reply_to="chat"
    )
    return _letter(
        f"01a22cd9-77a{number}-7f10-8c2d-3be09d51c4a{number}",
        job,
        Reason.DEADLINE_PASSED,
        "the deadline passed before the job was done",
        at,
        origin=_from("interactive", "node3-gpu0"),
    )


def _killed(position: int) -> Letter:
    """What the broker put here itself: the job, with its own word on it."""
    job = GenerationJob(id="report-0007-again", prompt="Summarise ...", lane="batch")
    died = {
        "reason": "delivery_limit",
        "queue": _NAMES.jobs_queue("batch"),
        "count": 1,
        "time": NOW - timedelta(minutes=1),
        "routing-keys": [_NAMES.jobs_key("batch")],
    }
    properties = Properties(message_id="c4f1", headers={"x-death": [died]})
    return read_letter(encode(job), properties, position)


def _from(lane: str, worker: str) -> Origin:
    return Origin(
        stage="generate",
        worker=worker,
        queue=f"{_NAMES.namespace}.jobs.{lane}",
        routing_key=f"jobs.{lane}",
    )


def _letter(
    letter_id: str,
    job: GenerationJob,
    reason: Reason,
    detail: str,
    at: datetime,
    *,
    origin: Origin,
    flaw: Flaw | None = None,
    found_by: str = "",
) -> DeadLetter:
    return DeadLetter(
        id=letter_id,
        job_id=job.id,
        reason=reason,
        flaw=flaw,
        found_by=found_by,
        detail=detail,
        at=at,
        origin=origin,
        job=job,
        versions=_VERSIONS[origin.stage],
    )


def stats() -> list[str]:
    """`sluice dlq stats`."""
    tally = Tally()
    for letter in letters():
        tally.feed(letter.head)
    return list(counted(tally.counts(), NOW))


def faults_listed() -> list[str]:
    """`sluice dlq list --reason engine_fault`, the newest few."""
    newest = Newest(SHOWN)
    for letter in letters():
        if letter.head.reason == Reason.ENGINE_FAULT:
            newest.feed(letter.head)
    return list(listed(newest.heads(), NOW))


def shown(letter: Letter) -> list[str]:
    """`sluice dlq show`, where there is no colour."""
    return list(story(letter, now=NOW, width=WIDTH, colour=False))


def newest_of(reason: Reason) -> Letter:
    """The newest letter with this reason."""
    return [letter for letter in letters() if letter.head.reason == reason][-1]


def outputs() -> Iterator[tuple[str, list[str]]]:
    """Each command of the page whose output can be made without a broker, and its lines."""
    fault, refused = newest_of(Reason.ENGINE_FAULT), newest_of(Reason.CHECKS_REJECTED)
    yield "sluice dlq stats --newer-than 1d", stats()
    yield f"sluice dlq list --reason engine_fault --limit {SHOWN}", faults_listed()
    yield f"sluice dlq show {fault.head.job_id}", shown(fault)
    yield f"sluice dlq show {refused.head.job_id}", shown(refused)


if __name__ == "__main__":
    os.environ["TZ"] = "UTC"
    time.tzset()
    for command, lines in outputs():
        sys.stdout.write("\n".join([f"$ {command}", *lines, "", ""]))
