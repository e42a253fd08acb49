"""vLLM keeps the contract of every engine."""

import asyncio
from collections.abc import AsyncGenerator

import msgspec
import pytest
import pytest_asyncio
from sluicegate.schemas import ChatMessage, GenerationJob, InvalidMessage, Sampling
from sluicegate.worker import logs
from sluicegate.worker.config import Config
from sluicegate.worker.engine import Engine, EngineDead, EngineUnavailable
from sluicegate.worker.engines import make_engine

from ..worker.engine_contract import EngineContract

# vLLM and what it imports warn of many things that are not ours to mend.
pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]


@pytest_asyncio.fixture(scope="module")
async def engine(model: str) -> AsyncGenerator[Engine]:
    config = Config(model=model, max_model_len=2048, enforce_eager=True, lanes="interactive=4")
    engine = await make_engine(config)
    await engine.open()
    yield engine
    await engine.close()
    with pytest.raises(EngineDead):
        await engine.health()


class TestVllmEngine(EngineContract):
    """The contract."""


async def test_a_conversation_goes_through_the_chat_template(engine: Engine) -> None:
    turns = (
        ChatMessage(role="system", content="Be brief."),
        ChatMessage(role="user", content="Hi"),
    )
    alone = await engine.prompt_token_ids(GenerationJob(messages=turns[1:]))
    both = await engine.prompt_token_ids(GenerationJob(messages=turns))
    assert alone != both
    assert await engine.prompt_token_ids(GenerationJob(prompt="Hi")) == alone


async def test_many_long_prompts_with_seeds_at_once(engine: Engine) -> None:
    """More than a step takes: read in parts, they would take the engine down."""
    contract = EngineContract()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                contract.pieces(engine, f"{number} " * 700, Sampling(temperature=1, max_tokens=2))
            )
            for number in range(4)
        ]
    assert all(task.result()[-1].finish_reason for task in tasks)
    await engine.health()


async def test_what_vllm_refuses_names_the_field(engine: Engine) -> None:
    contract = EngineContract()
    with pytest.raises(InvalidMessage) as refused:
        await contract.pieces(engine, "x", Sampling(logit_bias={2_000_000: 1.0}))
    assert refused.value.field == "$.sampling.logit_bias"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "/nowhere/model"}, "there is no folder /nowhere/model"),
        ({"engine_args": {"nonsense": 1}}, "nonsense"),
        ({"engine_args": {"max_num_batched_tokens": "many"}}, "vLLM did not start"),
        ({"kv_cache_gib": 10_000.0}, "not enough memory"),
        ({"model": "nobody/nothing"}, "check the folder or hub name"),
    ],
)
async def test_what_cannot_start_says_why(
    model: str, settings: dict[str, object], message: str
) -> None:
    config = msgspec.structs.replace(Config(model=model, enforce_eager=True), **settings)
    with logs.for_vllm("human", "info"):
        engine = await make_engine(config)
        with pytest.raises(EngineUnavailable, match=message):
            await engine.open()
        await engine.close()
