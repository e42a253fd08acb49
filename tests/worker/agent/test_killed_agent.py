"""An agent service that gets SIGKILL around a call with an effect: the effect happens once."""

import asyncio
import signal
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from sluicegate.schemas import ToolResult, ToolStatus
from sluicegate.schemas.agents import Closed

from .killed_agent import POINTS, Order, Point, tools
from .troupe import Troupe, answer, call, calls, job, script

pytestmark = pytest.mark.broker

PROGRAM = str(Path(__file__).with_name("killed_agent.py"))


def play(number: int, prompt: str) -> str:
    """One call of the tool that the task names, and the answer."""
    name = "pay" if "PAY" in prompt else "put"
    if "BOTH" in prompt and number == 1:
        return calls(("look", {"what": "it"}), (name, {"what": "it"}))
    return call(name, what="it") if number == 1 else answer(f"{name} was called")


async def killed(troupe: Troupe, point: Point, effects: Path) -> None:
    """Run a service until it dies at the point."""
    config = msgspec.structs.replace(troupe.config, worker_id="doomed")
    order = Order(config=config, point=point, effects=str(effects))
    process = await asyncio.create_subprocess_exec(
        sys.executable, PROGRAM, stdin=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        await process.communicate(msgspec.json.encode(order))
    assert process.returncode == -signal.SIGKILL


async def results(troupe: Troupe, job_id: str) -> list[ToolResult]:
    lines = await troupe.journal(job_id)
    rounds = [line.entry.round for line in lines if isinstance(line.entry, Closed)]
    # A round that was closed, and whose closing was lost, is closed again.
    first = [each for each in rounds if each.number == 1][-1]
    return [one.result for one in first.calls if one.result is not None]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("name", ["put", "pay"])
async def test_an_effect_happens_once(
    troupe: Troupe, tmp_path: Path, name: str, point: Point
) -> None:
    effects = tmp_path / "effects"
    effects.touch()
    await troupe.worker(script(play))
    this = job(name.upper(), tools=("put", "pay"))
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(troupe.result(this, 90))
        await killed(troupe, point, effects)
        await troupe.agents(tools(str(effects)))
    assert waiting.result().ok
    made = Counter(effects.read_text().split("\n")[:-1])
    (result,) = await results(troupe, this.id)
    # Between the note that a call is made and the making there is a moment in which nobody can say.
    if (name, point) == ("pay", "noted"):
        assert not made
        assert result.status is ToolStatus.UNKNOWN
        return
    # An idempotent tool may be run again: by the effect id it is one effect.
    assert list(made) == [f"{name} {this.id}:1:1:0"]
    assert made.total() == (2 if (name, point) == ("put", "done") else 1)
    unknown = (name, point) == ("pay", "done")
    assert result.status is (ToolStatus.UNKNOWN if unknown else ToolStatus.OK)


async def test_what_has_come_back_is_kept_when_another_call_dies(
    troupe: Troupe, tmp_path: Path
) -> None:
    effects = tmp_path / "effects"
    effects.touch()
    await troupe.worker(script(play))
    this = job("PAY BOTH", tools=("pay", "look"))
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(troupe.result(this, 90))
        await killed(troupe, "done", effects)
        await troupe.agents(tools(str(effects)))
    assert waiting.result().ok
    looked, paid = await results(troupe, this.id)
    assert looked.status is ToolStatus.OK
    assert paid.status is ToolStatus.UNKNOWN
    assert effects.read_text().count("pay ") == 1
