"""Of which jobs the tools must let go."""

import asyncio

import pytest
from sluicegate.schemas import ToolCall, ToolResult, ToolSpec, ToolStatus
from sluicegate.worker.agent.releasing import Releasing

from .contexts import READ, call


class Tools:
    """Says what was asked of it; lets go of a job of this name never."""

    def __init__(self, stuck: str = "") -> None:
        self.stuck = stuck
        self.released: list[str] = []

    async def __call__(
        self, spec: ToolSpec, call: ToolCall, job_id: str, number: int
    ) -> ToolResult:
        del spec, call, job_id, number
        return ToolResult(status=ToolStatus.OK)

    async def release(self, job_id: str) -> None:
        if job_id == self.stuck:
            await asyncio.Event().wait()
        self.released.append(job_id)


async def test_what_did_not_end_here_is_let_go_at_last_and_once() -> None:
    tools = Tools()
    releasing = Releasing(tools)
    for job_id in ("a", "b", "a", "c"):
        assert (await releasing(READ, call(1), job_id, 1)).ok
    await releasing.release("b")
    await releasing.release("never ran here")
    await releasing.release_all(10)
    await releasing.release_all(10)
    assert tools.released[:2] == ["b", "never ran here"]
    assert sorted(tools.released[2:]) == ["a", "c"]


async def test_only_so_many_are_remembered() -> None:
    tools = Tools()
    releasing = Releasing(tools, remember=2)
    for job_id in ("a", "b", "a", "c"):
        await releasing(READ, call(1), job_id, 1)
    assert tools.released == ["b"]


async def test_a_tool_that_does_not_let_go_is_not_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tools = Tools(stuck="a")
    releasing = Releasing(tools)
    for job_id in ("a", "b"):
        await releasing(READ, call(1), job_id, 1)
    await releasing.release_all(0.05)
    assert tools.released == ["b"]
    assert "did not let go" in caplog.text
