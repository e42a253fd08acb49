"""Small tools to try things out with, and to copy from: a calculator, a clock, a notebook, and a
table of cities. Register them with `agent_tools = "sluicegate.worker.tools.examples"`."""

import ast
import contextlib
import math
import operator
import os
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta, Struct

from .context import ToolContext
from .tool import tool

_MAX_EXPRESSION_CHARS: Final = 200
_MAX_EXPONENT: Final = 1_000
_MAX_DIGITS: Final = 1_000
_MAX_NOTE_CHARS: Final = 2_000

_BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda left, right: left / right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: operator.mod,
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}

# name → country, inhabitants in millions (rounded), time zone
_CITIES: Final[dict[str, tuple[str, float, str]]] = {
    "berlin": ("Germany", 3.7, "Europe/Berlin"),
    "cairo": ("Egypt", 10.2, "Africa/Cairo"),
    "lagos": ("Nigeria", 15.4, "Africa/Lagos"),
    "lima": ("Peru", 10.1, "America/Lima"),
    "london": ("United Kingdom", 8.9, "Europe/London"),
    "nairobi": ("Kenya", 4.4, "Africa/Nairobi"),
    "new york": ("United States", 8.3, "America/New_York"),
    "paris": ("France", 2.1, "Europe/Paris"),
    "sydney": ("Australia", 5.4, "Australia/Sydney"),
    "tokyo": ("Japan", 14.0, "Asia/Tokyo"),
}


@tool(idempotent=True, timeout_s=10)
def calculator(
    expression: Annotated[
        str,
        Meta(
            description="numbers with + - * / // % ** and parentheses, such as (2 + 3) * 4",
            min_length=1,
            max_length=_MAX_EXPRESSION_CHARS,
        ),
    ],
) -> str:
    """Work out an arithmetic expression."""
    return str(_value(ast.parse(expression.strip(), mode="eval").body))


def _value(node: ast.expr) -> int | float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            found = number
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            found = _power(_value(left), _value(right))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            found = _BINARY[type(op)](_value(left), _value(right))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            found = _UNARY[type(op)](_value(operand))
        case _:
            raise ValueError(f"only numbers and + - * / // % ** ( ), not {ast.unparse(node)}")
    if isinstance(found, int) and abs(found) >= 10**_MAX_DIGITS:
        raise ValueError(f"the result has more than {_MAX_DIGITS} digits")
    return found


def _power(base: float, exponent: float) -> int | float:
    if abs(exponent) > _MAX_EXPONENT:
        raise ValueError(f"the exponent must be {_MAX_EXPONENT} at most")
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        # Before it is worked out: the digits of a power are known.
        digits = exponent * math.log10(max(1, abs(base)))
        if digits > _MAX_DIGITS:
            raise ValueError(f"the result has more than {_MAX_DIGITS} digits")
    found = base**exponent
    if isinstance(found, complex):
        raise ValueError("the root of a negative number is not a real one")  # noqa: TRY004
    return found


@tool(idempotent=True, polls=True, timeout_s=5, volatile=("time",))
async def clock(
    zone: Annotated[
        str, Meta(description="time zone, such as Europe/Berlin", max_length=64)
    ] = "UTC",
) -> dict[str, str]:
    """Tell the time now."""
    try:
        now = datetime.now(UTC) if zone == "UTC" else datetime.now(ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no time zone {zone!r}") from None
    return {"zone": zone, "time": now.isoformat(timespec="seconds")}


class _Note(Struct, frozen=True):
    effect_id: str
    text: str


_NOTES: Final = msgspec.json.Decoder(_Note)


def _notebook(job_id: str) -> Path:
    name = blake2b(job_id.encode(errors="replace"), digest_size=12).hexdigest()
    return Path(tempfile.gettempdir(), f"sluice-notes-{os.getuid()}", f"{name}.jsonl")


def _forget(job_id: str) -> None:
    _notebook(job_id).unlink(missing_ok=True)


@tool(idempotent=True, changes_state=True, timeout_s=10, release=_forget)
def note(
    text: Annotated[
        str,
        Meta(description="what to write down", min_length=1, max_length=_MAX_NOTE_CHARS),
    ],
    context: ToolContext,
) -> dict[str, list[str]]:
    """Write something down for later; shows all notes of this job."""
    book = _notebook(context.job_id)
    book.parent.mkdir(mode=0o700, exist_ok=True)
    notes: list[_Note] = []
    with contextlib.suppress(FileNotFoundError):
        notes = _NOTES.decode_lines(book.read_bytes())
    # A call that is repeated, since its result was lost, must not write twice.
    if all(each.effect_id != context.effect_id for each in notes):
        new = _Note(context.effect_id, text)
        with book.open("ab") as file:
            file.write(msgspec.json.encode(new) + b"\n")
        notes.append(new)
    return {"notes": [each.text for each in notes]}


@tool(idempotent=True, timeout_s=5)
async def lookup(
    city: Annotated[str, Meta(description="its English name", min_length=1, max_length=100)],
) -> dict[str, str | float]:
    """Look a city up: country, inhabitants in millions, time zone. Knows ten large cities."""
    found = _CITIES.get(city.strip().lower())
    if found is None:
        known = ", ".join(name.title() for name in _CITIES)
        raise LookupError(f"there is no {city!r} in the table, which has: {known}")
    country, millions, zone = found
    return {
        "city": city.strip().title(),
        "country": country,
        "inhabitants_millions": millions,
        "time_zone": zone,
    }
