"""The last JSON value in reasoning that is an answer by a schema."""

from collections.abc import Iterator
from typing import Any, Final, cast

import regex

from ..checks.json_schema import BadSchema, fits
from ..checks.json_text import NotJson, parse
from .finality import TAGS, finality

_DEPTH: Final = 64
_SECONDS: Final = 1.0
_TRIES: Final = 4  # values that are read, from the last
_PLACES: Final = 200  # brackets whose lead is looked at, from the last
_LEAD: Final = 300  # characters
_SIGN: Final = regex.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', regex.DOTALL)
_OPENING: Final = regex.compile(r"[\[{]")
# What a member of a larger value stands behind.
_WITHIN: Final = regex.compile(
    r"(?:[\[{,]|[\"']\s{0,80}+:|(?:\{|,[ \t]{0,80}+\n)\s{0,80}+\w{1,80}+\s{0,80}+:)\s{0,80}+\Z"
)
_DECORATION: Final = " \t\r>*_#`"
_PLACEHOLDER: Final = regex.compile(
    r"\s*+(?:\.{2,}|…|<[^<>]*+>|\[[^\[\]]*+\]|\{[^{}]*+\}|string|your answer(?: here)?|value|\?+)"
    r"\s*+",
    regex.IGNORECASE,
)


def last_value(text: str, schema: dict[str, Any]) -> str | None:
    """The object or array that the text ends with, if it fits the schema. It may be fenced, stand
    on lines of its own, or behind words that say that it is the answer. One that comes round again
    and again word for word is the answer, however the last copy was cut. Time linear in the text
    but for the schema's."""
    spans = list(_values(text))
    if not spans:
        return None
    start, end = spans[0]
    answer = text[start:end]
    if TAGS.search(answer) or not (_is_end(text, end) or _is_loop(text, spans)):
        return None
    if _is_one_of_several(text, spans):
        return None
    return answer if _satisfies(answer, schema) else None


def _values(text: str) -> Iterator[tuple[int, int]]:
    """Spans of values that could be the answer, the last first."""
    tries = places = 0
    for at in reversed([found.start() for found in _OPENING.finditer(text)]):
        before = text[max(0, at - _LEAD) : at]
        if text[at - 1 : at] in ("[", "{", ",") and at:
            continue
        places += 1
        if places > _PLACES or tries >= _TRIES:
            return
        if not _may_begin(before, at):
            continue
        tries += 1
        if end := _value_end(text, at):
            yield at, end


def _may_begin(before: str, at: int) -> bool:
    """Whether an answer may begin behind these characters."""
    words = finality()
    line = before.rpartition("\n")[2]
    if len(line) == len(before) and at > len(before):
        return False  # a line too long to be led by its beginning
    lead = line.strip(_DECORATION)
    if lead:
        if _WITHIN.search(before) or words.hedge.search(line):
            return False
        is_label = line.rstrip(_DECORATION).endswith((":", "：")) and "json" in line.lower()
        return is_label or bool(words.lead.search(line) or words.marker.fullmatch(line))
    if _WITHIN.search(before):
        return False
    above = before.rstrip(_DECORATION + "\n")
    if above.endswith(("```json", "```JSON", "~~~json")):
        above = above[:-7].rstrip(_DECORATION + "~\n")
    said = above.rpartition("\n")[2]
    return not (said.endswith((":", "：", ",")) and words.hedge.search(said))


def _value_end(text: str, start: int) -> int:
    """Behind the bracket that closes the one at `start`, or 0."""
    depth = 0
    for found in _SIGN.finditer(text, start):
        sign = text[found.start()]
        if sign in "[{":
            depth += 1
        elif sign in "]}":
            depth -= 1
            if not depth:
                return found.end()
        if depth > _DEPTH:
            return 0
    return 0


def _is_end(text: str, end: int) -> bool:
    if len(text) - end > _LEAD or any(sign in text[end:] for sign in ")]}"):
        return False
    return finality().closing.match(text, end) is not None


def _is_one_of_several(text: str, spans: list[tuple[int, int]]) -> bool:
    """Whether another value stands right before it, as in a log: nobody knows which it is."""
    if len(spans) < 2:
        return False
    (start, end), (before, before_end) = spans[0], spans[1]
    return not text[before_end:start].strip() and text[before:before_end] != text[start:end]


def _is_loop(text: str, spans: list[tuple[int, int]]) -> bool:
    """Whether the value comes round with the same text between, which says nothing against it."""
    if len(spans) < 2:
        return False
    (start, end), (before, before_end) = spans[0], spans[1]
    if text[before:before_end] != text[start:end]:
        return False
    between = text[before_end:start]
    return (
        not between.partition("\n")[0].strip(_DECORATION + ".")
        and text.startswith(text[end:], before_end)
        and not finality().doubt.search(between)
    )


def _satisfies(answer: str, schema: dict[str, Any]) -> bool:
    try:
        value = parse(answer, depth=_DEPTH)
        if not value or _is_schema(value, schema) or _has_placeholder(value):
            return False
        return fits(schema, value, seconds=_SECONDS, parts=len(answer) // 2) is None
    except (NotJson, BadSchema, ImportError):
        return False


def _is_schema(value: Any, schema: dict[str, Any]) -> bool:
    """Whether the value is a schema, repeated while thinking about it, or has nothing of what the
    schema is about (an open schema lets any object pass)."""
    if not isinstance(value, dict):
        return False
    asked: Any = schema.get("properties", {})
    if isinstance(asked, dict) and asked:
        return not cast("dict[str, Any]", value).keys() & cast("dict[str, Any]", asked).keys()
    return value == schema or "$schema" in value or {"type", "properties"} <= value.keys()


def _has_placeholder(value: Any) -> bool:
    """Whether a string in the value stands for one that is to come."""
    left: list[Any] = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left += cast("dict[str, Any]", one).values()
        elif isinstance(one, list):
            left += cast("list[Any]", one)
        elif isinstance(one, str) and _PLACEHOLDER.fullmatch(one):
            return True
    return False
