"""What of calls and results says nothing, and what must never be taken for it."""

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.signatures import NOTHING, call_sample, fingerprint, nods
from sluicegate.guards.watchdog_noise import is_nothing, plain, waits, without_noise
from sluicegate.schemas.agents import CallSample
from sluicegate.schemas.tools import ToolCall, ToolResult, ToolSpec, ToolStatus

AT = datetime(2026, 1, 5, 9, tzinfo=UTC)
ONE = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"
OTHER = "1f2504e0-4f89-11d3-9a0c-0305e82c3302"
TELLS = "Riga: 7 degrees, wind from the north"


def sample(
    arguments: dict[str, Any], result: str = TELLS, *, noise: bool = False, **spec: Any
) -> CallSample:
    call = ToolCall(
        id="1",
        name="t",
        arguments=arguments,
        effect_id="e",
        result=ToolResult(status=ToolStatus.OK, content=result),
    )
    return call_sample(call, ToolSpec(name="t", **spec), AT, noise=noise)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"nonce": "a1"}, {"nonce": "b2"}),
        ({"request_id": 1}, {"request_id": 2}),
        ({"X-Request-ID": 1}, {"X-Request-ID": 2}),
        ({"traceId": "x"}, {"traceId": "y"}),
        ({"meta": {"nonce": 1}}, {"meta": {"nonce": 2}}),
        ({"attempt": 1}, {"attempt": 2}),
        ({"retryCount": 1}, {"retryCount": 2}),
        ({"seed": 1}, {"seed": 2}),
        ({"ts": 1_700_000_007}, {"ts": 1_700_000_012_345}),
        ({"timestamp": "2026-01-05T09:00:01Z"}, {"timestamp": "2026-01-05 09:00:02.5"}),
        ({"limit": 5}, {"limit": 10}),
        ({"top_k": 5}, {"top_k": 50}),
        ({"uuid": ONE}, {"uuid": OTHER}),
        ({"chance": "deadbeef00112233"}, {"chance": "feedbeef00112233"}),
        ({"sent": "2026-01-05T09:00:01Z"}, {"sent": "2026-01-05T09:00:02Z"}),
    ],
)
def test_noise_makes_no_other_call(one: dict[str, Any], other: dict[str, Any]) -> None:
    question = {"query": "weather in Riga"}
    first, second = sample({**question, **one}), sample({**question, **other})
    assert first.key == second.key
    assert first.words == second.words
    # As the tool came, where that is asked for.
    assert sample({**question, **one}, noise=True).key != sample(question, noise=True).key


@pytest.mark.parametrize(
    ("one", "other", "result"),
    [
        # Ids, and moments, that are asked for.
        ({"id": ONE}, {"id": OTHER}, TELLS),
        ({"id": ONE, "query": "state"}, {"id": OTHER, "query": "state"}, TELLS),
        ({"order": ONE, "query": "state"}, {"order": OTHER, "query": "state"}, TELLS),
        ({"uuid": ONE, "field": "state"}, {"uuid": OTHER, "field": "state"}, TELLS),
        ({"sha": "deadbeef00112233", "q": "a"}, {"sha": "feedbeef00112233", "q": "a"}, TELLS),
        (
            {"q": "a", "from": "2026-01-05T09:00:01Z"},
            {"q": "a", "from": "2026-01-06T09:00:01Z"},
            TELLS,
        ),
        (
            {"q": "a", "time": "2026-01-05T09:00:00Z"},
            {"q": "a", "time": "2026-01-05T10:00:00Z"},
            TELLS,
        ),
        ({"video": "a", "timestamp": "00:01:15"}, {"video": "a", "timestamp": "00:01:16"}, TELLS),
        ({"video": "a", "timestamp": 12.5}, {"video": "a", "timestamp": 13.5}, TELLS),
        # A trace by its id, a guess by its number.
        ({"trace_id": "x"}, {"trace_id": "y"}, TELLS),
        ({"attempt": 1}, {"attempt": 2}, TELLS),
        # What says nothing is no proof.
        ({"q": "a", "uuid": ONE}, {"q": "a", "uuid": OTHER}, "ok"),
        ({"model": "a", "seed": 1}, {"model": "a", "seed": 2}, "ok"),
        ({"user": "a", "limit": 1}, {"user": "a", "limit": 2}, "ok"),
        # Pages of something, and of a document.
        ({"page": 1}, {"page": 2}, TELLS),
        ({"file": "a.pdf", "page": 1}, {"file": "a.pdf", "page": 2}, "[]"),
        ({"source": "a.pdf", "page": 1}, {"source": "a.pdf", "page": 2}, "[]"),
    ],
)
def test_what_is_asked_for_is_no_noise(
    one: dict[str, Any], other: dict[str, Any], result: str
) -> None:
    assert sample(one, result).key != sample(other, result).key


def test_what_changes_the_state_is_taken_by_all_that_it_says() -> None:
    for noise in ({"limit": 1}, {"seed": 1}, {"uuid": ONE}):
        other = {name: 2 if value == 1 else OTHER for name, value in noise.items()}
        first = sample({"q": "a", **noise}, changes_state=True)
        assert first.key != sample({"q": "a", **other}, changes_state=True).key


def test_a_page_with_nothing_on_it_is_like_the_next() -> None:
    for result in ("[]", '{"items": [], "total": 40, "page": 9}', "No more items."):
        found = [sample({"page": n, "size": 5}, result) for n in (7, 8)]
        assert found[0].key == found[1].key
        assert {each.fingerprint for each in found} == {NOTHING}
    assert sample({"path": "a"}, "[]").fingerprint == fingerprint("[]")


