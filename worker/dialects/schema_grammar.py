"""JSON Schema as rules of a grammar in EBNF, with bounded white space.

A grammar says less than a schema: ranges of numbers, patterns and formats, and whether items are
unique, are judged when a call is made. What is narrower here: properties come in the schema's
order, and a schema that names properties has no others.
"""

import json
from typing import Any, Final, cast

from .schema_references import finite_references, target_of

# Of a value without a schema, levels of arrays and objects.
_FREE_LEVELS: Final = 4
# A greater bound is left to the judgement: counting costs the grammar's compiler time.
_LONGEST: Final = 256
# Levels of schemas in schemas; below them anything goes.
_DEEPEST: Final = 24

_SIMPLE: Final = {"number": "json_number", "boolean": '("true" | "false")', "null": '"null"'}

COMMON: Final = r"""
json_hex ::= [0-9a-fA-F]
json_escape ::= "\\" (["\\/bfnrt] | "u" ([0-9abcefABCEF] json_hex | [dD] [0-7]) json_hex json_hex)
json_char ::= [^"\\\x00-\x1f\x7f] | json_escape
json_string ::= "\"" json_char* "\""
json_digits ::= "0" | [1-9] [0-9]{0,14}
json_integer ::= "-"? json_digits
json_number ::= json_integer ("." [0-9]{1,15})? ([eE] [+-]? [0-9] [0-9]?)?
json_comma ::= "," " "?
json_colon ::= ":" " "?
json_scalar ::= json_string | json_number | "true" | "false" | "null"
""".strip()


def free_rules() -> str:
    """Rules for values without a schema: `free_object`, and `free_value`."""
    lines: list[str] = []
    for level in range(_FREE_LEVELS):
        inner = f"free_{level - 1}" if level else "json_scalar"
        lines.append(
            f"free_{level}_pair ::= json_string json_colon {inner}\n"
            f'free_{level}_object ::= "{{" (free_{level}_pair (json_comma free_{level}_pair)*)? '
            f'"}}"\n'
            f'free_{level}_array ::= "[" ({inner} (json_comma {inner})*)? "]"\n'
            f"free_{level} ::= json_scalar | free_{level}_object | free_{level}_array"
        )
    top = _FREE_LEVELS - 1
    lines.append(f"free_value ::= free_{top}\nfree_object ::= free_{top}_object")
    return "\n".join(lines)


def quoted(text: str) -> str:
    """A text as it stands in a grammar, which knows the escapes of JSON but for surrogate pairs."""
    return json.dumps(text, ensure_ascii=False)


