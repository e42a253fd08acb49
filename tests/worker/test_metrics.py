"""What the services' metrics count, and that their labels are closed sets."""

import asyncio
import random
import string
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import msgspec
import pytest
from prometheus_client import REGISTRY
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.producer.connection import close, connect
from sluicegate.schemas import (
    AttemptRecord,
    Candidate,
    CheckRecord,
    Completed,
    DeadLetter,
    Flaw,
    GenerationJob,
    GenerationResult,
    Level,
    Lineage,
    Origin,
    Reason,
    ReasoningRecord,
    Sampling,
    Timings,
    TripRecord,
    Usage,
    Verdict,
)
from sluicegate.schemas.dead_letters import Stage
from sluicegate.schemas.ids import new_id
from sluicegate.schemas.services import ServiceKind, ServiceState
from sluicegate.worker import check_intake, metrics
from sluicegate.worker.endings import GaveUp, Report
from sluicegate.worker.observing import observe, observe_end, observe_publication
from sluicegate.worker.publications import Cause, Publication, Settlement, Verb
from sluicegate.worker.queue_watch import QueueWatch, watched
from sluicegate.worker.scripted import ScriptedEngine, echo
from sluicegate.worker.zeros import begin_at_zero

from .conftest import WAIT_S, Desk, StartWorker

Until = Callable[[Callable[[], bool]], Any]
TEXT = "A text that takes a while to come back, and in which nothing comes twice at all, ever."


def value(name: str, **labels: str) -> float:
    """A series as it is exported; 0 where there is none."""
    return REGISTRY.get_sample_value(name, labels) or 0.0


def exported(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, labels)


# --- labels ---

OUTCOMES = {"completed", "partial", "rejected", "cancelled", "expired", "failed"}
FLAWS = {flaw.value for flaw in Flaw}
# What each label may say, whatever comes in. A label that is not here is none of ours.
CLOSED: dict[str, set[str]] = {
    "outcome": OUTCOMES
    | {"to_check", "retrying", "returned", "undecodable"}
    | {"passed", "none", "started"},
    "level": {str(int(level)) for level in Level},
    "flaw": FLAWS | {"none", ""},
    "action": {"note", "rollback", "cut", "give_up"},
    "reason": {reason.value for reason in Reason} | set(get_args(Cause)) | {""},
    "stage": set(get_args(Stage)),
    "mode": {"off", "observe", "block", "cut", ""},
    "ended": {"not_opened", "closed", "cut", "salvaged", "open"},
    "kind": {
        *("prompt", "cached", "completion", "wasted", "saved"),
        *("reasoning", "reasoning_dropped"),
    },
}
FED = (
    metrics.JOBS,
    metrics.TOKENS,
    metrics.TRIPS,
    metrics.ROLLBACKS,
    metrics.ROLLED_BACK,
    metrics.REASONING,
    metrics.REASONING_CUTS,
    metrics.RETRIES,
    metrics.RESULTS,
    metrics.DEAD_LETTERS,
    metrics.END_TO_END,
    metrics.VERDICTS,
    metrics.CHECK_FINDINGS,
)


def odd(draw: random.Random) -> str:
    """What a job, a backend or a broken model may write."""
    letters = string.printable + "\x1b\u202e\u200fé漢🙂"
    return "".join(draw.choices(letters, k=draw.randint(1, 40)))


def odd_report(draw: random.Random) -> Report:
    trips = tuple(
        TripRecord(
            segment=0,
            gate=odd(draw),
            level=draw.choice(list(Level)),
            flaw=draw.choice(list(Flaw)),
            tokens=(0, 1),
            chars=(0, 1),
            score=1.0,
            threshold=1.0,
            detail=odd(draw),
            quote=odd(draw),
            action=draw.choice(("note", "rollback", "cut", "give_up")),
            wasted=draw.randint(0, 9),
        )
        for _ in range(3)
    )
    reasoning = ReasoningRecord(
        mode=draw.choice(("off", "observe", "cut")),
        effort="low",
        cap=100,
        tripped=True,
        flaw=draw.choice(list(Flaw)),
        gate=odd(draw),
        tokens=draw.randint(0, 200),
        cuts=draw.randint(0, 2),
        ended=draw.choice(("not_opened", "closed", "cut", "salvaged", "open")),
    )
    record = AttemptRecord(
        attempt=draw.randint(1, 9),
        worker=odd(draw),
        model=odd(draw),
        engine=odd(draw),
        started_at=datetime.now(UTC),
        ended_at=datetime.now(UTC),
        trips=trips,
        reasoning=reasoning,
        usage=Usage(completion_tokens=3),
    )
    return Report(
        ending=GaveUp(odd(draw), found_by=odd(draw)),
        text=odd(draw),
        record=record,
        timings=Timings(queued_s=1.0, engine_s=1.0),
    )


