"""The scripted engine keeps the contract, and dies on demand."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
import pytest_asyncio
from sluicegate.schemas import ChatMessage, GenerationJob, Sampling
from sluicegate.worker.engine import EngineDead, Segment
from sluicegate.worker.scripted import ScriptedEngine

from .engine_contract import EngineContract


def answer(segment: Segment, prompt: str) -> str:
    if segment.sampling.min_tokens:
        return "again and " * 200
    return "The capital of France is Paris." if "France" in prompt else prompt


@pytest_asyncio.fixture
async def engine() -> AsyncGenerator[ScriptedEngine]:
    engine = ScriptedEngine(answer, chunk=1, max_model_len=4096)
    await engine.open()
    yield engine
    await engine.close()


class TestScriptedEngine(EngineContract):
    """The contract."""


async def test_death_ends_what_runs_and_what_comes(engine: ScriptedEngine) -> None:
    contract = EngineContract()
    segment = await contract.segment(engine, "x" * 500, Sampling(max_tokens=500))

    async def read() -> None:
        async with aclosing(engine.stream(segment)) as stream:
            async for _ in stream:
                engine.die()

    with pytest.raises(EngineDead):
        await read()
    with pytest.raises(EngineDead):
        await engine.health()
    with pytest.raises(EngineDead):
        await contract.pieces(engine, "x", Sampling())


async def test_an_aborted_request_leaves_nothing_running(engine: ScriptedEngine) -> None:
    contract = EngineContract()
    reader = asyncio.create_task(contract.pieces(engine, "x" * 4000, Sampling(max_tokens=4000)))
    while not engine.running:
        await asyncio.sleep(0)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert not engine.running


async def test_it_answers_the_last_message_of_a_conversation(engine: ScriptedEngine) -> None:
    messages = (
        ChatMessage(role="system", content="Be brief."),
        ChatMessage(role="user", content="你好"),
    )
    tokens = await engine.prompt_token_ids(GenerationJob(messages=messages))
    assert bytes(tokens).decode() == "你好"
