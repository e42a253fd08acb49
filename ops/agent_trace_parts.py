"""What synthetic traces are put together from: tools, rounds, results."""

import json
import random
from collections.abc import Sequence
from typing import Any, Final

from ..schemas.tools import ToolSpec, ToolStatus
from .agent_trace_words import Words
from .agent_traces import Trace, TraceCall, TraceRound

READ: Final = ToolSpec(name="read_file", description="a file's content")
SEARCH: Final = ToolSpec(name="search", description="what is found for a query")
WRITE: Final = ToolSpec(name="write_file", changes_state=True)
EDIT: Final = ToolSpec(name="edit_file", changes_state=True)
TEST: Final = ToolSpec(name="run_tests", volatile=("seconds",))
STATUS: Final = ToolSpec(name="job_status", polls=True, volatile=("checked_at",))
UNDECLARED: Final = ToolSpec(name="job_status", volatile=("checked_at",))
KEYED: Final = ToolSpec(name="look_up", loop_key=("topic",))
LIST: Final = ToolSpec(name="list_items")
WEATHER: Final = ToolSpec(name="weather", volatile=("observed_at", "request_id"))
TOOLS: Final = (READ, SEARCH, WRITE, EDIT, TEST, STATUS, LIST, WEATHER)

# Rounds of a loop behind its onset.
BEHIND: Final = 12


def trace(
    kind: str,
    rounds: Sequence[TraceRound],
    *,
    onset: int | None = None,
    tools: tuple[ToolSpec, ...] = TOOLS,
    task_type: str = "default",
) -> Trace:
    """A trace; with an onset it is a loop. Of `tools` it has those that it calls, so that a breaker
    which takes those away that were used takes all."""
    called = {call.tool for each in rounds for call in each.calls}
    return Trace(
        id=kind,
        kind=kind,
        task_type=task_type,
        looping=onset is not None,
        onset=onset,
        tools=tuple(spec for spec in tools if spec.name in called),
        rounds=tuple(rounds),
    )


def call(
    tool: str,
    arguments: dict[str, Any],
    result: Any = "",
    status: ToolStatus = ToolStatus.OK,
) -> TraceCall:
    """A call; a result that is no text becomes JSON."""
    said = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    return TraceCall(tool=tool, arguments=arguments, result=said, status=status)


def one(prose: str, *calls: TraceCall, **changes: Any) -> TraceRound:
    """A round."""
    return TraceRound(prose=prose, calls=calls, **changes)


def path(words: Words, topic: str) -> str:
    """A file about something."""
    return f"{words.folders[sum(map(ord, topic)) % len(words.folders)]}/{topic}.md"


def page(draw: random.Random, words: Words, topic: str, lines: int = 4) -> str:
    """What a file about something says."""
    text = [f"# {topic}"]
    for _ in range(lines):
        some = ", ".join(draw.sample(words.topics, 3))
        text.append(
            f"{topic}: {some}; {draw.randrange(100, 10_000)} in {draw.choice(words.places)}."
        )
    return "\n".join(text)


def step(draw: random.Random, words: Words, topic: str, language: str = "en") -> str:
    """What is said before reading about something: nearly the same each time."""
    return words.steps[language].format(topic=topic, adjective=draw.choice(words.adjectives))


def reading(draw: random.Random, words: Words, topic: str, language: str = "en") -> TraceRound:
    """A round that reads a file."""
    file = file_of(draw, words, topic)
    return one(step(draw, words, topic, language), file)


def moment(draw: random.Random, number: int) -> str:
    """A time of day, later for a larger number."""
    return f"2026-01-05T09:{number:02}:{draw.randrange(60):02}Z"


def file_of(draw: random.Random, words: Words, topic: str) -> TraceCall:
    """A call that reads a file."""
    return call("read_file", {"path": path(words, topic)}, page(draw, words, topic))


def some(draw: random.Random, words: Words, count: int) -> list[TraceRound]:
    """Rounds that read so many files."""
    return [reading(draw, words, topic) for topic in draw.sample(words.topics, count)]