def feed(draw: random.Random) -> None:
    """Everything that is counted of one job, with odd values wherever a text may be."""
    name = odd(draw)
    since = datetime.now(UTC) - timedelta(seconds=draw.randint(-5, 5))
    job = GenerationJob(
        prompt=name, enqueued_at=since, metadata={name: name}, attempt=draw.randint(1, 3)
    )
    outcome = Completed()
    report = odd_report(draw)
    observe(report, Settlement((), Verb.ACK, outcome, over=True), job)
    result = GenerationResult(
        job_id=job.id,
        attempt=job.attempt,
        outcome=outcome,
        worker=name,
        model=name,
        finished_at=since,
        lineage=Lineage().with_attempt(report.record),
    )
    letter = DeadLetter(
        id=name,
        job_id=job.id,
        reason=draw.choice(list(Reason)),
        detail=name,
        found_by=name,
        at=since,
        origin=Origin(stage=draw.choice(get_args(Stage)), worker=name, queue=name),
    )
    for message, cause in ((result, None), (letter, None), (job, draw.choice(get_args(Cause)))):
        observe_publication(Publication(name, name, message, name, cause=cause))
    check = CheckRecord(check=f"own:{name}"[:64], outcome="failed", flaw=draw.choice(list(Flaw)))
    verdict = Verdict(outcome="failed", checks=(check,), checker=name, at=since)
    check_intake.count_verdict(
        Candidate(job=job, result=result), Settlement((), Verb.ACK, outcome), verdict
    )


def series(of: Any) -> set[tuple[tuple[str, str], ...]]:
    return {
        tuple(sorted(sample.labels.items()))
        for metric in of.collect()
        for sample in metric.samples
        if "le" not in sample.labels
    }


def test_whatever_comes_in_the_labels_are_of_closed_sets() -> None:
    draw = random.Random(7)
    for _ in range(400):
        feed(draw)
    for each in FED:
        found = series(each)
        assert found, each
        for labels in found:
            for label, said in labels:
                if label == "check":
                    assert said == said.partition(":")[0]
                else:
                    assert said in CLOSED[label], (each, label, said)
    # As many of those as can be were there, so that more jobs bring no more series.
    before = {each: len(series(each)) for each in (metrics.DEAD_LETTERS, metrics.RETRIES)}
    assert before[metrics.RETRIES] == len(get_args(Cause))
    assert before[metrics.DEAD_LETTERS] <= len(Reason) * len(get_args(Stage))


@pytest.mark.parametrize("kind", get_args(ServiceKind))
def test_what_begins_at_zero_is_of_the_same_sets(kind: ServiceKind) -> None:
    begin_at_zero(kind)
    if kind == "worker":
        assert exported("sluice_retries_total", reason="gate_tripped") is not None
        assert (
            exported("sluice_dead_letters_total", reason="gate_tripped", stage="generate")
            is not None
        )
    for each in FED:
        for labels in series(each):
            assert all(said in CLOSED[label] for label, said in labels if label != "check")


def test_a_clock_that_is_ahead_is_no_negative_time() -> None:
    before = value("sluice_end_to_end_seconds_sum", outcome="completed")
    ahead = datetime.now(UTC) + timedelta(hours=1)
    observe_end(GenerationJob(prompt="x", enqueued_at=ahead), Completed())
    assert value("sluice_end_to_end_seconds_sum", outcome="completed") == before


# --- queues ---


def ready(queue: str) -> float | None:
    return exported("sluice_queue_ready", queue=queue)


@pytest.mark.broker
async def test_the_numbers_of_queues_move(broker_url: str, desk: Desk, until: Until) -> None:
    """The trap is a channel that answers from memory."""
    connection = await connect(broker_url, timeout_s=WAIT_S, name="tests")
    watch = QueueWatch(watched(desk.names.namespace, "nobody"), every_s=0.05)
    watching = asyncio.create_task(watch.run(connection))
    try:
        await until(lambda: ready("jobs.batch") == 0)
        for number in range(3):
            await desk.put(b"%d" % number, "batch")
        await until(lambda: ready("jobs.batch") == 3)
        await desk.take(desk.names.jobs_queue("batch"))
        await until(lambda: ready("jobs.batch") == 2)
        assert exported("sluice_queue_consumers", queue="jobs.batch") == 0
        channel = await desk.channel()
        held: list[object] = []

        async def hold(message: object) -> None:
            held.append(message)

        await channel.basic_qos(prefetch_count=1)
        await channel.basic_consume(desk.names.jobs_queue("batch"), hold)
        await until(lambda: exported("sluice_queue_consumers", queue="jobs.batch") == 1)
        # What is unacknowledged is not seen.
        await until(lambda: ready("jobs.batch") == 1 and len(held) == 1)
        await channel.close()
        # One that is not there has no numbers, nor do logs.
        assert ready("results.nobody") is None
        assert ready("agents.journal") is None
        assert ready("results.default") == 0
        assert (exported("sluice_queue_limit", queue="jobs.batch") or 0) > 0
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        await close(connection)
    assert watching.cancelled()
    assert ready("jobs.batch") is None


