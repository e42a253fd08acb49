"""What a model is told of what came of its words, in every dialect."""

from collections.abc import Iterator

from ...schemas import ToolCall
from .dialect import Came


def result_text(call: ToolCall) -> str:
    """A call's result: what the tool gave, or why it gave nothing."""
    result = call.result
    if result is None:
        return "nothing yet"
    return result.content if result.ok else f"[{result.status}] {result.content}".rstrip()


def came_otherwise(turn: Came) -> Iterator[str]:
    """What is said besides results: that something could not be read, and the reminder."""
    if turn.failure is not None:
        yield f"That could not be read ({turn.failure.kind}): {turn.failure.detail}"
    if turn.reminder:
        yield turn.reminder
