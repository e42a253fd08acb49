"""The arguments of a call, read strictly: what a model meant to say is never guessed."""

import json
from typing import Any, Final, cast

import regex

from ...schemas import InvalidMessage
from ...schemas.checks import require_json
from ...schemas.errors import tame
from ...schemas.limits import MAX_ARGUMENTS_BYTES, MAX_TOOL_NAME_CHARS
from .dialect import Asked

_FENCE: Final = regex.compile(r"```[A-Za-z0-9_-]{0,16}+[ \t\r]*+\n(.*)\n[ \t\r]*+```", regex.DOTALL)


class Unreadable(Exception):
    """Why it can't be taken for a call; fit to be told to the model. `unfinished`: it ends where
    more had to come."""

    def __init__(self, why: str, *, unfinished: bool = False) -> None:
        super().__init__(why)
        self.unfinished = unfinished


def call_of(name: str, arguments: Any, call_id: str = "") -> Asked:
    """A call that the wire can carry. Raises Unreadable."""
    if not name or len(name) > MAX_TOOL_NAME_CHARS or not name.isprintable():
        raise Unreadable(f"a tool has a name of 1 to {MAX_TOOL_NAME_CHARS} characters on one line")
    if not isinstance(arguments, dict):
        raise Unreadable(f"the input of {name} is no JSON object")
    own = cast("dict[str, Any]", arguments)
    try:
        require_json("arguments", own, max_bytes=MAX_ARGUMENTS_BYTES)
    except InvalidMessage as error:
        raise Unreadable(f"the input of {name}: {tame(str(error))}") from None
    return Asked(name=name, arguments=own, id=call_id)


def read_json(text: str) -> Any:
    """The one JSON value that a text is, or that the code fence has which it is. Nothing may stand
    before or behind it, no key may come twice, and every number is finite. Raises Unreadable."""
    said = text.strip()
    if said.startswith("```"):
        fenced = _FENCE.fullmatch(said)
        if fenced is None:
            raise Unreadable("a code fence that does not close", unfinished=said.count("```") < 2)
        said = fenced[1].strip()
    if not said:
        raise Unreadable("there is nothing", unfinished=True)
    try:
        value, end = _DECODER.raw_decode(said)
    except json.JSONDecodeError as error:
        # At its end, or in a string that never ends, it may only have been cut off.
        cut = error.pos >= len(said) or error.msg.startswith("Unterminated string")
        raise Unreadable(f"no JSON: {error.msg} at character {error.pos}", unfinished=cut) from None
    except RecursionError:
        raise Unreadable("no JSON that can be read: it is nested too deep") from None
    except ValueError as error:  # of the hooks below, and for numbers of thousands of digits
        raise Unreadable(f"no JSON that can be read: {error}") from None
    if said[end:].strip():
        raise Unreadable("there is more behind the JSON")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key comes twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _whole(digits: str) -> int:
    number = int(digits)
    # On the wire a greater one would become another number.
    if not -(2**63) <= number < 2**64:
        raise ValueError("a whole number of more than 64 bits")
    return number


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_once, parse_constant=_no_constant, parse_int=_whole
)