def test_a_loop_key_has_the_last_word() -> None:
    first, second = ({"q": "a", "nonce": n} for n in (1, 2))
    assert sample(first, loop_key=("nonce",)).key != sample(second, loop_key=("nonce",)).key


@given(
    arguments=st.dictionaries(
        st.sampled_from(["q", "id", "nonce", "limit", "page", "ts", "seed", "chance", "file"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(ONE),
    ),
    acts=st.booleans(),
    telling=st.booleans(),
    nothing=st.booleans(),
)
def test_nothing_is_added_and_nothing_twice(
    arguments: dict[str, Any], acts: bool, telling: bool, nothing: bool
) -> None:
    how = {"acts": acts, "telling": telling, "nothing": nothing}
    left = without_noise(arguments, **how)
    assert left.items() <= arguments.items() or left == arguments
    assert {"id", "file"} & set(arguments) <= set(left)
    assert telling or {"seed", "chance"} & set(arguments) <= set(left)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"t": 7, "timestamp": "9:00"}', '{"t": 7, "timestamp": "9:01"}'),
        ('{"t": 7, "requestId": "x"}', '{"t": 7, "requestId": "y"}'),
        ('{"data": {"t": 7, "took": 12}}', '{"data": {"t": 7, "took": 9}}'),
        ('{"t": 7, "elapsed_ms": 1.5}', '{"t": 7, "elapsed_ms": 2}'),
        ('{"t": 7, "time": 1700000007}', '{"t": 7, "time": 1700000012}'),
        ('[{"t": 7, "trace_id": "x"}]', '[{"t": 7, "trace_id": "y"}]'),
        (f'{{"t": 7, "id": "{ONE}"}}', f'{{"t": 7, "id": "{OTHER}"}}'),
        ("09:00:01 up", "09:00:02 up"),
        ("[2026-01-05T09:00:01Z] up", "[2026-01-05 09:07:44.125+01:00] up"),
        (f"run {ONE} up", f"run {OTHER} up"),
        ("up, took 12 ms", "up, took 9 ms"),
        ("3 failed in 0.12s", "3 failed in 0.31s"),
        ("up request_id=a1 ok", "up request_id=b2 ok"),
    ],
)
def test_noise_makes_no_other_result(one: str, other: str) -> None:
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # Dates and hours of events.
        ("Standup, 2026-01-05T09:30:00Z", "Standup, 2026-01-06T09:30:00Z"),
        ("Standup on 2026-01-05", "Standup on 2026-01-06"),
        ("train at 09:30", "train at 09:31"),
        ('{"x": 1, "start": "2026-01-05T09:30:10Z"}', '{"x": 1, "start": "2026-01-05T09:30:20Z"}'),
        (
            '{"x": 1, "created_at": "2026-01-05T09:30:10Z"}',
            '{"x": 1, "created_at": "2026-01-05T09:30:20Z"}',
        ),
        ('{"x": 1, "time": "2026-01-05T09:30:00Z"}', '{"x": 1, "time": "2026-01-05T10:30:00Z"}'),
        # Rows are matter.
        ('[{"t": 1, "timestamp": 1}, {"t": 2}]', '[{"t": 1, "timestamp": 2}, {"t": 2}]'),
        (f'{{"order_id": "{ONE}", "x": 1}}', f'{{"order_id": "{OTHER}", "x": 1}}'),
        # Files, durations that are meant, and what is noise alone.
        ("timeout = 30\nretries = 2", "timeout = 60\nretries = 2"),
        ("walk in 5 minutes", "walk in 6 minutes"),
        ('{"latency_ms": 12, "x": 1}', '{"latency_ms": 13, "x": 1}'),
        ("2026-01-05T09:00:01Z", "2026-01-05T09:00:02Z"),
        (ONE, OTHER),
        (f'{{"id": "{ONE}"}}', f'{{"id": "{OTHER}"}}'),
    ],
)
def test_what_is_meant_is_another_result(one: str, other: str) -> None:
    assert fingerprint(one) != fingerprint(other)


def test_what_says_that_there_is_nothing() -> None:
    for nothing in (
        "",
        " [] ",
        "null",
        '{"rows": [], "page": 3}',
        "No more items.",
        '{"a": {"b": []}}',
    ):
        assert is_nothing(nothing)
    for something in (
        "[1]",
        '{"rows": [1]}',
        '{"total": 0}',
        "3 items",
        "[",
        "[" * 9_000,
        "x" * 200,
    ):
        assert not is_nothing(something)


def test_what_is_a_nod() -> None:
    for nod in ("", "ok", "OK.", "slept for 30 seconds", '{"status": "ok"}', "Done."):
        assert nods(fingerprint(nod))
    for more in ("7", "[]", "7 degrees", "not ok: disk full", TELLS, "#" * 100):
        assert not nods(fingerprint(more))


def test_names() -> None:
    assert plain("X-Request-ID") == plain("requestId") == plain("REQUEST_ID") == "request_id"
    assert waits("sleep")
    assert waits("wait_for_it")
    assert not waits("waiter_list")


@pytest.mark.parametrize(
    "unit", ["9", "09:00:01 ", "a-", "0123abcd-", "took ", "request_id: ", "12:"]
)
def test_large_texts_are_read_once(unit: str) -> None:
    """A pattern that went back over what it read would take hours."""
    text = unit * (1_000_000 // len(unit))
    began = time.process_time()
    fingerprint(text)
    assert time.process_time() - began < 20


def test_json_is_still_told_apart_where_it_is_deep() -> None:
    deep = json.dumps({"a": {"b": {"c": {"request_id": 1, "n": 1}}}})
    assert fingerprint(deep) != fingerprint(deep.replace('"n": 1', '"n": 2'))
    assert fingerprint(deep) == fingerprint(deep.replace('"request_id": 1', '"request_id": 2'))
