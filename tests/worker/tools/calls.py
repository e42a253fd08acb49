"""What the tests of tools have in common."""

from pathlib import Path
from typing import Any, Protocol

from sluicegate.schemas.tools import ToolResult
from sluicegate.worker.tools import Tool, ToolContext

WAIT_S = 30
CONTEXT = ToolContext(job_id="job-1", round=2, effect_id="job-1:2:0")


class Call(Protocol):
    """Runs a tool with these arguments."""

    async def __call__(
        self, tool: Tool, /, timeout_s: float | None = None, **arguments: Any
    ) -> ToolResult: ...


def alive(pid: int) -> bool:
    """Whether a process still does something: a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def left_word(folder: Path) -> dict[str, int]:
    """The processes of which a tool has left word in a folder, by name."""
    return {each.name: int(each.read_text()) for each in folder.iterdir() if not each.suffix}


def none_left(folder: Path) -> bool:
    """Whether all of those are gone; there must be some."""
    pids = left_word(folder)
    assert pids
    return not {name for name, pid in pids.items() if alive(pid)}
