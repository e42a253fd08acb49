"""Schemas of tools at random, JSON that fits them, and whether it does."""

from collections.abc import Callable
from typing import Any, Final, cast

from hypothesis import strategies as st

Schema = dict[str, Any]
# What a walk over the grammar has pieces for.
LETTERS: Final = [*map(chr, range(32, 127)), "\n", "é", "中"]
KEYS: Final = st.text(st.sampled_from(LETTERS), max_size=6)


def fits(value: Any, schema: Schema) -> bool:
    """Whether JSON fits a schema of the kinds below."""
    if "anyOf" in schema:
        return any(fits(value, one) for one in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    judge = _JUDGES.get(schema.get("type", ""))
    return judge is not None and judge(value, schema)


def _is_number(value: Any, _schema: Schema) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any, schema: Schema) -> bool:
    return isinstance(value, int) and _is_number(value, schema)


def _is_string(value: Any, schema: Schema) -> bool:
    bounds = schema.get("minLength", 0), schema.get("maxLength", 10**9)
    return isinstance(value, str) and bounds[0] <= len(value) <= bounds[1]


def _is_array(value: Any, schema: Schema) -> bool:
    if not isinstance(value, list):
        return False
    items = cast("list[Any]", value)
    return schema["minItems"] <= len(items) <= schema["maxItems"] and all(
        fits(item, schema["items"]) for item in items
    )


def _is_object(value: Any, schema: Schema) -> bool:
    if not isinstance(value, dict):
        return False
    own = cast("Schema", value)
    known = schema["properties"]
    if not set(schema["required"]) <= set(own) <= set(known):
        return False
    return all(fits(own[key], known[key]) for key in own)


_JUDGES: Final[dict[str, Callable[[Any, Schema], bool]]] = {
    "string": _is_string,
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda value, _: isinstance(value, bool),
    "null": lambda value, _: value is None,
    "array": _is_array,
    "object": _is_object,
}


def some(schema: Schema) -> st.SearchStrategy[Any]:
    """JSON that fits it."""
    if "anyOf" in schema:
        return st.one_of([some(one) for one in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    return _MAKERS[schema["type"]](schema)


def _string(schema: Schema) -> st.SearchStrategy[Any]:
    chars = st.characters(codec="utf-8", exclude_categories=["Cs"])
    least, most = schema.get("minLength", 0), schema.get("maxLength", 9)
    return st.text(chars, min_size=least, max_size=most)


def _array(schema: Schema) -> st.SearchStrategy[Any]:
    return st.lists(some(schema["items"]), min_size=schema["minItems"], max_size=schema["maxItems"])


def _object(schema: Schema) -> st.SearchStrategy[Any]:
    values = {key: some(one) for key, one in schema["properties"].items()}
    needed = {key: values[key] for key in schema["required"]}
    rest = {key: value for key, value in values.items() if key not in needed}

    def in_order(made: Schema) -> Schema:
        return {key: made[key] for key in values if key in made}

    return st.fixed_dictionaries(needed, optional=rest).map(in_order)


_MAKERS: Final[dict[str, Callable[[Schema], st.SearchStrategy[Any]]]] = {
    "string": _string,
    "integer": lambda _: st.integers(-(10**9), 10**9),
    "number": lambda _: st.integers(-(10**6), 10**6).map(lambda number: number / 8),
    "boolean": lambda _: st.booleans(),
    "null": lambda _: st.none(),
    "array": _array,
    "object": _object,
}


@st.composite
def _strings(draw: st.DrawFn) -> Schema:
    least = draw(st.integers(0, 3))
    return {"type": "string", "minLength": least, "maxLength": least + draw(st.integers(0, 5))}


@st.composite
def _arrays(draw: st.DrawFn, inner: st.SearchStrategy[Schema]) -> Schema:
    least = draw(st.integers(0, 2))
    most = least + draw(st.integers(0, 2))
    return {"type": "array", "items": draw(inner), "minItems": least, "maxItems": most}


@st.composite
def _objects(draw: st.DrawFn, inner: st.SearchStrategy[Schema]) -> Schema:
    properties = draw(st.dictionaries(KEYS, inner, min_size=1, max_size=4))
    required = [key for key in properties if draw(st.booleans())]
    return {"type": "object", "properties": properties, "required": required}


def _enum(values: list[Any]) -> Schema:
    return {"enum": values}


def _any_of(options: list[Schema]) -> Schema:
    return {"anyOf": options}


def _nested(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    unions = st.lists(inner, min_size=1, max_size=2).map(_any_of)
    return st.one_of(_objects(inner), _arrays(inner), unions)


_KINDS: Final[list[Schema]] = [
    {"type": kind} for kind in ("string", "integer", "number", "boolean", "null")
]
_VALUES: Final = st.lists(
    KEYS | st.integers(-9, 9) | st.none() | st.booleans(), min_size=1, max_size=3
)
_LEAVES: Final = st.one_of(_strings(), st.sampled_from(_KINDS), _VALUES.map(_enum))
SCHEMAS: Final = _objects(st.recursive(_LEAVES, _nested, max_leaves=4))
