"""A call without its marks is told from an answer that has JSON in it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.worker.dialects.bare_call import is_bare_call

CALL = '{"name": "weather", "arguments": {"city": "Paris"}}'


@pytest.mark.parametrize(
    "said",
    [
        CALL,
        f"\n  {CALL}\n",
        f"```json\n{CALL}\n```",
        f"```\n{CALL}\n```\n",
        f"```json\n{CALL}",
        f"[{CALL}, {CALL}]",
        f"{CALL}\n{CALL}",
        f"{CALL}, {CALL}",
        '{"name": "weather", "parameters": {"city": "Paris"}}',
        '{"name": "weather", "arguments": "{\\"city\\": \\"Paris\\"}"}',
        '{"arguments": {}, "name": "weather", "id": "c1"}',
        f'{{"type": "function", "function": {CALL}}}',
        f'{{"tool_calls": [{{"id": "1", "type": "function", "function": {CALL}}}]}}',
        CALL[:-1],
        CALL[:-6],
        "{'name': 'weather', 'arguments': {'city': 'Paris'}}",
        f'{{"name": "weather", "arguments": {{"n": {"9" * 5_000}}}}}',
        f'{{"name": "weather", "arguments": {{"n": {"[" * 50_000}',
    ],
)
def test_a_call(said: str) -> None:
    assert is_bare_call(said)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "It rains.",
        "{",
        "{}",
        "[]",
        "[1, 2]",
        '"name"',
        '{"city": "Paris"}',
        '{"name": "Paris", "country": "France"}',
        '{"name": "weather", "arguments": 5}',
        '{"name": "weather", "description": "The weather.", "parameters": {"type": "object"}}',
        '{"name": "Ann", "parameters": "tall"}',
        '{"name": 5, "arguments": {}}',
        f"I would say {CALL}",
        f"{CALL} is what a call looks like.",
        f'{CALL} becomes {{"a": 1}}',
        f"So:\n```json\n{CALL}\n```",
        f"```json\n{CALL}\n```\nThat is a call.",
        f"[{CALL}, 5]",
        f'{{"answer": {CALL}}}',
        "{'name': 'Ann', 'age': 5}",
        "[" * 50_000,
        '{"tool_calls": ' * 900,
    ],
)
def test_an_answer(said: str) -> None:
    assert not is_bare_call(said)


NESTED = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "arguments", "function", "tool_calls", "x"]), inner, max_size=3
        )
    ),
)


@given(st.text() | NESTED.map(json.dumps))
def test_it_never_raises(text: str) -> None:
    for said in (text, f"{{{text}", f"[{text}]", f"```\n{text}\n```"):
        assert is_bare_call(said) in (True, False)


def test_calls_that_are_nested_without_end_are_looked_at_without_harm() -> None:
    deep = '{"tool_calls": [' * 400 + CALL + "]}" * 400
    assert not is_bare_call(deep)
    deep = '{"function": ' * 400 + CALL + "}" * 400
    assert not is_bare_call(deep)


@pytest.mark.parametrize("unit", ["{", "[", CALL, "\n", "```\n", '{"name":"a","arguments":', ", "])
def test_long_text_takes_no_longer_than_it_must(unit: str) -> None:
    """Quadratic steps would take hours."""
    for head in ("", "```\n", CALL):
        assert is_bare_call(head + unit * (300_000 // len(unit))) in (True, False)
