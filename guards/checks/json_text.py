"""JSON in a text: parsed strictly, without what Python's parser adds, and places within it."""

import json
import math
import sys
from typing import Any, Final

import regex

# Python refuses to read longer integers, lest they take too long; as floats they are near enough.
_DIGITS: Final = 4_000
_STRING_OR_BRACKET: Final = regex.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', regex.DOTALL)
_BLANK: Final = regex.compile(r"[ \t\n\r]*")
_FENCE: Final = regex.compile(
    r"\s*(`{3,}|~{3,})[ \t]*(?:json)?[ \t]*\n(.*?)\n?[ \t]*\1\s*", regex.S
)


class NotJson(ValueError):
    """Text that is no JSON: what is wrong, and where, in characters."""

    def __init__(self, what: str, at: int) -> None:
        super().__init__(what)
        self.what = what
        self.at = at


def parse(text: str, *, depth: int) -> Any:
    """The one value that the text is, by RFC 8259: no NaN, no byte order mark, nothing behind it.
    Raises NotJson, also where it is nested deeper than `depth`, which no answer that was meant is.
    """
    _require_shallow(text, depth)
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_as_float, parse_int=_as_int)
    except json.JSONDecodeError as error:
        raise NotJson(error.msg, error.pos) from None
    except _Constant as error:
        raise NotJson(f"{error} is no word of JSON", max(0, text.find(str(error)))) from None


def fenced(text: str) -> tuple[int, int] | None:
    """Where the content of the fenced block stands that the text is, if it is just that."""
    found = _FENCE.fullmatch(text)
    return None if found is None else found.span(2)


def place(text: str, path: list[Any]) -> tuple[int, int]:
    """Where the value at a path (keys and indexes) stands in a text that is JSON. Of a key that is
    there twice the last one counts, as for the parser."""
    decoder = json.JSONDecoder(parse_float=_as_float, parse_int=_as_int)
    at = _blank(text, 0)
    for step in path:
        found: int | None = None
        for name, start in _members(text, at, decoder):
            if name == step:
                found = start
        if found is None:
            break
        at = found
    return at, decoder.raw_decode(text, at)[1]


def _members(text: str, at: int, decoder: json.JSONDecoder) -> Any:
    """Name or index, and beginning, of each member of the value at `at`."""
    is_object = text[at] == "{"
    if not is_object and text[at] != "[":
        return
    at = _blank(text, at + 1)
    index = 0
    while text[at] not in "]}":
        name: Any = index
        if is_object:
            name, at = decoder.raw_decode(text, at)
            at = _blank(text, _blank(text, at) + 1)
        yield name, at
        at = _blank(text, decoder.raw_decode(text, at)[1])
        if text[at] == ",":
            at = _blank(text, at + 1)
        index += 1


def _blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


class _Constant(Exception):
    pass


def _refuse(name: str) -> Any:
    raise _Constant(name)


def _as_float(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else math.copysign(sys.float_info.max, number)


def _as_int(digits: str) -> float:
    return int(digits) if len(digits) <= _DIGITS else _as_float(digits)


def _require_shallow(text: str, depth: int) -> None:
    """Python's parser calls itself for every level."""
    level = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        first = text[found.start()]
        level += (first in "[{") - (first in "]}")
        if level > depth:
            raise NotJson(f"nested deeper than {depth} levels", found.start())
