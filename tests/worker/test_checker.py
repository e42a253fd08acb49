"""The checker on a real broker and a real scoring model: verdicts, and what follows from them."""

import asyncio
import sys
import threading
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest
import pytest_asyncio
from sluicegate.guards.checks.scores import TextScores
from sluicegate.ops.embedded_model import resolve_model
from sluicegate.rollback import attempt_seed
from sluicegate.schemas import (
    AttemptRecord,
    CancelJob,
    Cancelled,
    Candidate,
    Completed,
    Expired,
    Failed,
    Flaw,
    GenerationJob,
    GenerationResult,
    Lineage,
    Reason,
    Rejected,
    Rules,
    Sampling,
    Usage,
    decode,
    encode,
)
from sluicegate.worker.checker import Checker
from sluicegate.worker.config import Config
from sluicegate.worker.frame import ExitCode
from sluicegate.worker.scorers import make_scorer
from sluicegate.worker.scoring import Scorer, ScoreRequest, Wants

from .conftest import WAIT_S, Desk

pytestmark = pytest.mark.broker

GOOD = (
    "The sky looks blue because air scatters short waves of light more than long ones. "
    "Blue light comes to us from every side, while red light goes straight on."
)
NOW = datetime.now(UTC)


@pytest.fixture(scope="session")
def scorer() -> Scorer:
    return make_scorer(Config(scoring_model=resolve_model(None)))


@dataclass
class Watched:
    """A scorer that counts its passes, and breaks where it is told to."""

    inner: Scorer
    bad: str = "\x01 never"
    batches: list[int] = field(default_factory=list)
    gate: threading.Event | None = None

    @property
    def name(self) -> str:
        return self.inner.name

    def score(self, requests: Sequence[ScoreRequest], wants: Wants) -> list[TextScores]:
        self.batches.append(len(requests))
        if self.gate is not None:
            self.gate.wait(WAIT_S)
        if any(self.bad in each.text for each in requests):
            raise ZeroDivisionError("a bug in the scorer")
        return self.inner.score(requests, wants)

    def close(self) -> None:
        """It is the session's."""


@dataclass
class Running:
    checker: Checker
    task: asyncio.Task[ExitCode]

    async def ready(self) -> None:
        async with asyncio.timeout(WAIT_S):
            while self.checker.not_ready() is not None:
                if self.task.done():
                    self.task.result()
                await asyncio.sleep(0.01)

    async def stopped(self) -> ExitCode:
        self.checker.stop()
        async with asyncio.timeout(WAIT_S):
            return await self.task


class StartChecker(Protocol):
    def __call__(self, given: Scorer | None = None, **settings: Any) -> Running: ...


@pytest.fixture
def lenient(tmp_path: Path) -> str:
    """Thresholds under which every text is scored, and none is rejected for its score."""
    file = tmp_path / "lenient.toml"
    file.write_text("[base]\nperplexity_max = 100.0\nrelevance_min = -100.0\n")
    return str(file)


@pytest_asyncio.fixture
async def start_checker(
    broker_url: str, namespace: str, scorer: Scorer, lenient: str
) -> AsyncGenerator[StartChecker]:
    running: list[Running] = []

    def start(given: Scorer | None = None, **settings: Any) -> Running:
        config = msgspec.structs.replace(
            Config(
                amqp_url=broker_url,
                namespace=namespace,
                metrics_port=0,
                worker_id="c1",
                publish_timeout_s=5.0,
                drain_grace_s=5.0,
                checks_file=lenient,
            ),
            **settings,
        )
        checker = Checker(config, given or Watched(scorer))
        one = Running(checker, asyncio.create_task(checker.run()))
        running.append(one)
        return one

    yield start
    for one in running:
        one.checker.stop()
        await asyncio.wait([one.task], timeout=WAIT_S)


def candidate(text: str = GOOD, prompt: str = "Why is the sky blue?", **job: Any) -> Candidate:
    fields: dict[str, Any] = {"prompt": prompt, "reply_to": "default", "checks": "block", **job}
    asked = GenerationJob(**fields)
    attempt = AttemptRecord(
        attempt=asked.attempt,
        worker="w1",
        started_at=NOW,
        usage=Usage(prompt_tokens=9, completion_tokens=40),
        finish_reason="stop",
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
        metadata=asked.metadata,
    )
    return Candidate(job=asked, result=result)


