"""Keys of calls, words of arguments, fingerprints of results."""

import json
import random
from datetime import UTC, datetime
from typing import Any, Final, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.signatures import (
    argument_words,
    call_key,
    call_sample,
    fingerprint,
    tells,
)
from sluicegate.schemas.tools import ToolCall, ToolResult, ToolSpec, ToolStatus

AT = datetime(2026, 1, 5, tzinfo=UTC)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)
objects = st.dictionaries(st.text(max_size=5), values, max_size=5)


def shuffled(value: Any, draw: random.Random) -> Any:
    """The same value with the keys of every object in another order."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        names = list(fields)
        draw.shuffle(names)
        return {name: shuffled(fields[name], draw) for name in names}
    if isinstance(value, list):
        return [shuffled(item, draw) for item in cast("list[Any]", value)]
    return value


@given(arguments=objects, draw=st.randoms(use_true_random=False))
def test_the_order_of_keys_is_nothing(arguments: dict[str, Any], draw: random.Random) -> None:
    other = shuffled(arguments, draw)
    assert call_key("t", other) == call_key("t", arguments)
    assert argument_words(other) == argument_words(arguments)
    assert fingerprint(json.dumps(other)) == fingerprint(json.dumps(arguments))


@given(one=objects, other=objects)
def test_what_differs_as_json_differs(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Keys are equal for equal values alone: Python's equality, but for true and false."""
    if call_key("t", one) == call_key("t", other):
        assert one == other or any(not text.isascii() for text in texts([one, other]))


def texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return [*fields, *(text for part in fields.values() for text in texts(part))]
    if isinstance(value, list):
        return [text for part in cast("list[Any]", value) for text in texts(part)]
    return []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"n": 1}, {"n": 1.0}),
        ({"n": -0.0}, {"n": 0}),
        ({"n": 1e3}, {"n": 1000}),
        ({"q": "Caf\u00e9"}, {"q": "Cafe\u0301"}),
        ({"Caf\u00e9": 1}, {"Cafe\u0301": 1}),
        ({"a": {"x": [1, {"y": 2}], "z": 3}}, {"a": {"z": 3.0, "x": [1.0, {"y": 2.0}]}}),
    ],
)
def test_the_same_arguments(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert call_key("t", one) == call_key("t", other)


OTHER: Final[list[tuple[dict[str, Any], dict[str, Any]]]] = [
    ({"n": 1}, {"n": True}),
    ({"n": 0}, {"n": False}),
    ({"n": 1}, {"n": "1"}),
    ({"n": None}, {}),
    ({"n": []}, {"n": {}}),
    ({"n": [["object"]]}, {"n": [{}]}),
    ({"n": ["array"]}, {"n": [[]]}),
    ({"n": 2**53}, {"n": 2**53 + 1}),
    ({"n": [1, 2]}, {"n": [2, 1]}),
    ({"q": "a"}, {"q": "A"}),
    ({"q": "a"}, {"q": "a "}),
]


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_other_arguments(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert call_key("t", one) != call_key("t", other)


def test_the_tool_is_part_of_the_key() -> None:
    assert call_key("a", {}) != call_key("b", {})


def test_a_tool_may_say_by_what_its_calls_are_the_same() -> None:
    one, other = {"url": "x", "trace": 1}, {"trace": 2, "url": "x"}
    assert call_key("t", one) != call_key("t", other)
    assert call_key("t", one, ("url",)) == call_key("t", other, ("url",))
    assert call_key("t", one, ("url",)) != call_key("t", {"url": "y"}, ("url",))
    # One that is missing is not one that is null.
    assert call_key("t", {}, ("url",)) != call_key("t", {"url": None}, ("url",))
    assert argument_words(one, ("trace",)) == ("trace=1",)


@given(arguments=objects, loop_key=st.none() | st.lists(st.text(max_size=5), max_size=3))
def test_any_arguments_are_borne(arguments: dict[str, Any], loop_key: list[str] | None) -> None:
    words = argument_words(arguments, loop_key)
    assert len(words) <= 32
    assert len(set(words)) == len(words)
    assert all(0 < len(word) <= 64 for word in words)
    assert len(call_key("t", arguments, loop_key)) == 24


def test_deep_and_large_arguments_are_borne() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"a": deep, "b": [1]}
    assert len(call_key("t", deep)) == 24
    assert len(argument_words(deep)) <= 32
    assert argument_words({str(n): f"words of {n}" for n in range(5_000)}) == ()


def test_words_of_questions_and_values_of_all_else() -> None:
    words = argument_words(
        {
            "query": "What is the weather in Riga, and in Riga's harbor?",
            "path": "src/a.py",
            "limit": 10.0,
            "deep": {"flag": True, "none": None},
            "text": "x = 1\ny = 2",
        }
    )
    assert [word for word in words if "=" not in word] == ["weather", "riga", "harbor"]
    exact = [word for word in words if "=" in word]
    assert {"path=src/a.py", "limit=10", "flag=true"} < set(exact)
    # Lines are taken as they are.
    assert len(exact) == 4
    assert argument_words({"edit": "return a - b"}) != argument_words({"edit": "return a + b"})


def test_names_and_numbers_in_a_question_are_exact() -> None:
    assert set(argument_words({"q": "top 5 hotels"})) == {"=5", "top", "hotels"}
    words = argument_words({"q": "Is C++ older than python 3.12, or a_b.py?"})
    assert words == ("=3.12", "=a_b.py", "=c++", "older", "python")
    assert argument_words({"q": "2023年汉堡的费用"})[0] == "=2023"


def test_a_single_word_is_a_name() -> None:
    assert argument_words({"city": "Riga", "mode": "full"}) == ("city=Riga", "mode=full")
    assert argument_words({"city": "上海"}) == ("city=上海",)


def test_long_texts_are_told_apart_by_all_that_they_say() -> None:
    same = "word " * 200
    one, other = argument_words({"text": f"{same}a"}), argument_words({"text": f"{same}b"})
    assert one != other
    assert all("=" in word for word in one)


@given(one=st.text(max_size=60), other=st.text(max_size=60))
def test_other_texts_have_other_fingerprints(one: str, other: str) -> None:
    if one.lstrip()[:1] not in ("{", "["):
        assert (fingerprint(one) == fingerprint(other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1, "b": [1, 2]}', ' {"b":[1,2],"a":1}\n'),
        ('{"a": "\\u00e9"}', '{"a": "é"}'),
    ],
)
def test_json_in_another_form_is_the_same(one: str, other: str) -> None:
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 18446744073709551617}', '{"a": 18446744073709551618}'),
        ('{"a": 0.12345678901234567891}', '{"a": 0.12345678901234567892}'),
        ('{"a": 1, "a": 2}', '{"a": 2, "a": 2}'),
        ('{"a": 1e400}', '{"a": 2e400}'),
        ('{"a": 1}', '{"a": true}'),
        ('{"a": 1}', '{"a": "1"}'),
        ('{"a": 1', '{"a": 2'),
        ("[1, 2]", "[2, 1]"),
        ("[" * 50_000, "[" * 50_001),
        (f"[{'1' * 5000}]", f"[{'1' * 5001}]"),
        ("2026-01-05T09:00:00Z", "2026-01-05T09:00:01Z"),
        ("\ud800", "\ud801"),
        ("", " "),
    ],
)
def test_other_contents_are_other(one: str, other: str) -> None:
    assert fingerprint(one) != fingerprint(other)


