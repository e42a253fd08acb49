"""The JSON Schema of each message, for publishers in other languages."""

from typing import Any

import msgspec

from .codec import MESSAGE_TYPES, limit_of, required_fields, tag_of

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def message_schemas() -> dict[str, dict[str, Any]]:
    """A schema for each message, by its `type` on the wire."""
    return {tag_of(kind): _schema(kind) for kind in MESSAGE_TYPES}


def _schema(kind: Any) -> dict[str, Any]:
    _, components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    body = components.pop(kind.__name__)
    required = [*body.get("required", []), *required_fields(kind)]
    return {
        "$schema": DIALECT,
        "$comment": f"at most {limit_of(kind)} bytes of UTF-8 JSON",
        **body,
        "required": list(dict.fromkeys(required)),
        "$defs": components,
    }
