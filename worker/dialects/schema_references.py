"""References in a JSON Schema: what they lead to, and which of them lead to an end."""

from collections.abc import Collection, Iterator
from typing import Any, cast


def target_of(schema: dict[str, Any], reference: str) -> Any:
    """What a reference within a schema leads to (RFC 6901); None where that is nothing."""
    target: Any = schema
    for step in reference.removeprefix("#").strip("/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        target = cast("dict[str, Any]", target).get(name) if isinstance(target, dict) else None
    return target


def finite_references(schema: dict[str, Any]) -> frozenset[str]:
    """Those that some finite JSON fits: a grammar of the others could never be left. A -> B -> A is
    not, nor is an object that must have another of its own kind in it.

    The least fixed point, as for the productive symbols of a context-free grammar: at most as many
    passes as there are references, each linear in the schema.
    """
    waiting = {reference: target_of(schema, reference) for reference in _references(schema)}
    finite: set[str] = set()
    while True:
        before = len(finite)
        # What a schema refers to stands mostly behind it.
        for name, target in reversed(list(waiting.items())):
            if _ends(target, finite):
                finite.add(name)
                del waiting[name]
        if len(finite) == before:
            return frozenset(finite)


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for one in cast("list[Any]", schema):
            yield from _references(one)
    elif isinstance(schema, dict):
        own = cast("dict[str, Any]", schema)
        if isinstance(reference := own.get("$ref"), str):
            yield reference
        for one in own.values():
            yield from _references(one)


def _ends(schema: Any, finite: Collection[str]) -> bool:
    """Whether what the grammar makes of a schema has an end where these references have."""
    if not isinstance(schema, dict):
        return True
    own = cast("dict[str, Any]", schema)
    if isinstance(reference := own.get("$ref"), str):
        return reference in finite
    if "const" in own or (isinstance(own.get("enum"), list) and own["enum"]):
        return True
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(options := own.get(key), list) and options:
            some = cast("list[Any]", options)
            # Of several that must all fit the grammar says nothing.
            return (key == "allOf" and len(some) > 1) or any(_ends(one, finite) for one in some)
    kinds = own.get("type")
    every: list[Any] = cast("list[Any]", kinds) if isinstance(kinds, list) and kinds else [kinds]
    return any(_typed(own, kind, finite) for kind in every)


def _typed(schema: dict[str, Any], kind: Any, finite: Collection[str]) -> bool:
    if kind == "object":
        properties, required = schema.get("properties"), schema.get("required")
        if not isinstance(properties, dict) or not isinstance(required, list):
            return True
        own = cast("dict[str, Any]", properties)
        return all(_ends(own.get(str(name)), finite) for name in cast("list[Any]", required))
    if kind == "array":
        first = schema.get("prefixItems")
        if isinstance(first, list) and first:
            return all(_ends(item, finite) for item in cast("list[Any]", first))
        least, most = schema.get("minItems"), schema.get("maxItems")
        needed = isinstance(least, int) and least > 0 and most != 0
        return not needed or _ends(schema.get("items"), finite)
    return True