async def call_off(desk: Desk, job_id: str) -> None:
    await desk.publisher.publish(
        desk.names.control,
        "",
        encode(CancelJob(job_id=job_id, at=datetime.now(UTC))),
        kind="cancel_job",
        correlation_id=None,
        timeout_s=WAIT_S,
    )


async def offer(desk: Desk, *several: Candidate) -> None:
    for each in several:
        await desk.publisher.publish(
            desk.names.jobs,
            desk.names.checks_key,
            encode(each),
            kind="candidate",
            correlation_id=each.job.id,
            timeout_s=WAIT_S,
        )


async def retried(desk: Desk) -> GenerationJob:
    """The job that waits on the shortest rung."""
    return decode(await desk.take(desk.names.retry_queue("5s")), GenerationJob)


WANTED = Rules(must_include=("Rayleigh",))


async def test_a_text_that_passes_is_the_jobs_result(
    desk: Desk, start_checker: StartChecker
) -> None:
    running = start_checker()
    sent = candidate(metadata={"order": 7})
    await offer(desk, sent)
    result = await desk.result()
    assert (result.ok, result.text, result.metadata) == (True, GOOD, {"order": 7})
    assert (result.worker, result.model) == ("w1", "m")
    verdict = result.lineage.attempts[-1].verdict
    assert verdict is not None
    assert (verdict.outcome, verdict.checker) == ("passed", "c1")
    assert {"fences", "repetition_ngram"} <= {each.check for each in verdict.checks}
    assert await running.stopped() == 0
    assert await desk.depth(desk.names.checks) == 0
    assert await desk.depth(desk.names.dead) == 0


async def test_a_rejected_text_is_generated_again_with_another_seed(
    desk: Desk, start_checker: StartChecker
) -> None:
    start_checker()
    sent = candidate(rules=WANTED, sampling=Sampling(temperature=0.5))
    await offer(desk, sent)
    again = await retried(desk)
    assert (again.id, again.attempt, again.first_attempt) == (sent.job.id, 2, 1)
    # As it was asked; what the attempt changes stands beside.
    assert (again.prompt, again.sampling, again.rules) == (
        sent.job.prompt,
        sent.job.sampling,
        WANTED,
    )
    assert again.mutation is not None
    assert again.mutation.flaws == (Flaw.MISSING_TEXT,)
    assert "Rayleigh" in again.mutation.instruction
    (first,) = again.lineage.attempts
    assert (first.flaw, first.found_by, first.text) == (Flaw.MISSING_TEXT, "must_include", GOOD)
    assert first.verdict is not None
    assert first.verdict.outcome == "rejected"
    assert attempt_seed(again.id, None, 2) != attempt_seed(again.id, None, 1)
    assert await desk.depth(desk.names.dead) == 0
    assert await desk.depth(desk.names.results_queue("default")) == 0


async def test_a_retry_carries_no_header_but_the_rungs(
    desk: Desk, start_checker: StartChecker
) -> None:
    start_checker()
    await offer(desk, candidate(rules=WANTED))
    await desk.until_depth(desk.names.retry_queue("5s"), 1)
    channel = await desk.channel()
    message = await channel.basic_get(desk.names.retry_queue("5s"), no_ack=True)
    headers = message.header.properties.headers or {}
    # The broker counts deliveries here, too.
    assert headers.keys() - {"x-delivery-count"} == {"rung"}
    assert headers["rung"] == "5s"
    assert message.routing_key == "jobs.interactive"


async def test_the_last_attempt_ends_in_a_dead_letter_with_the_whole_story(
    desk: Desk, start_checker: StartChecker
) -> None:
    start_checker()
    earlier = AttemptRecord(
        attempt=1, worker="w0", started_at=NOW, text="an earlier one", flaw=Flaw.LOOP
    )
    sent = candidate(rules=WANTED, attempt=2, max_attempts=2, lineage=Lineage(attempts=(earlier,)))
    await offer(desk, sent)
    letter = await desk.dead()
    result = await desk.result()
    assert (letter.reason, letter.flaw, letter.found_by) == (
        Reason.CHECKS_REJECTED,
        Flaw.MISSING_TEXT,
        "must_include",
    )
    assert letter.origin.stage == "check"
    assert "Rayleigh" in letter.detail
    assert letter.job is not None
    first, last = letter.job.lineage.attempts
    assert (first.text, last.text) == ("an earlier one", GOOD)
    assert last.verdict is not None
    assert letter.versions["sluicegate"]
    assert isinstance(result.outcome, Rejected)
    assert (result.text, result.attempt) == ("", 2)
    assert result.usage.completion_tokens == 40


