"""Structure: JSON, fences and ends; good ones let be, bad ones shown at their place."""

import json
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.guards.checks.json_text import NotJson, parse, place
from sluicegate.schemas import StructuredOutput

from .subjects import bad, flaws, judged, limits, quotes, subject

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"items": {"type": "string"}}},
    "required": ["name"],
}
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(anything, st.sampled_from([None, 2]))
def test_what_is_json_parses_and_each_place_is_found(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    assert parse(text, depth=100) == value
    assert place(text, []) == (0, len(text))
    if isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            start, end = place(text, [key])
            assert json.loads(text[start:end]) == inner


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"a": NaN}', "NaN is no word of JSON"),
        ("[1, -Infinity]", "-Infinity is no word of JSON"),
        ("", "Expecting value"),
        ('{"a": 1,}', "Illegal trailing comma"),
        ('{"a": 1} and so on', "Extra data"),
        ("\ufeff{}", "Unexpected UTF-8 BOM"),
        ("[" * 5000 + "]" * 5000, "nested deeper than 100 levels"),
        ('{"a": "' + '\\"' * 50_000, "Unterminated string"),
    ],
)
def test_what_is_no_json(text: str, what: str) -> None:
    with pytest.raises(NotJson) as raised:
        parse(text, depth=100)
    # Python words one of them in two ways, by version.
    assert raised.value.what.startswith(what) or "property name" in raised.value.what
    assert 0 <= raised.value.at <= len(text)
    assert flaws(subject(text, rules={"json": True})) == ["invalid_json"]


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', " 3 \n", '"["', "1" * 5000, "1e999", "[" * 99 + "]" * 99, "null"]
)
def test_odd_json_is_json(text: str) -> None:
    assert flaws(subject(text, rules={"json": True})) == []


def test_the_place_where_json_goes_wrong_is_shown() -> None:
    text = '{"first": "' + "x" * 100 + '", "second": tru, "third": 1}'
    (record,) = bad(subject(text, rules={"json": True}))
    assert "tru" in record.evidence[0].quote
    assert record.detail == "the text is no JSON: Expecting value at character 124"


def test_json_in_a_fence_is_json_where_the_profile_says_so() -> None:
    text = 'Here:\n```json\n{"name": 3}\n```'
    fenced = text.removeprefix("Here:\n")
    rules = {"json_schema": SCHEMA}
    assert flaws(subject(fenced, rules=rules)) == ["invalid_json"]
    allowed = limits(fenced_json=True)
    (record,) = bad(subject(fenced, rules=rules), allowed)
    assert (record.flaw, quotes(record)) == ("schema_mismatch", ["3"])
    assert fenced[slice(*record.evidence[0].chars)] == "3"
    # What is said around it is no JSON.
    assert flaws(subject(text, rules=rules), allowed) == ["invalid_json"]
    good = '{"name": "x"}'
    for around in (f"```\n{good}\n```", f"~~~json\n{good}\n~~~\n", good):
        assert flaws(subject(around, rules=rules), allowed) == []


def test_json_is_held_against_the_schema() -> None:
    text = '{"name": "a", "tags": ["x", {"y": [1]}, "z"]}'
    (record,) = bad(subject(text, rules={"json_schema": SCHEMA}))
    assert record.flaw == "schema_mismatch"
    assert quotes(record) == ['{"y": [1]}']
    assert record.detail.startswith("the JSON does not fit the schema at ['tags'][1]: ")
    assert flaws(subject('{"tags": []}', rules={"json_schema": SCHEMA})) == ["schema_mismatch"]
    structured = StructuredOutput(json_schema=SCHEMA)
    assert flaws(subject('{"name": 1}', structured=structured)) == ["schema_mismatch"]
    # A half surrogate is text to JSON, and not to UTF-8.
    assert flaws(subject('{"name": "\\ud800"}', structured=structured)) == []


def test_the_profile_may_want_json_besides_the_job() -> None:
    by = limits(rules={"json_schema": {"required": ["id"]}})
    about = subject('{"name": 1}', rules={"json_schema": SCHEMA})
    assert flaws(about, by) == ["schema_mismatch", "schema_mismatch"]
    assert flaws(subject("no JSON"), by) == ["invalid_json"]


def test_a_schema_that_is_none_is_the_check_that_failed() -> None:
    about = subject("3", rules={"json_schema": {"type": "strng"}})
    (record,) = bad(about)
    assert (record.outcome, record.flaw) == ("failed", "check_failed")
    assert "no JSON Schema" in record.detail
    assert judged(about).outcome == "failed"


