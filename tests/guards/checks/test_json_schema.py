"""Schemas made to hurt: nothing is fetched, nothing hangs, nothing takes the process down."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from sluicegate.guards.checks.json_schema import fits, is_cheap, schema_problem
from sluicegate.guards.checks.schema_core import BadSchema

TREE = {
    "$defs": {
        "node": {
            "properties": {"next": {"$ref": "#/$defs/node"}, "value": {"type": "integer"}},
            "required": ["value"],
        }
    },
    "$ref": "#/$defs/node",
}


def doubling(steps: int) -> dict[str, Any]:
    defs: dict[str, Any] = {
        f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"$ref": f"#/$defs/d{i + 1}"}]}
        for i in range(steps)
    }
    defs[f"d{steps}"] = {"type": "string"}
    return {"$defs": defs, "$ref": "#/$defs/d0"}


def test_nothing_is_fetched() -> None:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/schema.json"
    try:
        for schema in (
            {"$ref": url},
            {"properties": {"a": {"$ref": f"{url}#/x"}}},
            {"$dynamicRef": url},
        ):
            problem = schema_problem(schema)
            assert problem is not None
            assert "is not present in a registry" in problem
        # An unknown dialect is read as the latest one.
        assert fits({"$schema": url, "type": "string"}, "x", seconds=5) is None
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert asked == []
    problem = schema_problem({"$ref": "file:///etc/hostname"})
    assert problem is not None
    assert "nothing is fetched" in problem


def test_references_that_double_are_ended() -> None:
    assert fits(doubling(8), "x", seconds=5) is None
    assert not is_cheap(doubling(60))
    with pytest.raises(BadSchema, match=r"takes longer than 0\.3 s"):
        fits(doubling(60), "x", seconds=0.3)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", "(x+x+)+y", "(.*,){11}P"])
def test_catastrophic_patterns_take_no_time(pattern: str) -> None:
    assert fits({"pattern": pattern}, "a" * 5_000 + "!", seconds=5) is not None


def test_a_pattern_that_must_go_back_is_cut_off() -> None:
    with pytest.raises(BadSchema, match="a pattern in the schema takes too long"):
        fits({"pattern": "^(a|aa)+(?=b)b$"}, "a" * 60 + "c", seconds=20)


def test_patterns_too_large_are_refused() -> None:
    problem = schema_problem({"pattern": "((a{1000}){1000}){1000}"})
    assert problem is not None
    assert "regex" in problem


def test_schemas_that_call_themselves() -> None:
    assert fits(TREE, {"value": 1, "next": {"value": 2}}, seconds=20) is None
    found = fits(TREE, {"value": 1, "next": {"value": 2, "next": {}}}, seconds=20)
    assert found is not None
    assert found[1] == ["next", "next"]
    assert schema_problem({"$ref": "#"}) is None


def test_a_large_value_is_judged_apart() -> None:
    """Cheap or not: what is found is the same."""
    schema = {"items": {"type": "string"}}
    value: list[Any] = ["x"] * 3000
    assert is_cheap(schema)
    assert not is_cheap(schema, 10**7)
    assert fits(schema, value, seconds=20, parts=10**7) is None
    assert fits(schema, [*value, 3], seconds=20, parts=10**7) == (
        '3 is not of type "string"',
        [3000],
    )


@pytest.mark.parametrize(
    ("schema", "cheap"),
    [
        ({"type": "string", "pattern": "^[a-z]+$"}, True),
        ({"pattern": "^(?!no)"}, False),
        ({"pattern": "(a{1000}){1000}"}, False),
        ({"patternProperties": {"^x": {}}}, True),
        ({"patternProperties": {"(?=x)": {}}}, False),
        ({"properties": {"pattern": {"type": "string"}, "$ref": {}}}, True),
        ({"$defs": {"a": {}}, "properties": {"x": {"$ref": "#/$defs/a"}}}, True),
        ({"properties": {"definitions": doubling(40)}}, False),
        ({"$ref": "#/$defs/missing"}, False),
        ({"items": {"$id": "http://x/y", "$ref": "#/a"}}, False),
        ({"enum": list(range(20_000))}, True),
    ],
)
def test_what_is_cheap(schema: dict[str, Any], *, cheap: bool) -> None:
    assert is_cheap(schema) is cheap


def test_a_word_for_a_person() -> None:
    assert schema_problem({"type": "object"}) is None
    assert "no JSON Schema" in (schema_problem({"type": "strng"}) or "")
    assert "no JSON Schema" in (schema_problem({"pattern": "("}) or "")
    found = fits({"type": "string"}, list(range(10_000)), seconds=5)
    assert found is not None
    assert len(found[0]) < 400
    assert found[0].endswith('is not of type "string"')
