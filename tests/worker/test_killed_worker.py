"""A worker that gets SIGKILL at the worst moments: each row of its settlement, on a broker."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from sluicegate.schemas import (
    AttemptRecord,
    ChatMessage,
    FaultRecord,
    GenerationJob,
    Lineage,
    encode,
)
from sluicegate.schemas.limits import MAX_JOB_BYTES, MAX_KEPT_TEXT, MAX_PROMPT_CHARS, MAX_RECORDS
from sluicegate.schemas.topology import DELIVERY_LIMIT
from sluicegate.worker.config import Config

from .conftest import Desk, StartWorker
from .kill_chain import Chain, Place, copies, points_of
from .killed import ActingEngine, Nursery

pytestmark = pytest.mark.broker

NOW = datetime.now(UTC)
SETTINGS: dict[str, Any] = {"publish_timeout_s": 5.0, "drain_grace_s": 5.0}


@pytest_asyncio.fixture(scope="module")
async def nursery() -> AsyncGenerator[Nursery]:
    one = await Nursery.start()
    yield one
    await one.close()


@pytest.fixture
def chain(desk: Desk, nursery: Nursery, broker_url: str, namespace: str) -> Chain:
    config = Config(
        amqp_url=broker_url,
        namespace=namespace,
        engine="scripted",
        metrics_port=0,
        worker_id="w0",
        **SETTINGS,
    )
    return Chain(desk, nursery, config, "worker")


def job(prompt: str = "hello", **fields: Any) -> GenerationJob:
    return GenerationJob(prompt=prompt, reply_to="default", profile="off", **fields)


def gated(**fields: Any) -> GenerationJob:
    return GenerationJob(prompt="garbage again", reply_to="default", **fields)


def with_faults(count: int) -> GenerationJob:
    fault = FaultRecord(attempt=1, worker="w0", at=NOW, detail="it failed", wait_s=5.0)
    return job("fault", lineage=Lineage(faults=(fault,) * count))


def with_a_long_story() -> GenerationJob:
    """The candidate of it would not fit."""
    attempts = tuple(
        AttemptRecord(attempt=number, worker="w0", started_at=NOW, text="€" * MAX_KEPT_TEXT)
        for number in range(1, MAX_RECORDS + 1)
    )
    return GenerationJob(
        messages=(
            ChatMessage(role="user", content="𝄞" * MAX_PROMPT_CHARS),
            ChatMessage(role="user", content="hello"),
        ),
        checks="block",
        profile="off",
        attempt=MAX_RECORDS + 1,
        first_attempt=MAX_RECORDS + 1,
        lineage=Lineage(attempts=attempts),
    )


def broken(**fields: Any) -> bytes:
    return msgspec.json.encode({"type": "generation_job", "schema_version": 1, **fields})


@dataclass(frozen=True)
class Row:
    """A way to end: what is published for it, in order, and what that says."""

    body: Callable[[], GenerationJob | bytes]
    leaves: tuple[Place, ...]
    outcome: str = ""
    reason: str = ""
    attempt: int = 1
    settings: dict[str, Any] = field(default_factory=dict)


DIES: tuple[Place, ...] = ("dead", "result")
ROWS = {
    "answered, checks off": Row(job, ("result",), "completed"),
    "answered, checks observe": Row(
        lambda: job(checks="observe"), ("result", "candidate"), "completed"
    ),
    "answered, checks block": Row(lambda: job(checks="block"), ("candidate",)),
    "answered, too large": Row(with_a_long_story, DIES, "failed", "too_large", MAX_RECORDS + 1),
    "answered, and nobody takes it": Row(
        lambda: msgspec.structs.replace(job(), reply_to="nobody"),
        ("dead",),
        reason="result_unroutable",
    ),
    "gave up, attempts left": Row(gated, ("retry",), attempt=2),
    "gave up, the last attempt": Row(
        lambda: gated(max_attempts=1), DIES, "failed", "gate_tripped"
    ),
    "refused": Row(
        lambda: job("too long " * 5), DIES, "rejected", "prompt_too_long",
        settings={"max_model_len": 16},
    ),
    "deadline passed": Row(
        lambda: job(deadline=NOW - timedelta(seconds=1)), DIES, "expired", "deadline_passed"
    ),
    "timed out": Row(
        lambda: job("slow"), DIES, "failed", "attempt_timeout", settings={"attempt_timeout_s": 0.2}
    ),
    "faulted": Row(lambda: job("fault"), ("retry",)),
    "faulted, the sixth time": Row(lambda: with_faults(5), DIES, "failed", "engine_fault"),
    "undecodable, with an id": Row(
        lambda: broken(id="j1", reply_to="default", prompt=7), DIES, "rejected", "wrong_type"
    ),
    "undecodable, without an id": Row(lambda: b"no JSON", ("dead",), reason="malformed_json"),
}  # fmt: skip


async def offer(desk: Desk, body: GenerationJob | bytes) -> None:
    await desk.put(body if isinstance(body, bytes) else encode(body))


async def finish(chain: Chain, start_worker: StartWorker, **settings: Any) -> ActingEngine:
    """A worker that nothing kills does what is left."""
    length = settings.get("max_model_len") or 8192
    engine = ActingEngine(harmless=True, max_model_len=length)
    running = start_worker(engine, **{**SETTINGS, **settings})
    await running.ready()
    await chain.desk.until_depth(chain.queue, 0)
    assert await running.stopped() == 0
    return engine


@pytest.mark.parametrize("name", ROWS)
async def test_a_settlement_that_is_cut_loses_nothing_and_marks_what_it_doubles(
    name: str, chain: Chain, start_worker: StartWorker
) -> None:
    row = ROWS[name]
    chain.config = msgspec.structs.replace(chain.config, **row.settings)
    await offer(chain.desk, row.body())
    await chain.kill("consumed")
    assert not any(chain.found.values())
    await chain.kill(*points_of(row.leaves)[1:])
    await finish(chain, start_worker, **row.settings)
    assert await chain.left() == copies(row.leaves)
    for place in row.leaves:
        message = chain.only(place)
        match place:
            case "dead":
                assert message["reason"] == row.reason
            case "result":
                assert (message["outcome"]["kind"], message["attempt"]) == (
                    row.outcome,
                    row.attempt,
                )
            case "candidate":
                assert message["result"]["text"] == "hello"
                assert message["job"].get("attempt", 1) == row.attempt
            case "retry":
                assert message.get("attempt", 1) == row.attempt


async def test_a_body_that_the_broker_keeps_is_kept_once(
    chain: Chain, start_worker: StartWorker
) -> None:
    await offer(chain.desk, broken(id="j1", reply_to="default", prompt="x" * MAX_JOB_BYTES))
    await chain.kill("consumed", "between", "published")
    await finish(chain, start_worker)
    assert await chain.left() == {"dead": 4, "result": 2}
    *letters, whole = chain.found["dead"]
    assert {each.message["reason"] for each in letters} == {"too_large"}
    assert len({each.message["id"] for each in letters}) == 1
    assert whole.message["prompt"] == "x" * MAX_JOB_BYTES
    assert whole.headers["x-death"][0]["reason"] == "rejected"


async def test_an_engine_that_is_lost_with_its_worker_leaves_the_job_and_its_copy(
    chain: Chain, start_worker: StartWorker
) -> None:
    await offer(chain.desk, job("lost"))
    await chain.kill("consumed", "published")
    # The copy that waits is the same attempt, which the next worker can do.
    assert [each.message.get("attempt", 1) for each in chain.found["retry"]] == [1]
    await finish(chain, start_worker)
    assert await chain.left() == {"retry": 1, "result": 1}
    assert chain.only("result")["attempt"] == 1
    assert chain.only("result")["job_id"] == chain.only("retry")["id"]


async def test_a_worker_that_is_killed_while_it_stops_leaves_the_job(
    chain: Chain, start_worker: StartWorker
) -> None:
    chain.config = msgspec.structs.replace(chain.config, drain_grace_s=0.0)
    await offer(chain.desk, job("stop"))
    await chain.kill("consumed", "published")
    await finish(chain, start_worker)
    assert await chain.left() == {"result": 1}
    assert chain.only("result")["outcome"]["kind"] == "completed"


async def test_the_copy_of_a_job_that_was_returned_too_often_is_the_same_attempt(
    chain: Chain, start_worker: StartWorker
) -> None:
    chain.config = msgspec.structs.replace(chain.config, drain_grace_s=0.0)
    await offer(chain.desk, job("stop"))
    await chain.kill(*("consumed",) * (DELIVERY_LIMIT - 1))
    await chain.kill("published", comes_back=2)
    engine = await finish(chain, start_worker)
    left = await chain.left()
    assert left.keys() == {"result"}
    assert chain.only("result")["attempt"] == 1
    assert len(engine.seeds) == 1


async def test_a_retry_that_was_published_twice_is_one_attempt(
    chain: Chain, start_worker: StartWorker
) -> None:
    """Both copies come back from their rung."""
    await offer(chain.desk, gated(max_attempts=2))
    await chain.kill("consumed")
    await chain.kill("published", gather=False)
    names = chain.desk.names
    rung = names.retry_queue("5s")
    running = start_worker(ActingEngine(harmless=True), **SETTINGS)
    await chain.desk.until_depth(rung, 2)
    await chain.desk.until_depth(names.dead, 1)
    await chain.desk.until_depth(rung, 0)
    await chain.desk.until_depth(chain.queue, 0)
    assert await running.stopped() == 0
    assert (await chain.left())["dead"] == 1
    letter, result = chain.only("dead"), chain.only("result")
    assert [each["attempt"] for each in letter["job"]["lineage"]["attempts"]] == [1, 2]
    assert (result["job_id"], result["attempt"]) == (letter["job_id"], 2)


@pytest.mark.parametrize("word", ["kill", "linger"])
async def test_a_job_that_kills_its_workers_ends_in_the_dead_letters_alone(
    word: str, chain: Chain, start_worker: StartWorker
) -> None:
    """Whether it leaves those beside it the time to end, or takes them with it at once."""
    jobs = [job(prompt) for prompt in ("one", "two", word, "three", "four")]
    for each in jobs:
        await offer(chain.desk, each)
    # As often as the broker gives it back, and the first time.
    for _ in range(1 + DELIVERY_LIMIT):
        await chain.end_one("never")
    await chain.desk.until_depth(chain.desk.names.dead, 1)
    engine = await finish(chain, start_worker)
    assert engine.seeds == []
    running = start_worker(engine, **SETTINGS)
    await running.ready()
    await offer(chain.desk, job("hello"))
    await chain.desk.until_depth(chain.queue, 0)
    assert await running.stopped() == 0
    assert await chain.left() == {"dead": 1, "result": 5}
    (dead,) = chain.found["dead"]
    assert dead.message["id"] == jobs[2].id
    assert dead.headers["x-death"][0]["reason"] == "delivery_limit"
    texts = {each.message["text"] for each in chain.found["result"]}
    assert texts == {"one", "two", "three", "four", "hello"}