def test_volatile_fields_go_at_any_depth() -> None:
    def result(moment: str, value: int) -> str:
        rows = [{"value": value, "at": moment, "more": {"request_id": moment}}]
        return json.dumps({"rows": rows, "at": {"any": [moment]}})

    volatile = ("at", "request_id")
    assert fingerprint(result("9:00", 1), volatile) == fingerprint(result("9:01", 1), volatile)
    assert fingerprint(result("9:00", 1), volatile) != fingerprint(result("9:00", 2), volatile)
    assert fingerprint(result("9:00", 1)) != fingerprint(result("9:01", 1))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("state: up\nrequest_id: 7f", "state: up\nrequest_id: 80", True),
        ("state=up request_id=7f", "state=down request_id=7f", False),
        ("[2026-01-05T09:00:01Z] up", "[2026-01-05 09:07:44.125+01:00] up", True),
        ("09:00:01 up, took 12 ms", "09:00:02 up, took 0.5 s", True),
        (
            "run 3f2504e0-4f89-11d3-9a0c-0305e82c3301 up",
            "run 1f2504e0-4f89-11d3-9a0c-0305e82c3302 up",
            True,
        ),
        ("09:00:01 up", "09:00:01 down", False),
        ("due 2026-01-05", "due 2026-01-06", False),
    ],
)
def test_volatile_text(one: str, other: str, same: bool) -> None:
    volatile = ("request_id",)
    assert (fingerprint(one, volatile) == fingerprint(other, volatile)) is same


@pytest.mark.parametrize("volatile", [(), ("at",)])
def test_large_results_are_taken_whole(volatile: tuple[str, ...]) -> None:
    rows = [{"n": n, "at": n} for n in range(100_000)]
    one = json.dumps(rows)
    rows[-1]["n"] = 0
    assert fingerprint(one, volatile) != fingerprint(json.dumps(rows), volatile)
    assert fingerprint("a" * 10_000_000, volatile) != fingerprint("a" * 9_999_999, volatile)


def test_a_result_that_tells_something() -> None:
    for nothing in (
        "",
        "ok",
        "[]",
        '{"status": "ok"}',
        "No documents match your query",
        '{"total": 0, "hits": [], "message": "nothing was found for these words"}',
        "Für diese Suche gibt es keine Treffer im Archiv",
        "ничего не найдено по этому запросу",
        "没有找到相关文档,请换一个关键词",
        "該当する文書は見つかりませんでした",
    ):
        assert not tells(fingerprint(nothing))
    for something in (
        "something " * 50,
        "Riga: 7 degrees, wind from the north",
        '{"hits": [{"title": "Harbor fees", "year": 2023}]}',
        "汉堡港口集装箱费用为每箱三百欧元",
    ):
        assert tells(fingerprint(something))
        assert len(fingerprint(something)) <= 64


def made(result: ToolResult | None = None) -> ToolCall:
    return ToolCall(id="1", name="t", arguments={"q": "two words"}, effect_id="e", result=result)


def test_a_call_as_the_watchdog_sees_it() -> None:
    spec = ToolSpec(name="t", polls=True, changes_state=True, loop_key=(), volatile=("at",))
    result = ToolResult(status=ToolStatus.OK, content='{"at": 1, "b": 2}')
    sample = call_sample(made(result), spec, AT)
    assert (sample.tool, sample.status, sample.at) == ("t", ToolStatus.OK, AT)
    assert (sample.polls, sample.changes_state, sample.words) == (True, True, ())
    assert sample.key == call_key("t", {})
    assert sample.fingerprint == fingerprint('{"b": 2}')


def test_a_fingerprint_of_the_whole_result_is_kept() -> None:
    result = ToolResult(status=ToolStatus.OK, content="cut", fingerprint="of all")
    assert call_sample(made(result), None, AT).fingerprint == "of all"


def test_a_call_of_no_tool_and_an_open_one() -> None:
    result = ToolResult(status=ToolStatus.UNKNOWN_TOOL, content="no such tool")
    sample = call_sample(made(result), None, AT)
    assert (sample.status, sample.polls) == (ToolStatus.UNKNOWN_TOOL, False)
    assert sample.words == ("two", "words")
    assert call_sample(made(), None, AT).status is ToolStatus.NOT_RUN