async def test_a_deadline_that_has_passed_leaves_no_further_try(
    desk: Desk, start_checker: StartChecker, scorer: Scorer
) -> None:
    held = Watched(scorer, gate=threading.Event())
    start_checker(held, check_wait_s=0.0)
    soon = datetime.now(UTC) + timedelta(seconds=1)
    await offer(desk, candidate(rules=WANTED, deadline=soon))
    await asyncio.sleep(1.2)
    assert held.gate is not None
    held.gate.set()
    assert (await desk.dead()).reason is Reason.CHECKS_REJECTED
    assert isinstance((await desk.result()).outcome, Rejected)


async def test_a_text_that_nobody_wants_any_more_is_not_looked_at(
    desk: Desk, start_checker: StartChecker, scorer: Scorer
) -> None:
    watched = Watched(scorer)
    start_checker(watched)
    await offer(desk, candidate(deadline=datetime.now(UTC) - timedelta(seconds=1)))
    letter = await desk.dead()
    assert letter.reason is Reason.DEADLINE_PASSED
    assert letter.job is not None
    assert letter.job.lineage.attempts[-1].text == GOOD
    assert isinstance((await desk.result()).outcome, Expired)
    assert watched.batches == []


async def test_a_text_whose_job_is_called_off_is_dropped(
    desk: Desk, start_checker: StartChecker, scorer: Scorer
) -> None:
    """One that is looked at when that is over, and one that waits at once."""
    held = Watched(scorer, gate=threading.Event())
    start_checker(held, check_wait_s=0.0)
    now = datetime.now(UTC)
    looked_at, waits, observed = (
        candidate(enqueued_at=now),
        candidate(enqueued_at=now),
        candidate(enqueued_at=now, checks="observe"),
    )
    await offer(desk, looked_at)
    async with asyncio.timeout(WAIT_S):
        while not held.batches:
            await asyncio.sleep(0.01)
    await offer(desk, waits, observed)
    for each in (waits, looked_at, observed):
        await call_off(desk, each.job.id)
    letter = await desk.dead()
    assert (letter.job_id, letter.reason) == (waits.job.id, Reason.CANCELLED)
    assert held.gate is not None
    held.gate.set()
    results = [await desk.result() for _ in range(2)]
    assert [(each.job_id, each.outcome) for each in results] == [
        (waits.job.id, Cancelled()),
        (looked_at.job.id, Cancelled()),
    ]
    assert {each.text for each in results} == {""}
    # The result of the one to be observed was out before.
    await desk.until_depth(desk.names.results_queue("default"), 0)


async def test_what_is_published_after_it_was_called_off_is_another(
    desk: Desk, start_checker: StartChecker
) -> None:
    await start_checker().ready()
    first = candidate(enqueued_at=datetime.now(UTC))
    await call_off(desk, first.job.id)
    await offer(desk, first)
    assert (await desk.result()).outcome == Cancelled()
    await offer(desk, candidate(id=first.job.id, enqueued_at=datetime.now(UTC)))
    assert (await desk.result()).outcome == Completed()


async def test_an_observed_text_is_judged_and_nothing_else_happens(
    desk: Desk, start_checker: StartChecker
) -> None:
    running = start_checker()
    await offer(desk, candidate(rules=WANTED, checks="observe"))
    await desk.until_depth(desk.names.checks, 0)
    await running.ready()
    assert await running.stopped() == 0
    for queue in (desk.names.dead, desk.names.results_queue("default")):
        assert await desk.depth(queue) == 0
    assert await desk.depth(desk.names.retry_queue("5s")) == 0


async def test_what_waits_is_examined_together(
    desk: Desk, start_checker: StartChecker, scorer: Scorer
) -> None:
    watched = Watched(scorer)
    await offer(desk, *(candidate(f"{GOOD} Number {number}.") for number in range(20)))
    start_checker(watched, check_batch=8, check_wait_s=0.5)
    texts = {(await desk.result()).text for _ in range(20)}
    assert len(texts) == 20
    assert max(watched.batches) == 8
    assert sum(watched.batches) == 20


