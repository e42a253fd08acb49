"""The fields of the messages as rows of a table, read from the JSON Schema that `sluice schema`
prints. Run as a program it prints them all, for whoever writes the documents."""

import sys
from typing import Any, Final, cast

import msgspec
from sluicegate.schemas.json_schema import message_schemas

Row = tuple[str, str, str, str]
HEAD: Final = ("field", "type", "range", "default")

# Patterns in words; a pattern that isn't here would have to be shown as it is.
PATTERNS: Final = {
    "^[A-Za-z0-9][A-Za-z0-9_:-]*$": "letters, digits, `_` `:` `-`",
    "^[a-z][a-z0-9_-]*$": "`a-z` `0-9` `_` `-`",
    "^[A-Za-z_][A-Za-z0-9_-]{0,63}$": "1–64 characters, letters, digits, `_` `-`",
    "^[a-z]{2,3}$": "two or three of `a-z`",
    "^[A-Za-z_][A-Za-z0-9_.-]*$": "letters, digits, `_` `.` `-`",
    "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$": "W3C trace context",
}


def structs() -> dict[str, dict[str, Any]]:
    """The schema of each message, by its `type`, and of each struct within, by its name."""
    messages = message_schemas()
    titles = {schema["title"] for schema in messages.values()}
    found: dict[str, dict[str, Any]] = {}
    for tag, schema in messages.items():
        found[tag] = schema
        found |= {name: part for name, part in schema["$defs"].items() if name not in titles}
    return {name: schema for name, schema in found.items() if "properties" in schema}


def rows(schema: dict[str, Any]) -> list[Row]:
    """Field, type, range and default of each field, as the documents must say them."""
    required = schema.get("required", [])
    return [
        (
            f"`{name}`",
            _kind(field),
            _limits(field),
            "required" if name in required else _default(field),
        )
        for name, field in schema["properties"].items()
    ]


def _default(field: dict[str, Any]) -> str:
    return f"`{msgspec.json.encode(field.get('default')).decode()}`"


def _plain(field: dict[str, Any]) -> dict[str, Any]:
    """A field without its "or null", which its default tells."""
    choices = [each for each in field.get("anyOf", ()) if each.get("type") != "null"]
    return choices[0] if len(choices) == 1 else field


def _kind(field: dict[str, Any]) -> str:
    field = _plain(field)
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "anyOf" in field or "enum" in field:
        said = [f"`{value}`" for value in field.get("enum", ())]
        return " or ".join([*map(_kind, field.get("anyOf", ())), *said])
    if "prefixItems" in field:
        return f"pair of {_kind(field['prefixItems'][0])}"
    if "items" in field:
        return f"array of {_kind(field['items'])}"
    if isinstance(field.get("additionalProperties"), dict):
        return f"object of {_kind(field['additionalProperties'])}"
    return str(field.get("format") or field["type"])


def _limits(field: dict[str, Any]) -> str:
    field = _plain(field)
    if "prefixItems" in field:
        return _limits(field["prefixItems"][0])
    said = [
        *_bounds(field),
        *_size(field, "Length", "characters"),
        *_size(field, "Items", "items"),
        *_size(field, "Properties", "entries"),
    ]
    if pattern := field.get("pattern"):
        said.append(PATTERNS.get(pattern, f"`{pattern}`"))
    inner: Any = field.get("items") or field.get("additionalProperties")
    if isinstance(inner, dict) and (each := _limits(cast("dict[str, Any]", inner))):
        said.append(f"each {each}")
    return ", ".join(said)


def _bounds(field: dict[str, Any]) -> list[str]:
    if "minimum" in field and field["minimum"] == field.get("maximum"):
        return [_number(field["minimum"])]
    said: list[str] = []
    if "minimum" in field:
        said.append(f"≥ {_number(field['minimum'])}")
    if "exclusiveMinimum" in field:
        said.append(f"> {_number(field['exclusiveMinimum'])}")
    if "maximum" in field:
        said.append(f"≤ {_number(field['maximum'])}")
    if "exclusiveMaximum" in field:
        said.append(f"< {_number(field['exclusiveMaximum'])}")
    return said


def _size(field: dict[str, Any], of: str, what: str) -> list[str]:
    least, most = field.get(f"min{of}"), field.get(f"max{of}")
    if most is None:
        return []
    return [f"{least}–{_number(most)} {what}" if least else f"≤ {_number(most)} {what}"]


def _number(value: float) -> str:
    powers = {2**31 - 1: "2³¹−1", 2**63 - 1: "2⁶³−1"}
    return powers.get(int(value)) or f"{value:,}"


if __name__ == "__main__":
    for struct, described in structs().items():
        sys.stdout.write(f"\n{struct}\n\n| {' | '.join(HEAD)} | meaning |\n|---|---|---|---|---|\n")
        for row in rows(described):
            sys.stdout.write(f"| {' | '.join(row)} |  |\n")
