"""Tools with faults, where child processes can import them, and a runner for them."""

import asyncio
import importlib
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio
from sluicegate.schemas.tools import ToolResult
from sluicegate.worker.tools import Tool
from sluicegate.worker.tools.runner import Runner

from .calls import CONTEXT, WAIT_S, Call


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of faulty tools."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(__file__).parent)])
    return importlib.import_module("faulty")


@pytest_asyncio.fixture
async def runner() -> AsyncGenerator[Runner]:
    one = Runner(grace_s=0.2)
    yield one
    await one.close()
    assert one.abandoned == 0


@pytest.fixture
def call(runner: Runner) -> Call:
    async def run(tool: Tool, /, timeout_s: float | None = None, **arguments: Any) -> ToolResult:
        async with asyncio.timeout(WAIT_S):
            return await runner.run(tool, arguments, CONTEXT, timeout_s=timeout_s)

    return run
