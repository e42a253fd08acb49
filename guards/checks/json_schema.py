"""Whether a JSON value fits a schema, in bounded time and memory, and whether a schema will do.

A schema of a few hundred bytes can take hours: references that double at each step, patterns of
huge counts. Most schemas plainly can't, and are judged here, in microseconds; the others in a
process of its own (about 50 ms), which is ended when its time is over.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, cast

import regex

from . import schema_core
from .schema_core import BadSchema, Mismatch, mismatch

# Schemas within the schema, references followed, and times the parts of the value: 0.1 to 8
# microseconds each.
_STEPS: Final = 10_000
_LOOKS: Final = 1_000_000
# A pattern is matched in time proportional to its length times the text's, unless it counts (which
# multiplies its length), looks around or refers back.
_PATTERN: Final = 100  # characters
_COSTLY: Final = regex.compile(r"\{\s*\d{2}|\(\?[=!<]|\\[1-9kPp]")


def fits(schema: dict[str, Any], value: Any, *, seconds: float, parts: int = 1) -> Mismatch | None:
    """What is wrong with the value, and the path to it; None: it fits the schema. `parts`: how many
    values the value is made of, or more. Raises BadSchema, also where the answer takes longer than
    `seconds`."""
    value = _whole(value)
    return mismatch(schema, value) if is_cheap(schema, parts) else _apart(schema, value, seconds)


def schema_problem(schema: dict[str, Any], *, seconds: float = 2.0) -> str | None:
    """Why no text can be held against the schema, or None. For the place where jobs come in."""
    try:
        fits(schema, None, seconds=seconds)
    except BadSchema as error:
        return str(error)
    return None


def is_cheap(schema: dict[str, Any], parts: int = 1) -> bool:
    """Whether the schema is plainly judged in a moment: no reference to outside or back to where
    it came from, not much in all, and simple patterns."""
    try:
        return _steps(schema, schema, (), {}) * parts <= _LOOKS
    except _NotCheap:
        return False


class _NotCheap(Exception):
    pass


def _steps(node: Any, root: dict[str, Any], under: tuple[str, ...], seen: dict[str, int]) -> int:
    """Schemas in a node, each counted as often as references lead to it."""
    if isinstance(node, list):
        return sum(_steps(each, root, under, seen) for each in cast("list[Any]", node))
    if not isinstance(node, dict):
        return 0
    total = 1
    for key, value in cast("dict[str, Any]", node).items():
        if key in ("pattern", "patternProperties"):
            _require_simple(value)
        if key.startswith(("$dynamic", "$recursive")) or (
            node is not root and key in ("$id", "id", "$anchor") and isinstance(value, str)
        ):
            raise _NotCheap
        if key == "$ref" and isinstance(value, str):
            total += _steps_behind(value, root, under, seen)
        elif node is not root or key not in ("$defs", "definitions"):
            total += _steps(value, root, under, seen)
    if total > _STEPS:
        raise _NotCheap
    return total


def _steps_behind(
    ref: str, root: dict[str, Any], under: tuple[str, ...], seen: dict[str, int]
) -> int:
    if ref in under or not ref.startswith("#/"):
        raise _NotCheap
    if ref not in seen:
        node: Any = root
        for step in ref[2:].split("/"):
            if not isinstance(node, dict) or step not in node:
                raise _NotCheap
            node = cast("dict[str, Any]", node)[step]
        seen[ref] = _steps(node, root, (*under, ref), seen)
    return seen[ref]


def _require_simple(patterns: Any) -> None:
    """`pattern` has one, `patternProperties` has them as keys."""
    each = cast("dict[str, Any]", patterns) if isinstance(patterns, dict) else (str(patterns),)
    for pattern in each:
        if len(pattern) > _PATTERN or _COSTLY.search(pattern):
            raise _NotCheap


def _apart(schema: dict[str, Any], value: Any, seconds: float) -> Mismatch | None:
    command = [sys.executable, "-I", str(Path(schema_core.__file__))]
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            command,
            input=json.dumps([schema, value]),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BadSchema(f"the schema takes longer than {seconds:g} s to judge") from None
    if done.returncode:
        said = done.stderr.strip().rpartition("\n")[2]
        raise BadSchema(f"judging the schema ended with {done.returncode}: {said[:300]}")
    answer = json.loads(done.stdout)
    if "bad" in answer:
        raise BadSchema(answer["bad"])
    found = answer["mismatch"]
    return None if found is None else (found[0], found[1])


def _whole(value: Any) -> Any:
    """The value with halves of surrogate pairs replaced: the validator takes UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace").decode())
    return value
