"""Agent jobs on the real engine with the embedded model, in plain text and held by a grammar: to an
end, whatever its quality, with every record in place."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from sluicegate.producer.confirms import ConfirmedPublisher
from sluicegate.producer.connection import close, connect
from sluicegate.schemas import (
    AgentJob,
    Budget,
    Completed,
    GenerationResult,
    JournalEntry,
    Names,
    Partial,
    Reasoning,
    Sampling,
)
from sluicegate.schemas.agents import Closed, Dispatched, Ended, Returned
from sluicegate.worker.agent.journal import Journal
from sluicegate.worker.agent.service import Orchestrator
from sluicegate.worker.config import Config
from sluicegate.worker.tools.examples import calculator, lookup
from sluicegate.worker.tools.registry import Registry

from .conftest import NAMESPACE, Site

pytestmark = [pytest.mark.broker, pytest.mark.engine]

WAIT_S = 200
SAMPLING = Sampling(temperature=0, max_tokens=120, repetition_penalty=1.1)


@pytest_asyncio.fixture(loop_scope="session")
async def agents(site: Site) -> AsyncGenerator[Orchestrator]:
    config = Config(
        amqp_url=site.broker.url,
        namespace=NAMESPACE,
        model=str(site.settings["model"]),
        max_model_len=1024,
        metrics_port=0,
        worker_id="agents",
    )
    service = Orchestrator(config, Registry([calculator, lookup]))
    running = asyncio.create_task(service.run())
    async with asyncio.timeout(WAIT_S):
        while service.not_ready() is not None:
            if running.done():
                running.result()
            await asyncio.sleep(0.05)
    yield service
    service.stop()
    await asyncio.wait([running])


def a_job(form: str) -> AgentJob:
    return AgentJob(
        task="How many people live in Berlin and Cairo together? Look both up, then add.",
        system="You are careful. You never make numbers up.",
        tools=("lookup", "calculator"),
        format=form,  # pyright: ignore[reportArgumentType]
        sampling=SAMPLING,
        reasoning=Reasoning(),
        budget=Budget(rounds=4, tokens=20_000, wall_s=170),
    )


async def run(site: Site, job: AgentJob) -> tuple[GenerationResult, list[JournalEntry]]:
    async with site.producer() as producer:
        result = await (await producer.publish(job)).result(timeout=WAIT_S)
    connection = await connect(site.broker.url, timeout_s=20, name="live tests")
    try:
        journal = Journal(connection, ConfirmedPublisher(connection), Names(NAMESPACE))
        return result, [line async for line in journal.lines(None, job.id)]
    finally:
        await close(connection)


def require_every_record(result: GenerationResult, lines: list[JournalEntry]) -> Ended:
    """What was dispatched came back, what was said was measured, and the end is told."""
    assert isinstance(result.outcome, Completed | Partial)
    assert result.text.strip()
    assert result.agent is not None
    assert result.usage.completion_tokens > 0
    assert result.usage.prompt_tokens > 0
    rounds = [line.entry.round for line in lines if isinstance(line.entry, Closed)]
    assert [each.number for each in rounds] == list(range(1, result.agent.rounds + 1))
    for each in rounds:
        assert each.usage.completion_tokens > 0
        assert each.engine_s > 0
        assert all(call.result is not None for call in each.calls)
    measured = rounds[:-1] if result.ok else rounds
    assert all(each.assessment is not None for each in measured)
    dispatched = {e.entry.effect_id for e in lines if isinstance(e.entry, Dispatched)}
    returned = {e.entry.effect_id for e in lines if isinstance(e.entry, Returned)}
    assert dispatched == returned
    assert len(returned) == result.agent.tool_calls
    end = lines[-1].entry
    assert isinstance(end, Ended)
    assert end.outcome == result.outcome.__struct_config__.tag
    assert end.text == result.text
    assert end.context.orchestration.spent.usage == result.usage
    return end


@pytest.mark.usefixtures("agents")
async def test_in_plain_text_it_comes_to_an_end(site: Site) -> None:
    result, lines = await run(site, a_job("text"))
    require_every_record(result, lines)


@pytest.mark.usefixtures("agents")
async def test_held_by_a_grammar_it_calls_its_tools(site: Site) -> None:
    result, lines = await run(site, a_job("grammar"))
    end = require_every_record(result, lines)
    rounds = end.context.execution.rounds
    # The length alone can still break what a grammar holds.
    kinds = {each.failure.kind for each in rounds if each.failure is not None}
    assert kinds <= {"truncated"}
    named: set[Any] = {call.name for each in rounds for call in each.calls}
    assert named <= {"lookup", "calculator"}
    assert named
    assert msgspec.json.encode(result)
