"""Answers that are wrong as a whole: found by the right check, then made again or explained."""

import asyncio
import json
import secrets
import signal
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from sluicegate.ops.faults import AFTER, BEFORE, Orders
from sluicegate.ops.service_process import ServiceProcess
from sluicegate.schemas import Flaw, Reason, Rejected
from sluicegate.worker.config import Config
from sluicegate.worker.model_tokenizer import load_tokenizer
from sluicegate.worker.scorers import make_scorer

from .checks_bench import WAIT_S, Bench, Site, Story, running
from .conftest import READY_S
from .story_checks import check_attempts, check_events, check_rejection
from .wrong_answers import A_WORD_IS_MISSING, CASES, LASTING, PERSON, Case

# vLLM and what it imports warn of many things that are not ours to mend.
pytestmark = [pytest.mark.broker, pytest.mark.engine, pytest.mark.filterwarnings("ignore")]


@pytest_asyncio.fixture(scope="module")
async def bench(model: str, broker_url: str) -> AsyncGenerator[Bench]:
    # Here, where its warnings are ignored.
    from sluicegate.worker.vllm_engine import VllmEngine

    orders = Orders()
    settings = Config(model=model, max_model_len=1024, enforce_eager=True, lanes="interactive=16")
    engine = VllmEngine(settings, before=BEFORE, after=AFTER, decorate=orders)
    scorer = await asyncio.to_thread(make_scorer, Config(scoring_model=model))
    await engine.open()
    yield Bench(broker_url, engine, orders, load_tokenizer(model), scorer)
    await engine.close()
    scorer.close()


@pytest_asyncio.fixture
async def site(bench: Bench) -> AsyncGenerator[Site]:
    """A worker, and nobody who checks."""
    async with bench.site(f"live.checks.{secrets.token_hex(4)}") as site:
        yield site


class Told(msgspec.Struct, frozen=True):
    """All jobs, under way together: most of their time is the wait before a retry."""

    site: Site
    saved: dict[str, asyncio.Task[Story]]
    lost: dict[str, asyncio.Task[Story]]


@pytest_asyncio.fixture(scope="module")
async def told(bench: Bench) -> AsyncGenerator[Told]:
    async with bench.site(f"live.checks.{secrets.token_hex(4)}") as site, running(site.checker()):
        saved, lost = dict[str, Any](), dict[str, Any]()
        for case in CASES:
            bench.say(case.job.id, case.wrong)
            saved[case.job.id] = asyncio.create_task(site.story(case.job))
        for case in LASTING:
            job = msgspec.structs.replace(case.job, id=f"{case.job.id}-for-good", max_attempts=2)
            bench.say(job.id, case.wrong, persistent=True)
            lost[case.job.id] = asyncio.create_task(site.story(job))
        yield Told(site, saved, lost)
        for task in (*saved.values(), *lost.values()):
            task.cancel()


def named(cases: tuple[Case, ...]) -> list[Any]:
    return [pytest.param(case, id=case.job.id.removeprefix("live-")) for case in cases]


@pytest.mark.parametrize("case", named(CASES))
async def test_a_wrong_answer_is_found_and_another_seed_gives_a_right_one(
    told: Told, case: Case
) -> None:
    story = await told.saved[case.job.id]
    result, attempts = story.result, story.attempts
    check_rejection(attempts[0], case)
    check_attempts(case.job.id, attempts)
    check_events(story)
    assert result.ok
    assert len(attempts) > 1
    assert result.attempt == len(attempts)
    assert result.metadata == case.job.metadata
    assert result.text
    assert result.text != case.wrong
    last = attempts[-1].verdict
    assert last is not None
    assert last.outcome == "passed"
    assert result.usage.completion_tokens == sum(each.usage.completion_tokens for each in attempts)
    check_mended(story, case)


