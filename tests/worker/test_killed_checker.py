"""A checker that gets SIGKILL at the worst moments: each row of its settlement, on a broker."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from sluicegate.schemas import (
    AttemptRecord,
    Candidate,
    Completed,
    GenerationJob,
    GenerationResult,
    Reason,
    Rules,
    encode,
)
from sluicegate.schemas.topology import DELIVERY_LIMIT
from sluicegate.worker.checker import Checker
from sluicegate.worker.config import Config

from .conftest import WAIT_S, Desk, StartWorker
from .kill_chain import Chain, Place, copies, points_of
from .killed import ActingEngine, ActingScorer, Nursery

pytestmark = pytest.mark.broker

NOW = datetime.now(UTC)
GOOD = "Blue light comes to us from every side, while red light goes straight on."
WANTED = Rules(must_include=("Rayleigh",))


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
        metrics_port=0,
        worker_id="c0",
        publish_timeout_s=5.0,
        drain_grace_s=5.0,
        check_wait_s=0.05,
    )
    return Chain(desk, nursery, config, "checker")


def candidate(text: str = GOOD, **fields: Any) -> Candidate:
    given: dict[str, Any] = {"prompt": "Why is it blue?", "checks": "block", **fields}
    asked = GenerationJob(**given)
    attempt = AttemptRecord(
        attempt=asked.attempt, worker="w1", started_at=NOW, finish_reason="stop"
    )
    lineage = asked.lineage.with_attempt(attempt)
    result = GenerationResult(
        job_id=asked.id,
        attempt=asked.attempt,
        outcome=Completed(),
        text=text,
        finish_reason="stop",
        usage=lineage.usage(),
        lineage=lineage,
        worker="w1",
        model="m",
        finished_at=NOW,
    )
    return Candidate(job=asked, result=result)


async def offer(desk: Desk, body: Candidate | bytes) -> None:
    await desk.publisher.publish(
        desk.names.jobs,
        desk.names.checks_key,
        body if isinstance(body, bytes) else encode(body),
        kind="candidate",
        correlation_id=None,
        timeout_s=WAIT_S,
    )


@asynccontextmanager
async def a_checker(chain: Chain) -> AsyncGenerator[Checker]:
    """One that nothing kills."""
    config = msgspec.structs.replace(chain.config, worker_id="c1", drain_grace_s=5.0)
    checker = Checker(config, ActingScorer(harmless=True))
    running = asyncio.create_task(checker.run())
    async with asyncio.timeout(WAIT_S):
        while checker.not_ready() is not None:
            await asyncio.sleep(0.01)
    try:
        yield checker
    finally:
        checker.stop()
        async with asyncio.timeout(WAIT_S):
            assert await running == 0


async def finish(chain: Chain) -> None:
    async with a_checker(chain):
        await chain.desk.until_depth(chain.queue, 0)


def unreadable() -> bytes:
    body = msgspec.json.decode(encode(candidate()))
    body["job"]["sampling"] = {"temperature": 99}
    return msgspec.json.encode(body)


@dataclass(frozen=True)
class Row:
    """A verdict: what is published for it, in order, and what that says."""

    body: Callable[[], Candidate | bytes]
    leaves: tuple[Place, ...]
    outcome: str = ""
    reason: str = ""


DIES: tuple[Place, ...] = ("dead", "result")
ROWS = {
    "passed": Row(candidate, ("result",), "completed"),
    "rejected, attempts left": Row(lambda: candidate(rules=WANTED), ("retry",)),
    "rejected, the last attempt": Row(
        lambda: candidate(rules=WANTED, max_attempts=1), DIES, "rejected", "checks_rejected"
    ),
    "a check broke, attempts left": Row(lambda: candidate("break"), ("retry",)),
    "a check broke, the last attempt": Row(
        lambda: candidate("break", max_attempts=1), DIES, "failed", "check_failed"
    ),
    "observed": Row(lambda: candidate(rules=WANTED, checks="observe"), ()),
    "deadline passed": Row(
        lambda: candidate(deadline=NOW - timedelta(seconds=1)), DIES, "expired", "deadline_passed"
    ),
    "undecodable": Row(unreadable, DIES, "rejected", "invalid_field"),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
async def test_a_settlement_that_is_cut_loses_nothing_and_marks_what_it_doubles(
    name: str, chain: Chain
) -> None:
    row = ROWS[name]
    await offer(chain.desk, row.body())
    await chain.kill("consumed")
    assert not any(chain.found.values())
    await chain.kill(*points_of(row.leaves)[1:])
    await finish(chain)
    assert await chain.left() == copies(row.leaves)
    for place in row.leaves:
        message = chain.only(place)
        match place:
            case "dead":
                assert message["reason"] == row.reason
            case "retry":
                assert message["attempt"] == 2
                assert message["mutation"]
            case _:
                assert message["outcome"]["kind"] == row.outcome


async def test_a_deadline_that_passes_between_two_checkers_is_another_end_of_the_same_attempt(
    chain: Chain,
) -> None:
    deadline = datetime.now(UTC) + timedelta(seconds=3)
    late = f"late {deadline.timestamp() + 0.1}"
    await offer(chain.desk, candidate(late, rules=WANTED, deadline=deadline))
    await chain.kill("published")
    await finish(chain)
    assert await chain.left() == {"dead": 2, "result": 2}
    letters = [each.message for each in chain.found["dead"]]
    assert [each["reason"] for each in letters] == ["checks_rejected", "deadline_passed"]
    results = [each.message for each in chain.found["result"]]
    assert [each["outcome"]["kind"] for each in results] == ["rejected", "expired"]
    # The first to come is the one that counts.
    assert len({(each["job_id"], each["attempt"]) for each in results}) == 1
    assert {each["job_id"] for each in letters} == {results[0]["job_id"]}


async def test_a_checker_that_is_killed_while_it_stops_leaves_what_waits(chain: Chain) -> None:
    chain.config = msgspec.structs.replace(chain.config, check_batch=1, drain_grace_s=0.0)
    await offer(chain.desk, candidate("stop and look"))
    await offer(chain.desk, candidate("the next one"))
    await chain.kill("consumed", comes_back=2)
    await chain.kill("published", comes_back=2)
    await finish(chain)
    assert await chain.left() == {"result": 2}
    texts = {each.message["text"] for each in chain.found["result"]}
    assert texts == {"stop and look", "the next one"}


async def test_a_candidate_that_kills_its_checkers_ends_in_the_dead_letters_alone(
    chain: Chain,
) -> None:
    """It takes those of its batch with it at once."""
    several = [candidate(text) for text in ("one", "two", "kill", "three", "four")]
    for each in several:
        await offer(chain.desk, each)
    # As often as the broker gives it back, and the first time.
    for _ in range(1 + DELIVERY_LIMIT):
        await chain.end_one("never")
    await chain.desk.until_depth(chain.desk.names.dead, 1)
    async with a_checker(chain) as checker:
        await offer(chain.desk, candidate())
        await chain.desk.until_depth(chain.desk.names.results_queue("default"), 5)
        assert checker.not_ready() is None
    assert await chain.left() == {"dead": 1, "result": 5}
    (dead,) = chain.found["dead"]
    assert dead.message["job"]["id"] == several[2].job.id
    assert dead.headers["x-death"][0]["reason"] == "delivery_limit"
    texts = {each.message["text"] for each in chain.found["result"]}
    assert texts == {"one", "two", "three", "four", GOOD}


async def test_a_checker_that_fails_at_its_own_work_gives_back_what_it_has(chain: Chain) -> None:
    await offer(chain.desk, candidate("fail"))
    await chain.kill("consumed", "published")
    await finish(chain)
    assert await chain.left() == {"result": 1}
    assert chain.only("result")["outcome"]["kind"] == "completed"


async def test_a_job_that_is_always_rejected_ends_after_exactly_its_attempts(
    chain: Chain, start_worker: StartWorker
) -> None:
    engine = ActingEngine(harmless=True)
    running = start_worker(engine)
    job = GenerationJob(
        prompt="hello", reply_to="default", checks="block", rules=WANTED, max_attempts=3
    )
    async with a_checker(chain) as checker:
        await chain.desk.publish(job)
        letter = await chain.desk.dead()
        result = await chain.desk.result()
        assert (running.worker.not_ready(), checker.not_ready()) == (None, None)
    assert await running.stopped() == 0
    assert letter.reason is Reason.CHECKS_REJECTED
    assert letter.job is not None
    attempts = letter.job.lineage.attempts
    assert [each.attempt for each in attempts] == [1, 2, 3]
    assert len({each.segments[0].seed for each in attempts}) == 3
    assert [each.segments[0].seed for each in attempts] == engine.seeds
    assert all(each.verdict and each.verdict.outcome == "rejected" for each in attempts)
    assert (result.outcome.__struct_config__.tag, result.attempt) == ("rejected", 3)
    assert await chain.left() == {}
