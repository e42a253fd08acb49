"""Code that is drafted more than once: each draft is the last one with its fault mended."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Final

from .reasoning_bank import Split, Voice

_NAMES: Final[dict[Split, tuple[tuple[str, str, str], ...]]] = {
    "dev": (("work", "xs", "x"), ("solve", "values", "value"), ("run", "data", "d")),
    "held-out": (("process", "items", "it"), ("handle", "rows", "row"), ("go", "parts", "p")),
}
_TASKS: Final = 3


@cache
def _tasks(split: Split) -> list[dict[str, list[str]]]:
    file = Path(__file__).with_name("reasoning_code.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))[split]


def drafts_of(voice: Voice, split: Split) -> str:
    """Some functions, each through all its drafts."""
    tasks = voice.draw.sample(_tasks(split), voice.draw.randint(1, _TASKS))
    lines: list[str] = []
    for task, names in zip(tasks, voice.draw.sample(_NAMES[split], len(tasks)), strict=True):
        lines.append(voice.say("drafts", "intro", f=names[0]))
        for at, code in enumerate(task["drafts"]):
            lines.append(f"```\n{_named(code, names).strip()}\n```")
            if at < len(task["faults"]):
                fault = _named(task["faults"][at], names)
                lines.append(voice.say("drafts", "fault", i=at + 1, t=fault))
        lines.append(voice.say("drafts", "end", f=names[0], k=len(task["drafts"])))
    return "\n\n".join(lines)


def _named(text: str, names: tuple[str, str, str]) -> str:
    for slot, name in zip(("FUN", "XS", "ONE"), names, strict=True):
        text = text.replace(slot, name)
    return text