class SchemaRules:
    """The rules for one schema: `root` names the one for the whole. Names begin with `prefix`."""

    def __init__(self, schema: dict[str, Any], prefix: str) -> None:
        self._schema = schema
        self._prefix = prefix
        self._named = 0
        self._rules: list[str] = []
        self._references: dict[str, str] = {}
        self._chain = 0
        self._finite = finite_references(schema)
        self.root: str = self._object(schema, 0) if schema else "free_object"

    @property
    def text(self) -> str:
        """All of the rules, a line each."""
        return "\n".join(self._rules)

    def _rule(self, body: str, name: str = "") -> str:
        name = name or self._name()
        self._rules.append(f"{name} ::= {body}")
        return name

    def _name(self) -> str:
        self._named += 1
        return f"{self._prefix}_{self._named}"

    def _value(self, schema: Any, level: int) -> str:
        """The name of a rule, or a body in brackets, for any schema."""
        if not isinstance(schema, dict) or level > _DEEPEST:
            return "free_value"
        own = cast("dict[str, Any]", schema)
        if isinstance(reference := own.get("$ref"), str):
            return self._referred(reference)
        values = [own["const"]] if "const" in own else own.get("enum")
        if isinstance(values, list) and values:
            return _literals(cast("list[Any]", values))
        for key in ("anyOf", "oneOf", "allOf"):
            options = own.get(key)
            if isinstance(options, list) and options:
                return self._options(cast("list[Any]", options), level, every=key == "allOf")
        kinds = own.get("type")
        some: list[Any] = cast("list[Any]", kinds) if isinstance(kinds, list) and kinds else [kinds]
        return _either([self._typed(own, kind, level) for kind in some])

    def _options(self, options: list[Any], level: int, *, every: bool) -> str:
        if every and len(options) > 1:
            return "free_value"
        return _either([self._value(option, level + 1) for option in options])

    def _typed(self, schema: dict[str, Any], kind: Any, level: int) -> str:
        if kind == "object":
            return self._object(schema, level)
        if kind == "array":
            return self._array(schema, level)
        if kind == "string":
            return _string(schema)
        if kind == "integer":
            return "json_digits" if _no_sign(schema) else "json_integer"
        return _SIMPLE.get(kind, "free_value") if isinstance(kind, str) else "free_value"

    def _referred(self, reference: str) -> str:
        if reference not in self._references:
            name = self._references[reference] = self._name()
            self._chain += 1
            told = reference in self._finite and self._chain <= _DEEPEST
            body = self._value(target_of(self._schema, reference), 0) if told else "free_value"
            self._rule(body, name)
            self._chain -= 1
        return self._references[reference]

    def _array(self, schema: dict[str, Any], level: int) -> str:
        first = schema.get("prefixItems")
        if isinstance(first, list) and first:
            items = [self._value(item, level + 1) for item in cast("list[Any]", first)]
            return f'("[" {" json_comma ".join(items)} "]")'
        item = self._rule(self._value(schema.get("items"), level + 1))
        least, most = _bounds(schema, "minItems", "maxItems")
        if most == 0:
            return '"[]"'
        times = f"{{{max(0, least - 1)},{most - 1 if most is not None else ''}}}"
        some = f"{item} (json_comma {item}){times}"
        return self._rule(f'"[" {some} "]"' if least else f'"[" ({some})? "]"')

    def _object(self, schema: dict[str, Any], level: int) -> str:
        declared = schema.get("properties")
        properties = dict(cast("dict[str, Any]", declared)) if _is_dict(declared) else {}
        asked = schema.get("required")
        names = cast("list[Any]", asked) if isinstance(asked, list) else []
        required = {str(name) for name in names}
        for name in sorted(required - properties.keys()):
            properties[name] = {}
        if not properties:
            return self._map(schema.get("additionalProperties"), level)
        pairs = [
            self._rule(
                f"{quoted(json.dumps(name, ensure_ascii=False))} json_colon "
                f"{self._value(one, level + 1)}"
            )
            for name, one in properties.items()
        ]
        # Behind a property that is there: what may follow. Before the first: where to begin.
        rest, first = '""', '""'
        for name, pair in zip(reversed(list(properties)), reversed(pairs), strict=True):
            begun = pair if rest == '""' else f"{pair} {rest}"
            optional = name not in required
            first = self._rule(f"{begun} | {first}" if optional else begun)
            follow = f"json_comma {begun}"
            rest = self._rule(f"({follow}) | {rest}" if optional else follow)
        return self._rule(f'"{{" {first} "}}"')

    def _map(self, values: Any, level: int) -> str:
        if values is False:
            return '"{}"'
        if not _is_dict(values) or not values:
            return "free_object"
        pair = self._rule(f"json_string json_colon {self._value(values, level + 1)}")
        return self._rule(f'"{{" ({pair} (json_comma {pair})*)? "}}"')


def _literals(values: list[Any]) -> str:
    return _either([quoted(json.dumps(value, ensure_ascii=False)) for value in values])


def _either(options: list[str]) -> str:
    return options[0] if len(options) == 1 else f"({' | '.join(options)})"


def _string(schema: dict[str, Any]) -> str:
    least, most = _bounds(schema, "minLength", "maxLength")
    if not least and most is None:
        return "json_string"
    times = f"{{{least},{'' if most is None else most}}}"
    return f'("\\"" json_char{times} "\\"")'


def _bounds(schema: dict[str, Any], lower: str, upper: str) -> tuple[int, int | None]:
    least, most = _count(schema.get(lower)) or 0, _count(schema.get(upper))
    return least, None if most is None else max(least, most)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value <= _LONGEST else None


def _no_sign(schema: dict[str, Any]) -> bool:
    limits = (schema.get("minimum"), schema.get("exclusiveMinimum"))
    return any(isinstance(limit, int | float) and limit >= 0 for limit in limits)


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)