@pytest.mark.parametrize(
    "text",
    [
        "```python\nx = 1\n```",
        "~~~\nx\n~~~\nand `code` and ``` in a line",
        "````markdown\n```python\nx\n```\n````",
        "```markdown\n```python\nx\n```\n```",
        "```inline``` at the start of a line",
        "- item\n  ```\n  x\n  ```\n",
        "> ```\n> x\n> ```",
        "1. ```sh\n   ls\n   ```",
        "~~~~\n```\n~~~~",
        "Heading\n~~~~~~~\n\nText.\n\nOther\n~~~~\n",
        "Text\n\n~~~~~~~~~~~~~~~~~~~\n\nText",
        "```\nx\n```   \n",
        "```js {a=b}\nx\n`````",
        "It begins with such a line:\n\n    ```python\n\nand ends with a line of three backticks.",
        "It begins with such a line:\n\n\t~~~\n\nand so on.",
        "A fence is a line with three backticks:\n\n```\n\nThat is all.",
        "A block:\n\n```\n\nx = 1\n```\n\nDone.",
        "1. Install it:\n\n    ```sh\n    ls\n    ```\n2. Run it.",
    ],
)
def test_closed_fences(text: str) -> None:
    assert flaws(subject(text)) == []


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("Here it is:\n\n```python\nx = 1\n", 13),
        ("~~~\nx\n```", 0),
        ("````\nx\n```", 0),
        ("```\na\n```\n\n```sh\nls", 11),
        ("```\nx\n```python", 0),
        ("Look:\n\n   ```python\nx = 1", 10),
        ("Look:\n\n```\n\n", 7),
        ("Look:\n\n```\n\n```\n\nand\n\n```sh\n\nls", 22),
    ],
)
def test_unclosed_fences(text: str, at: int) -> None:
    (record,) = bad(subject(text))
    assert record.flaw == "unclosed_fence"
    assert record.evidence[0].chars == (at, len(text))
    # Cut off by its limit, or going on with a block that the prompt began, it may well be open.
    assert flaws(subject(text, finish_reason="length")) == []
    assert flaws(subject(text, prompt="Go on:\n```python\n")) == []
    assert flaws(subject(text), limits(unclosed_fences=False)) == []
    assert flaws(subject(text, stop=("```",))) == []


@pytest.mark.parametrize(
    "text",
    [
        "All is said.",
        "He said: “All is said.”",
        "**Done!**",
        "全部说完了。",
        "ทุกอย่างเรียบร้อย",
        "- apples\n- pears",
        "| a | b |\n| 1 | 2 |",
        "(see above.)",
        "```\nx\n```",
        "",
        "  \n",
    ],
)
def test_an_end_that_is_one(text: str) -> None:
    about = subject(text, profile="summary", finish_reason="length", tokens=100)
    assert flaws(about) == []


def test_an_end_that_is_none() -> None:
    text = "The town was founded in 1291. Its market, which"
    about = subject(text, profile="summary", finish_reason="length", tokens=100)
    (record,) = bad(about)
    assert record.flaw == "cut_off"
    assert (record.score, record.threshold) == (100, 64)
    assert record.evidence[0].chars == (0, len(text))
    # A small limit is meant, a chat may go on, and what ended by itself is not cut off.
    assert flaws(subject(text, profile="summary", finish_reason="length", tokens=20)) == []
    assert flaws(subject(text, finish_reason="length", tokens=100)) == []
    assert flaws(subject(text, profile="summary", tokens=100)) == []


def test_a_text_that_must_be_complete_may_not_meet_its_limit() -> None:
    whole = {"complete": True}
    text = "It ends well. And then"
    (record,) = bad(subject(text, rules=whole, finish_reason="length", tokens=9))
    assert (record.flaw, record.evidence[0].chars) == ("cut_off", (0, len(text)))
    assert flaws(subject(text, rules=whole)) == []


@settings(deadline=None)
@given(st.text(alphabet="`~ \nab>-1.", max_size=60))
def test_fences_of_any_kind_are_judged(text: str) -> None:
    bad(subject(text))
    # A block that is closed behind it by every kind of fence is closed.
    assert flaws(subject("\n```x\n" + text.replace("`", "") + "\n```")) in ([], ["unclosed_fence"])
