"""The example tools do what they say."""

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.schemas.tools import ToolResult
from sluicegate.worker.config import Config
from sluicegate.worker.tools import ToolContext, examples
from sluicegate.worker.tools.registry import Registry
from sluicegate.worker.tools.runner import Runner

from .calls import WAIT_S


@pytest_asyncio.fixture
async def registry() -> AsyncGenerator[Registry]:
    one = Registry.load(Config(agent_tools="sluicegate.worker.tools.examples"))
    yield one
    await one.release("examples-job")


async def run(registry: Registry, name: str, effect_id: str = "e1", **arguments: Any) -> ToolResult:
    found = registry.get(name)
    assert found is not None
    context = ToolContext(job_id="examples-job", round=1, effect_id=effect_id)
    async with asyncio.timeout(WAIT_S):
        return await Runner().run(found, arguments, context)


def test_which_there_are(registry: Registry) -> None:
    assert list(registry.specs) == ["calculator", "clock", "note", "lookup"]
    assert not any(each.needs_approval for each in registry.specs.values())


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("(2 + 3) * 4", 20),
        ("-2 ** 2", -4),
        ("2 ** -1", 0.5),
        ("7 // 2 % 2", 1),
        ("1e3 / 8", 125.0),
        (" 1 ", 1),
        ("0 ** 0", 1),
        ("(-2) ** 3", -8),
    ],
)
def test_it_calculates(expression: str, value: float) -> None:
    assert examples.calculator(expression) == str(value)


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').system('true')",
        "x + 1",
        "'a' * 3",
        "True + 1",
        "[1][0]",
        "(lambda: 1)()",
        "9 ** 9 ** 9",
        "10 ** 999 * 10 ** 999",
        "(-8) ** 0.5",
        "1 / 0",
        "1 +",
        "1j",
        "2 if 1 else 3",
    ],
)
def test_and_nothing_else(expression: str) -> None:
    with pytest.raises((ValueError, ArithmeticError, SyntaxError)):
        examples.calculator(expression)


@given(
    st.recursive(
        st.integers(0, 99).map(str),
        lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(
            lambda each: f"({''.join(each)})"
        ),
        max_leaves=8,
    )
)
def test_it_calculates_as_python_does(expression: str) -> None:
    assert examples.calculator(expression) == str(eval(expression))  # noqa: S307


async def test_it_knows_the_time(registry: Registry) -> None:
    result = await run(registry, "clock", zone="Asia/Tokyo")
    told = msgspec.json.decode(result.content, type=dict[str, str])
    assert told["zone"] == "Asia/Tokyo"
    assert told["time"].endswith("+09:00")
    assert not (await run(registry, "clock", zone="../../etc/passwd")).ok


async def test_two_readings_of_a_clock_are_no_news(registry: Registry) -> None:
    first = await run(registry, "clock")
    await asyncio.sleep(1.1)
    second = await run(registry, "clock")
    assert first.content != second.content
    assert first.fingerprint == second.fingerprint


async def test_a_note_is_written_once_for_each_call(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    await run(registry, "note", "e1", text="one")
    await run(registry, "note", "e1", text="one")
    result = await run(registry, "note", "e2", text="two")
    assert result.content == '{"notes":["one","two"]}'
    await registry.release("examples-job")
    assert [names for *_, names in os.walk(tmp_path) if names] == []


async def test_it_knows_ten_cities(registry: Registry) -> None:
    result = await run(registry, "lookup", city=" new YORK")
    assert msgspec.json.decode(result.content)["country"] == "United States"
    missing = await run(registry, "lookup", city="Atlantis")
    assert "there is no 'Atlantis'" in missing.content
    assert "Nairobi" in missing.content