async def test_a_text_that_breaks_the_scoring_model_harms_no_other(
    desk: Desk, start_checker: StartChecker, scorer: Scorer
) -> None:
    await offer(desk, candidate(), candidate(f"{GOOD} poison", max_attempts=1), candidate())
    start_checker(Watched(scorer, bad="poison"), check_wait_s=0.5)
    results = [await desk.result() for _ in range(3)]
    assert sorted(result.ok for result in results) == [False, True, True]
    letter = await desk.dead()
    assert (letter.reason, letter.flaw) == (Reason.CHECK_FAILED, Flaw.CHECK_FAILED)
    assert letter.job is not None
    verdict = letter.job.lineage.attempts[-1].verdict
    assert verdict is not None
    assert verdict.outcome == "failed"
    assert any("ZeroDivisionError: a bug in the scorer" in each.trace for each in verdict.checks)
    (failed,) = [each.outcome for each in results if not each.ok]
    assert isinstance(failed, Failed)
    assert await desk.depth(desk.names.checks) == 0


async def test_what_cannot_be_read_goes_to_the_dead_letters(
    desk: Desk, start_checker: StartChecker
) -> None:
    start_checker()
    good = candidate()
    body = msgspec.json.decode(encode(good))
    body["job"]["sampling"] = {"temperature": 99}
    await desk.publisher.publish(
        desk.names.jobs,
        desk.names.checks_key,
        msgspec.json.encode(body),
        kind="candidate",
        correlation_id=None,
        timeout_s=WAIT_S,
    )
    letter = await desk.dead()
    assert letter.reason is Reason.INVALID_FIELD
    assert letter.field == "$.job.sampling.temperature"
    assert letter.raw_body is not None
    # Who waits for it is told.
    assert (await desk.result()).job_id == good.job.id


async def test_a_second_delivery_changes_nothing(
    desk: Desk, start_checker: StartChecker, scorer: Scorer
) -> None:
    watched = Watched(scorer)
    running = start_checker(watched)
    sent = candidate(rules=WANTED)
    await offer(desk, sent)
    await retried(desk)
    await offer(desk, sent)
    await desk.until_depth(desk.names.checks, 0)
    assert await running.stopped() == 0
    assert await desk.depth(desk.names.retry_queue("5s")) == 0
    assert sum(watched.batches) == 1


async def test_two_that_come_together_are_judged_once(
    desk: Desk, start_checker: StartChecker, scorer: Scorer
) -> None:
    watched = Watched(scorer)
    sent = candidate()
    await offer(desk, sent, sent)
    running = start_checker(watched, check_wait_s=0.3)
    assert (await desk.result()).job_id == sent.job.id
    await desk.until_depth(desk.names.checks, 0)
    assert await running.stopped() == 0
    assert await desk.depth(desk.names.results_queue("default")) == 0
    assert sum(watched.batches) == 1


async def test_a_verdict_that_cannot_be_published_is_kept_until_it_can(
    desk: Desk, start_checker: StartChecker, scorer: Scorer
) -> None:
    watched = Watched(scorer)
    await start_checker(watched, publish_timeout_s=0.5).ready()
    channel = await desk.channel()
    await channel.exchange_delete(desk.names.retry)
    await offer(desk, candidate(rules=WANTED))
    await asyncio.sleep(2.0)
    await channel.exchange_declare(desk.names.retry, exchange_type="headers", durable=True)
    await channel.queue_bind(
        desk.names.retry_queue("5s"), desk.names.retry, arguments={"x-match": "all", "rung": "5s"}
    )
    assert (await retried(desk)).attempt == 2
    await desk.until_depth(desk.names.checks, 0)
    assert sum(watched.batches) == 1


async def test_a_checker_that_is_stopped_hands_back_what_it_has_not_looked_at(
    desk: Desk, start_checker: StartChecker, scorer: Scorer
) -> None:
    held = Watched(scorer, gate=threading.Event())
    running = start_checker(held, check_batch=1, check_wait_s=0.0, drain_grace_s=0.2)
    await offer(desk, *(candidate() for _ in range(3)))
    while not held.batches:
        await asyncio.sleep(0.01)
    await desk.until_depth(desk.names.checks, 1)
    running.checker.stop()
    await asyncio.sleep(0.8)
    assert held.gate is not None
    held.gate.set()
    assert await running.task == 0
    # The one that was being looked at was settled, the others wait for the next checker.
    assert (await desk.result()).ok
    assert await desk.depth(desk.names.checks) == 2


