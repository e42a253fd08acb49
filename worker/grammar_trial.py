"""Grammars that would hold up the engine are found before it sees them.

A grammar of forty characters can take a grammar compiler, or each step of the scheduler behind it,
hours, and then all jobs wait: `(((((a?){100}){100}){100}){100}){100}` does. What plainly can't is
let through; the rest is tried in a process of its own, which bounds itself (about two seconds,
most of them for its start), once for each grammar.
"""

import asyncio
import hashlib
import signal
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any, Final

import msgspec

from ..schemas import InvalidMessage, Reason, StructuredOutput
from . import grammar_core

# Of JSON. Small schemas without these words are compiled in a moment, whatever is in them.
_PLAIN_BYTES: Final = 2_000
_COSTLY: Final = (b'"pattern', b'"minProperties"', b'"maxProperties"', b'"regex"', b'"grammar"')
_KEPT: Final = 1_000
# The program's own limits are of CPU time; this one is for a machine that has none to give.
_LONGEST_S: Final = 120.0
_FIELD: Final = "$.sampling.structured_output"
_TOO_LONG: Final = {
    "reading": f"takes longer than {grammar_core.READING_S} s to read",
    "compiling": f"takes longer than {grammar_core.COMPILING_S} s to compile",
    "walking": f"takes longer than {grammar_core.WALKING_S} s to follow",
}


class GrammarTrials:
    """Tries each grammar once; one at a time, for each takes a core."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, str | None] = OrderedDict()
        self._one = asyncio.Lock()

    async def require(self, wanted: StructuredOutput | None) -> None:
        """Raise InvalidMessage where the grammar would hold up the engine."""
        if wanted is None or is_plain(wanted):
            return
        key = hashlib.blake2b(msgspec.json.encode(wanted), digest_size=16).digest()
        async with self._one:
            if key not in self._known:
                self._known[key] = await problem_of(wanted)
                if len(self._known) > _KEPT:
                    self._known.popitem(last=False)
            self._known.move_to_end(key)
            problem = self._known[key]
        if problem is not None:
            raise InvalidMessage(Reason.UNSUPPORTED, _FIELD, problem)


def is_plain(wanted: StructuredOutput) -> bool:
    """Whether it can be compiled in a moment, as far as one can see."""
    if wanted.choice is not None:
        return True
    for value in (wanted.json_schema, wanted.structural_tag):
        if value is not None:
            data = msgspec.json.encode(value)
            return len(data) <= _PLAIN_BYTES and not any(word in data for word in _COSTLY)
    return False


async def problem_of(wanted: StructuredOutput) -> str | None:
    """What the trial says against a grammar, in words; None: nothing."""
    ((kind, said),) = (
        (name, value)
        for name in wanted.__struct_fields__
        if (value := getattr(wanted, name)) is not None
    )
    return _told(*await _tried([kind, said]))


async def _tried(question: list[Any]) -> tuple[int | None, str]:
    """The program's exit status, None where it was ended here, and what it began last."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", str(Path(grammar_core.__file__))),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_LONGEST_S):
            out, _ = await process.communicate(msgspec.json.encode(question))
    except TimeoutError:
        return None, ""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, out.decode(errors="replace").rstrip().rpartition("\n")[2]


def _told(status: int | None, last: str) -> str | None:
    if status == 0:
        return None
    stage = _TOO_LONG.get(last)
    if status == -signal.SIGXCPU and stage is not None:
        return f"the grammar {stage}: make it smaller, with fewer repeats inside of repeats"
    if status is None:
        return f"the grammar could not be tried within {_LONGEST_S:g} s"
    if stage is None:
        return f"the grammar could not be tried: the trial ended with {status} before it began"
    return f"the grammar ended the trial of {last} it (status {status}): it needs too much memory"