def check_mended(story: Story, case: Case) -> None:
    """The retry answered what was wrong."""
    again, text = story.attempts[1], story.result.text
    match case.flaw:
        case Flaw.MISSING_TEXT:
            assert again.instruction == 'The answer must contain "Paris".'
            assert "Paris" in text
        case Flaw.INVALID_JSON | Flaw.SCHEMA_MISMATCH:
            assert again.parameters["structured_output"] == {"json_schema": PERSON}
            person = json.loads(text)
            assert person.keys() == {"name", "age"}
            assert 0 <= person["age"] <= 99
        case Flaw.WRONG_LANGUAGE:
            assert again.instruction == "Answer only in English."
            assert again.parameters["temperature"] < case.job.sampling.temperature
        case Flaw.IRRELEVANT:
            assert again.parameters["temperature"] < case.job.sampling.temperature
            assert "France" in text
        case _:
            assert again.parameters["temperature"] < case.job.sampling.temperature
            assert again.parameters["top_p"] < 1


@pytest.mark.parametrize("case", named(LASTING))
async def test_what_no_seed_saves_is_a_dead_letter_with_the_whole_story(
    told: Told, case: Case
) -> None:
    story = await told.lost[case.job.id]
    result = story.result
    assert isinstance(result.outcome, Rejected)
    assert result.outcome.reason is Reason.CHECKS_REJECTED
    assert (result.text, result.attempt) == ("", 2)
    check_events(story)

    letter = await told.site.letter(result.job_id)
    assert (letter.reason, letter.flaw, letter.found_by) == (
        Reason.CHECKS_REJECTED,
        case.flaw,
        case.check,
    )
    assert letter.detail == result.outcome.detail
    assert "all 2 attempts that the job has are spent" in letter.detail
    assert (letter.origin.stage, letter.origin.worker) == ("check", "checker-1")
    assert letter.origin.queue == told.site.names.checks
    assert {"sluicegate", "torch", "transformers"} <= letter.versions.keys()

    job = letter.job
    assert job is not None
    for field in ("prompt", "sampling", "rules", "checks", "metadata"):
        assert getattr(job, field) == getattr(case.job, field)
    first, second = job.lineage.attempts
    check_attempts(result.job_id, (first, second))
    for record in (first, second):
        check_rejection(record, case)
    assert (first.parameters, first.instruction) == ({}, "")
    assert second.parameters or second.instruction
    assert result.lineage == job.lineage
    assert second.verdict is not None
    assert letter.at >= second.verdict.at


async def test_an_observed_answer_is_there_before_anybody_judged_it(
    bench: Bench, site: Site
) -> None:
    case = A_WORD_IS_MISSING
    job = msgspec.structs.replace(case.job, id="live-observed", checks="observe")
    bench.say(job.id, case.wrong)
    handle = await site.producer.publish(job)
    result = await handle.result(timeout=WAIT_S)
    assert result.ok
    assert (result.text, result.attempt) == (case.wrong, 1)
    assert result.lineage.attempts[-1].verdict is None
    assert await handle.verdict(timeout=0.5) is None
    async with running(site.checker()):
        verdict = await handle.verdict(timeout=WAIT_S)
    assert verdict is not None
    assert (verdict.outcome, verdict.checker) == ("rejected", "checker-1")
    worst = verdict.worst()
    assert worst is not None
    assert (worst.check, worst.flaw) == (case.check, case.flaw)
    # The answer is out, so nothing follows from it.
    for queue in (site.names.checks, site.names.dead, site.names.retry_queue("5s")):
        assert await site.depth(queue) == 0


async def test_the_command_judges_and_drains(
    bench: Bench, site: Site, model: str, tmp_path: Path
) -> None:
    settings = {
        "amqp_url": bench.url,
        "namespace": site.names.namespace,
        "worker_id": "checker-process",
        "scoring_model": model,
    }
    job = msgspec.structs.replace(A_WORD_IS_MISSING.job, id="live-command")
    async with ServiceProcess(tmp_path, settings, "checker") as checker:
        handle = await site.producer.publish(job)
        await checker.ready(READY_S)
        result = await handle.result(timeout=WAIT_S)
        checker.signal(signal.SIGTERM)
        assert await checker.wait() == 0
    assert "passed after" in checker.log_tail()
    assert await site.depth(site.names.checks) == 0
    assert result.ok
    verdict = result.lineage.attempts[-1].verdict
    assert verdict is not None
    assert (verdict.outcome, verdict.checker) == ("passed", "checker-process")
