"""The JSON Schema of each message, for publishers in other languages.

A schema can't say all that decoding checks: the size of the body, the depth of nesting, that a
prompt is not blank, and that `min_tokens` is at most `max_tokens`.
"""

from typing import Any, Final

import msgspec

from .codec import MESSAGE_TYPES, limit_of, required_fields, tag_of
from .version import SCHEMA_VERSION

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

# Of these fields exactly one is set, where "set" is to be there and not null.
_ONE_OF: Final[dict[str, tuple[str, ...]]] = {
    "GenerationJob": ("prompt", "messages", "prompt_token_ids"),
    "StructuredOutput": ("json_schema", "regex", "choice", "grammar", "structural_tag"),
}


def message_schemas() -> dict[str, dict[str, Any]]:
    """A schema for each message, by its `type` on the wire."""
    return {tag_of(kind): _schema(kind) for kind in MESSAGE_TYPES}


def _schema(kind: Any) -> dict[str, Any]:
    _, components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    for name, component in components.items():
        if name in _ONE_OF:
            component["oneOf"] = [_is_set(field) for field in _ONE_OF[name]]
        version = component.get("properties", {}).get("schema_version")
        if version is not None:
            version["maximum"] = SCHEMA_VERSION
    body = components.pop(kind.__name__)
    required = [*body.get("required", []), *required_fields(kind)]
    return {
        "$schema": DIALECT,
        "$comment": f"at most {limit_of(kind)} bytes of UTF-8 JSON",
        **_in_ecma(body),
        "required": list(dict.fromkeys(required)),
        "$defs": _in_ecma(components),
    }


def _is_set(field: str) -> dict[str, Any]:
    return {"required": [field], "properties": {field: {"not": {"type": "null"}}}}


def _in_ecma(schema: dict[str, Any]) -> dict[str, Any]:
    r"""The schema with its patterns in the dialect that JSON Schema asks for: `$`, not `\Z`.

    In the text of a schema only a pattern ends so.
    """
    text = msgspec.json.encode(schema).replace(rb'\\Z"', b'$"')
    return msgspec.json.decode(text, type=dict[str, Any])