async def test_a_check_that_gets_stuck_ends_the_checker_and_not_the_candidate(
    desk: Desk, start_checker: StartChecker, scorer: Scorer
) -> None:
    held = Watched(scorer, gate=threading.Event())
    running = start_checker(held, check_timeout_s=0.3, check_wait_s=0.0)
    sent = candidate()
    await offer(desk, sent)
    async with asyncio.timeout(WAIT_S):
        assert await running.task == ExitCode.ENGINE_LOST
    await desk.until_depth(desk.names.checks, 1)
    assert held.gate is not None
    held.gate.set()
    start_checker()
    assert (await desk.result()).job_id == sent.job.id


async def test_a_deployments_own_thresholds_are_in_force(
    desk: Desk, start_checker: StartChecker, tmp_path: Path
) -> None:
    own = tmp_path / "checks.toml"
    own.write_text("[chat]\nperplexity_max = 0.001\n")
    start_checker(checks_file=str(own))
    await offer(desk, candidate())
    assert (await retried(desk)).lineage.attempts[-1].flaw is Flaw.HIGH_PERPLEXITY


async def test_what_the_profile_demands_is_told_to_the_next_attempt(
    desk: Desk, start_checker: StartChecker, tmp_path: Path
) -> None:
    own = tmp_path / "checks.toml"
    own.write_text('[chat.rules]\nmust_include = ["Rayleigh"]\n')
    start_checker(checks_file=str(own))
    await offer(desk, candidate())
    again = await retried(desk)
    assert again.rules == Rules()
    assert again.mutation is not None
    assert "Rayleigh" in again.mutation.instruction


async def test_a_backlog_of_long_texts_is_looked_at_in_small_batches(
    desk: Desk, start_checker: StartChecker, scorer: Scorer, tmp_path: Path
) -> None:
    off = tmp_path / "off.toml"
    off.write_text("[base]\ncheck_repetition = false\nperplexity_max = 100.0\n")
    watched = Watched(Blank(scorer))
    await offer(desk, *(candidate("word " * 5_000) for _ in range(10)))
    start_checker(watched, check_wait_s=0.5, checks_file=str(off))
    for _ in range(10):
        await desk.result()
    assert max(watched.batches) == 4, "four of them make 50,000 characters and more"


@dataclass
class Blank:
    """It has nothing to say, at once."""

    inner: Scorer

    @property
    def name(self) -> str:
        return self.inner.name

    def score(self, requests: Sequence[ScoreRequest], wants: Wants) -> list[TextScores]:
        del wants
        return [TextScores(model=self.name, chars=(), logprobs=()) for _ in requests]

    def close(self) -> None:
        """It is the session's."""


async def test_a_checker_leaves_though_a_text_is_still_looked_at(
    broker_url: str, namespace: str, desk: Desk
) -> None:
    """In a process of its own: a thread that hangs must not hold it."""
    program = (
        "import sys, time\n"
        "from sluicegate.worker import checker\n"
        "from sluicegate.worker.config import Config\n"
        "class Sleeper:\n"
        "    name = 'sleeper'\n"
        "    def score(self, requests, wants):\n"
        "        time.sleep(600)\n"
        "    def close(self):\n"
        "        pass\n"
        "checker.make_scorer = lambda config: Sleeper()\n"
        "settings = dict(amqp_url=sys.argv[1], namespace=sys.argv[2], metrics_port=0,\n"
        "    drain_grace_s=0.2, publish_timeout_s=0.2, check_wait_s=0.0)\n"
        "sys.exit(checker.run_checker(Config(**settings)))\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, broker_url, namespace, stderr=asyncio.subprocess.PIPE
    )
    await offer(desk, candidate())
    await desk.until_depth(desk.names.checks, 0)
    await asyncio.sleep(0.5)
    process.terminate()
    async with asyncio.timeout(WAIT_S):
        _, log = await process.communicate()
    assert process.returncode == 0, log.decode()
    await desk.until_depth(desk.names.checks, 1)
