"""Calls of tools by the embedded model on the real engine: held by a grammar, and free."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import pytest_asyncio
from sluicegate.schemas import AgentJob, GenerationJob, Sampling, StructuredOutput, ToolSpec
from sluicegate.worker.config import Config
from sluicegate.worker.dialects.choose import Dialects, make_dialects
from sluicegate.worker.dialects.dialect import Dialect, Prompt, Told, Turn
from sluicegate.worker.endings import Answered, Report
from sluicegate.worker.engine import Engine
from sluicegate.worker.session import GenerationSession

# vLLM and what it imports warn of many things that are not ours to mend.
pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

TEMPLATE: Final = Path(__file__).parents[1] / "worker" / "dialects" / "tools_template.jinja"
WEATHER: Final = ToolSpec(
    name="weather",
    description="The weather in a city on the days to come.",
    parameters={
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 2, "maxLength": 24},
            "days": {"type": "integer", "minimum": 0},
        },
        "required": ["city", "days"],
        "additionalProperties": False,
    },
)
CLOCK: Final = ToolSpec(
    name="clock",
    description="What time it is.",
    parameters={
        "type": "object",
        "properties": {"zone": {"enum": ["utc", "local"]}},
        "required": ["zone"],
        "additionalProperties": False,
    },
)
TOOLS: Final = (WEATHER, CLOCK)
TURNS: Final[list[Turn]] = [
    Told("system", "You plan trips. Never book anything."),
    Told("user", "Will it rain in Paris tomorrow? Look it up."),
]


@pytest_asyncio.fixture(scope="module")
async def engine(model: str) -> AsyncGenerator[Engine]:
    # Here, where its warnings are ignored.
    from sluicegate.worker.vllm_engine import VllmEngine

    config = Config(model=model, max_model_len=1024, enforce_eager=True, lanes="interactive=8")
    engine = VllmEngine(config)
    await engine.open()
    yield engine
    await engine.close()


@pytest.fixture(scope="module")
def dialects(model: str) -> Dialects:
    """In plain text, and as a template of the Hermes form has it."""
    return make_dialects(
        Config(model=model, max_model_len=1024, tool_parser="hermes", chat_template=str(TEMPLATE))
    )


def dialect_of(dialects: Dialects, name: Any) -> Dialect:
    return dialects.of(AgentJob(task="x", format=name))


async def said(
    engine: Engine,
    dialect: Dialect,
    prompt: Prompt,
    grammar: StructuredOutput | None,
    *,
    temperature: float = 0.0,
    seed: int = 0,
) -> Report:
    job = GenerationJob(
        prompt_token_ids=prompt.token_ids,
        sampling=Sampling(
            temperature=temperature,
            seed=seed,
            max_tokens=224,
            stop=dialect.stop,
            structured_output=grammar,
        ),
        exempt=dialect.spans,
    )
    session = GenerationSession(job, engine, worker="w", nonce="n")
    return session.report(await session.run(), None)


def require_calls(dialect: Dialect, report: Report, tools: Sequence[ToolSpec]) -> None:
    """The answer is calls of these tools, with arguments by their schemas."""
    assert isinstance(report.ending, Answered), report
    found = dialect.parse(report.text, report.ending.finish_reason, TOOLS)
    assert found.calls, (found, report.text)
    schemas = {tool.name: tool.parameters for tool in tools}
    for call in found.calls:
        jsonschema.validate(call.arguments, schemas[call.name])


@pytest.mark.parametrize("name", ["grammar", "auto"])
async def test_a_model_that_is_held_calls_tools_by_their_schemas(
    engine: Engine, dialects: Dialects, name: str
) -> None:
    dialect = dialect_of(dialects, name)
    prompt = dialect.prompt(TURNS, TOOLS)
    report = await said(engine, dialect, prompt, dialect.grammar(TOOLS, may_answer=False))
    require_calls(dialect, report, TOOLS)

    # The same prompt with a smaller grammar: it is not read again.
    left = await said(engine, dialect, prompt, dialect.grammar((CLOCK,), may_answer=False))
    require_calls(dialect, left, (CLOCK,))
    segment = left.record.segments[0]
    assert segment.prompt_tokens == prompt.tokens
    assert segment.cached_tokens >= prompt.tokens // 2

    none = await said(engine, dialect, prompt, dialect.grammar((), may_answer=False))
    assert dialect.parse(none.text, None, TOOLS).calls == ()
    assert dialect.answer(none.text)


async def test_what_is_said_freely_is_read_as_something(engine: Engine, dialects: Dialects) -> None:
    async def one(name: str, seed: int) -> None:
        dialect = dialect_of(dialects, name)
        prompt = dialect.prompt(TURNS, TOOLS)
        report = await said(engine, dialect, prompt, None, temperature=1, seed=seed)
        finish = report.ending.finish_reason if isinstance(report.ending, Answered) else None
        found = dialect.parse(report.text, finish, TOOLS)
        kinds = (bool(found.calls), found.answer is not None, found.failure is not None)
        assert sum(kinds) == 1

    async with asyncio.TaskGroup() as group:
        for seed in range(3):
            group.create_task(one("text", seed))
            group.create_task(one("auto", seed))
