"""What the demo of a runaway plays: a task, a model by script that gets stuck, and its tools."""

import re
from typing import Any, Final

import msgspec

from ..schemas import AgentJob, Budget, Sampling
from ..worker.tools.examples import calculator, clock, lookup
from ..worker.tools.tool import Tool

TASK: Final = "How many people live in Paris, Tokyo and Atlantis together?"
# None of them costs anything or changes anything.
TOOLS: Final[tuple[Tool, ...]] = (lookup, calculator, clock)
# A token of the scripted engine is a byte of text: so many are few.
TOKENS: Final = 2_000_000
ROUNDS: Final = 50
# Points that no round can reach: the watchdog measures, and says nothing.
NEVER: Final[dict[str, int]] = {"warn_score": 100, "trip_score": 100}

_USEFUL: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("Paris first.", "lookup", {"city": "Paris"}),
    ("Now Tokyo.", "lookup", {"city": "Tokyo"}),
    ("These two together.", "calculator", {"expression": "2.1 + 14.0"}),
)
_STUCK: Final = ("Atlantis is still missing.", "lookup", {"city": "Atlantis"})
_LAST: Final = (
    "In Paris live 2.1 million people and in Tokyo 14.0 million, 16.1 million together. Atlantis "
    "is in no table that I could look it up in, so it is not part of this sum."
)
_SUMMARY: Final = (
    "Paris has 2.1 million inhabitants, Tokyo 14.0 million, together 16.1 million. Atlantis was "
    "looked up again and again, and was not found."
)


def job(*, watchdog: bool, rounds: int) -> AgentJob:
    """The task, with the watchdog as it is or without one. No gate of texts looks at what the
    script says: it is no prose."""
    return AgentJob(
        task=TASK,
        tools=tuple(each.name for each in TOOLS),
        task_type="qa",
        profile="off",
        format="text",
        budget=Budget(tokens=TOKENS, tool_calls=1_000, rounds=rounds),
        sampling=Sampling(max_tokens=1_000),
        watchdog={} if watchdog else NEVER,
    )


def play(_segment: object, prompt: str) -> str:
    """What the model says: three calls that help, and then the same one for ever."""
    if "[This task must be ended now" in prompt:
        return _LAST
    if "Sum up what happened so far" in prompt:
        return _SUMMARY
    over = re.findall(r"\[Round (\d+) of at most", prompt)
    done = int(over[-1]) if over else 0
    thought, name, arguments = _USEFUL[done] if done < len(_USEFUL) else _STUCK
    said = msgspec.json.encode(arguments).decode()
    return f"Thought: {thought}\nAction: {name}\nAction Input: {said}"