# --- services ---


@pytest.mark.broker
async def test_a_worker_shows_its_state_and_what_it_holds(
    desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    states = get_args(ServiceState)
    engine = ScriptedEngine(echo, chunk=1, step_s=0.01)
    running = start_worker(engine, lanes="interactive=2")
    await running.ready()
    assert [each for each in states if value("sluice_state", state=each)] == ["ready"]
    for _ in range(3):
        await desk.publish(GenerationJob(prompt=TEXT, reply_to="default", stream=True))
    # The third waits for a free slot, and at the broker.
    await until(lambda: value("sluice_unacknowledged", queue="jobs.interactive") == 2)
    assert value("sluice_in_flight") == 2
    running.worker.stop()
    await until(lambda: value("sluice_state", state="stopping") == 1)
    await running.stopped()
    assert value("sluice_unacknowledged", queue="jobs.interactive") == 0


@pytest.mark.broker
async def test_what_becomes_of_jobs_is_counted_where_it_is_published(
    desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    def count(metric: str, **labels: str) -> Callable[[], float]:
        before = value(metric, **labels)
        return lambda: value(metric, **labels) - before

    unreadable = count("sluice_dead_letters_total", reason="malformed_json", stage="decode")
    tripped = count("sluice_dead_letters_total", reason="gate_tripped", stage="generate")
    retried = count("sluice_retries_total", reason="gate_tripped")
    completed = count("sluice_results_total", outcome="completed")
    failed = count("sluice_results_total", outcome="failed")
    took = count("sluice_end_to_end_seconds_count", outcome="completed")
    attempts = count("sluice_attempts_count")
    gates, held_back = count("sluice_gate_seconds_count"), count("sluice_held_back_tokens_count")
    rollbacks = count("sluice_rollbacks_total", level="3")
    tokens = count("sluice_rolled_back_tokens_total", level="3")

    def script(_: Any, prompt: str) -> str:
        return "and so on " * 60 if prompt == "loop" else echo(_, prompt)

    start_worker(ScriptedEngine(script))
    now = datetime.now(UTC)
    await desk.put(b"{")
    await desk.publish(GenerationJob(prompt=TEXT, reply_to="default", stream=True, enqueued_at=now))
    await until(lambda: completed() == took() == 1 and unreadable() == 1)
    assert gates() == held_back() == len(TEXT.encode()) // 61
    assert attempts() == 1
    looping = GenerationJob(
        prompt="loop", reply_to="default", sampling=Sampling(max_tokens=4000), max_attempts=1
    )
    await desk.publish(looping)
    await until(lambda: failed() == tripped() == 1)
    await desk.publish(msgspec.structs.replace(looping, id=new_id(), max_attempts=2))
    await until(lambda: retried() == 1)
    assert rollbacks() > 0
    assert tokens() > 0


@pytest.mark.broker
async def test_a_broker_that_is_gone_leaves_no_old_numbers_and_its_return_is_counted(
    killable_broker: PrivateBroker,
    killable_namespace: str,
    until: Until,
    start_worker: StartWorker,
) -> None:
    before = value("sluice_reconnects_total", connection="jobs")
    running = start_worker(amqp_url=killable_broker.url, namespace=killable_namespace)
    await running.ready()
    connection = await connect(killable_broker.url, timeout_s=WAIT_S, name="tests")
    # The worker's own looks too seldom for a test.
    often = QueueWatch(watched(killable_namespace), every_s=0.05)
    watching = asyncio.create_task(often.run(connection))
    try:
        await until(lambda: ready("dead") == 0)
        assert value("sluice_reconnects_total", connection="jobs") == before
        await killable_broker.kill()
        await until(lambda: ready("dead") is None)
        await killable_broker.start()
        await until(lambda: value("sluice_reconnects_total", connection="jobs") == before + 1)
        await until(lambda: value("sluice_reconnects_total", connection="events") >= 1)
        await until(lambda: ready("dead") == 0)
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        await close(connection)
