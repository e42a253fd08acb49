"""Calls that a model gave without the marks of its form: they call nothing, and are no answer."""

import json
from typing import Any, Final, cast

import regex

_DECODER: Final = json.JSONDecoder()
_FENCE: Final = regex.compile(
    r"\s*+```[A-Za-z0-9_-]{0,16}+[ \t\r]*+\n(?P<inside>.*?)(?:\n[ \t\r]*+```\s*+)?", regex.DOTALL
)
_KEYS: Final = frozenset({"id", "type", "index", "name", "arguments", "parameters"})
# How a call begins, for what is no JSON.
_HEAD: Final = regex.compile(
    r"""\[?\s*+\{\s*+["']name["']\s*+:\s*+["'][^"'\n]{1,80}+["']\s*+,\s*+["'](?:arguments|parameters)["']"""
    r"\s*+:"
)


def is_bare_call(text: str) -> bool:
    """Whether a text, or the code fence that all of it stands in, is nothing but calls:
    `{"name": "x", "arguments": {}}` or `"parameters"` in its place, such objects in a row or in a
    list, with an `id` and a `type` or in a `function` as on the wire of many servers; or such a
    call that is no JSON in the end. With other keys, or with words around it, it is an answer that
    has JSON in it. O(n) in the length of the text."""
    fenced = _FENCE.fullmatch(text)
    said = (fenced["inside"] if fenced else text).strip()
    if said[:1] not in ("{", "["):
        return False
    at = 0
    while at < len(said):
        try:
            value, at = _DECODER.raw_decode(said, at)
        except (ValueError, RecursionError):
            return _is_broken(said[at:])
        if not _is_call(value):
            return False
        while at < len(said) and said[at] in " \t\r\n,;":
            at += 1
    return True


def _is_broken(said: str) -> bool:
    """One that was left open, or is Python in the place of JSON; and no words behind it."""
    if _HEAD.match(said) is None:
        return False
    return said[-1] in "}]" or said.count("{") > said.count("}")


def _is_call(value: Any) -> bool:
    """Calls in a list, or one."""
    if isinstance(value, dict):
        own = cast("dict[str, Any]", value)
        value = own["tool_calls"] if own.keys() == {"tool_calls"} else own
    some: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [value]
    return bool(some) and all(map(_is_one, some))


def _is_one(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    own = cast("dict[str, Any]", value)
    inner = own.get("function")
    if isinstance(inner, dict) and own.keys() <= _KEYS | {"function"}:
        own = cast("dict[str, Any]", inner)
    if not (isinstance(own.get("name"), str) and own.keys() <= _KEYS):
        return False
    # Some give the arguments as a text that is JSON.
    given = own.get("arguments", own.get("parameters"))
    return isinstance(given, dict) or ("arguments" in own and isinstance(given, str))
