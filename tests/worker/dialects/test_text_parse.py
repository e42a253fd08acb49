"""Plain text is split strictly: a call, an answer, or a failure, and never two of them."""

import json
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sluicegate.schemas import FinishReason, ToolCall
from sluicegate.schemas.limits import MAX_DETAIL, MAX_QUOTE_CHARS, MAX_TOOL_CALLS
from sluicegate.worker.dialects.dialect import Parsed
from sluicegate.worker.dialects.text_parse import answer_of, parse

CALL = 'Thought: I look.\nAction: search\nAction Input: {"q": "x"}'
ENDS: list[FinishReason | None] = ["stop", "length", "abort", "repetition", None]
PIECES = (
    "Thought:",
    "Action:",
    "action input:",
    "Action Input:",
    "Final Answer:",
    "Observation:",
    "Observation (a):",
    "**",
    "**Final Answer:**",
    "`",
    " a",
    '{"a": 1}',
    "{",
    "}",
    '"',
    "[",
    "```json",
    "```",
    "\n",
    " ",
    "\r",
    "\x00",
    "\ud800",
    "é",
)


def calls(text: str, finish_reason: FinishReason = "stop") -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.arguments) for call in parse(text, finish_reason).calls]


def kind(text: str, finish_reason: FinishReason = "stop") -> str | None:
    found = parse(text, finish_reason)
    assert found.answer is None
    assert found.calls == ()
    return found.failure.kind if found.failure else None


def outcomes(found: Parsed) -> int:
    return sum((bool(found.calls), found.answer is not None, found.failure is not None))


def test_a_call_and_its_thought() -> None:
    assert calls(CALL) == [("search", {"q": "x"})]
    assert parse(CALL, "stop").prose == "I look."


def test_several_calls_at_once() -> None:
    text = f'{CALL}\nAction: read\nAction Input: {{"p": [1, 2]}}\nThought: now I wait'
    assert calls(text) == [("search", {"q": "x"}), ("read", {"p": [1, 2]})]
    assert parse(text, "stop").prose == "I look.\nnow I wait"


@pytest.mark.parametrize(
    "said",
    [
        'ACTION: search\nACTION INPUT: {"q": "x"}',
        '  action :  search  \n\n action  input : \n {"q": "x"} \n',
        'Action: search\r\nAction Input: {"q": "x"}\r\n',
        'Action: search\nAction Input:\n```json\n{"q": "x"}\n```',
        'Action: search\nAction Input: ```\n{\n  "q": "x"\n}\n```\n',
        'Action: search\nAction Input: {\n  "q":\n  "x"\n}',
    ],
)
def test_what_is_forgiven(said: str) -> None:
    assert calls(said) == [("search", {"q": "x"})]


def test_a_final_answer_has_many_lines() -> None:
    found = parse("Thought: done\nFinal Answer: a\n\nActions: two\n  b ", "stop")
    assert (found.answer, found.prose) == ("a\n\nActions: two\n  b", "done")


@pytest.mark.parametrize(
    "said",
    [
        "Final Answer: First stop",
        "Thought: so\nFinal Answer: First stop",
        "**Final Answer:** First stop",
        "Final Answer:",
        "Final Answer: a sentence that looks whole.",
    ],
)
@pytest.mark.parametrize("cut", ["length", "abort", "repetition"])
def test_an_answer_that_was_cut_off_is_none(said: str, cut: FinishReason) -> None:
    assert kind(said, cut) == "truncated"


@given(st.text(), st.sampled_from(["length", "abort", "repetition"]))
@example("Final Answer: a", "length")
def test_no_text_that_was_cut_off_is_an_answer(text: str, cut: FinishReason) -> None:
    for said in (text, f"Final Answer: {text}", f"{CALL}\n{text}"):
        assert parse(said, cut).answer is None


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("**Final Answer:** 42", "42"),
        ("**Final Answer**: 42", "42"),
        ("**Final answer: ** 42", "42"),
        ("** final  answer ** : 42", "42"),
        ("**Final Answer: 42**", "42"),
        ("**Final Answer: 42**\n\nFor it is so.", "**42**\n\nFor it is so."),
        ("**Final Answer: 42", "42"),
        ("**Final Answer:** **42**", "**42**"),
        ("Final Answer: **42**", "**42**"),
        ("**Thought:** so\n**Final Answer:** a\n\n**b** c", "a\n\n**b** c"),
        ("Final Answer: a\n**Actions**: none", "a\n**Actions**: none"),
    ],
)
def test_an_answer_with_its_label_in_bold(said: str, answer: str) -> None:
    found = parse(said, "stop")
    assert (found.answer, found.failure) == (answer, None)
    assert found.prose in ("", "so")
    assert answer_of(said) == answer


@pytest.mark.parametrize(
    "said",
    [
        '**Action:** search\n**Action Input:** {"q": "x**y"}',
        '**Action**: search\n**Action Input**:\n```json\n{"q": "x**y"}\n```',
        '**Action: search**\nAction Input: {"q": "x**y"}',
        'Action: `search`\nAction Input: {"q": "x**y"}',
        'Action: "search"\nAction Input: {"q": "x**y"}',
        'Action: \'search\'\nAction Input: {"q": "x**y"}',
        'Action: \u201csearch\u201d\nAction Input: {"q": "x**y"}',
        'Action: **search**\nAction Input: {"q": "x**y"}',
        '**Action:** **`search`**\n**Action Input:** {"q": "x**y"}\n**Observation:**',
    ],
)
def test_a_name_and_labels_as_models_adorn_them(said: str) -> None:
    assert calls(said) == [("search", {"q": "x**y"})]


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("`search", "`search"),
        ("'a' or 'b'", "'a' or 'b'"),
        ("search()", "search()"),
        ("```search```", "```search```"),
        ("`'\"search\"'`", '"search"'),
        ("'", "'"),
    ],
)
def test_no_other_name_is_guessed(name: str, read: str) -> None:
    assert [call for call, _ in calls(f"Action: {name}\nAction Input: {{}}")] == [read]


@pytest.mark.parametrize(
    "said",
    [
        "**Observation:** it is 5",
        "**Observation (search):** it is 5",
        "**Observation**: it is 5",
    ],
)
def test_what_is_made_up_in_bold_is_not_believed_either(said: str) -> None:
    assert kind(f"{CALL}\n{said}\nFinal Answer: 5") == "mixed"
    assert kind(f"Final Answer: 5\n{said}") == "mixed"


@pytest.mark.parametrize(
    "said",
    [
        "Action: search",
        "Action: search\nAction Input:",
        'Action: search\nAction Input: {"q": ',
        'Action: search\nAction Input: {"q": "x',
        'Action: search\nAction Input: ```json\n{"q": "x"}',
        f"{CALL}\nAct",
        f"{CALL}\nAction: rea",
        "Thought: I had better",
        "",
    ],
)
@pytest.mark.parametrize("cut", ["length", "abort", "repetition"])
def test_what_was_cut_off_is_no_call(said: str, cut: FinishReason) -> None:
    assert kind(said, cut) == "truncated"


def test_calls_that_were_whole_before_the_cut_stand() -> None:
    assert calls(CALL, "length") == [("search", {"q": "x"})]


@pytest.mark.parametrize(
    "input_",
    [
        "",
        "x",
        "[1]",
        '"q"',
        "null",
        "{'q': 'x'}",
        "{q: 1}",
        '{"q": 1,}',
        '{"q": 1} and more',
        '{"q": 1}\n{"q": 2}',
        'first {"q": 1}',
        '{"q": 1, "q": 2}',
        '{"a": {"q": 1, "q": 2}}',
        '{"q": NaN}',
        '{"q": -Infinity}',
        '{"q": 1e999}',
        '{"q": "\ud800"}',
        '{"q": "\\ud800"}',
        '{"q": "a\nb"}',
        f'{{"q": {"9" * 5000}}}',
        f'{{"q": {2**80}}}',
        f'{{"q": {"[" * 40}{"]" * 40}}}',
        f'{{"q": {"[" * 100_000}',
        f'{{"q": "{"x" * 70_000}"}}',
        '```json\n{"q": 1}',
        '```json\n{"q": 1}\n``` so',
        "\uff5b\u201cq\u201d: 1\uff5d",
        '{\u201cq\u201d: "x"}',
        '{"q"\uff1a "x"}',
    ],
)
def test_an_input_that_can_not_be_read(input_: str) -> None:
    assert kind(f"Action: search\nAction Input: {input_}") == "malformed"
    assert kind(f"{CALL}\nAction: search\nAction Input: {input_}") == "malformed", (
        "nor the good one"
    )


@pytest.mark.parametrize(
    "said",
    [
        "Action: search\nThought: hm",
        "Action: search\nAction: read\nAction Input: {}",
        'Action Input: {"q": 1}',
        "Action:\nAction Input: {}",
        "Action: ''\nAction Input: {}",
        "Action: ` `\nAction Input: {}",
        f"Action: {'x' * 65}\nAction Input: {{}}",
        "Action: a\nb\nAction Input: {}",
        "Action: search\nFinal Answer: 5",
        "**Action:** search",
        '**Action Input: {"q": "**"}',
        "Action: a\nAction Input: {}\n" * (MAX_TOOL_CALLS + 1),
    ],
)
def test_a_call_that_is_none(said: str) -> None:
    assert kind(said) == "malformed"


@pytest.mark.parametrize(
    "said",
    [
        "",
        " \n ",
        "It is 42.",
        "Thought: It is 42.",
        "Final Answer:",
        "**42**",
        "### Final Answer: 42",
        "- **Final Answer:** 42",
        "*Final Answer:* 42",
        "**The Final Answer:** 42",
        "I take Action: search",
        "\u0410ction: search\nAction\u00a0Input: {}",  # a Cyrillic letter; a no-break space
        "Act\u0131on: search",
    ],
)
def test_neither(said: str) -> None:
    assert kind(said) == "nothing"


@pytest.mark.parametrize(
    "said",
    [
        f"{CALL}\nFinal Answer: 5",
        f"{CALL}\nFinal Answer:",
        f"Final Answer: 5\n{CALL}",
        "Final Answer: 5\nFinal Answer: 6",
        "Final Answer: 5\nThought: or 6?",
        f"{CALL}\nObservation: it is 5\nFinal Answer: 5",
        f"{CALL}\nObservation (search): it is 5",
        f"{CALL}\nobservation(search) : it is 5\n{CALL}",
        "Observation: it is 5\nFinal Answer: 5",
        "Final Answer: 5\nObservation: it is 5",
    ],
)
def test_two_things_at_once(said: str) -> None:
    assert kind(said) == "mixed"


def test_the_bare_label_of_an_observation_is_where_the_model_stopped() -> None:
    assert calls(f"{CALL}\nObservation: \n") == [("search", {"q": "x"})]


def test_labels_inside_of_arguments_are_text() -> None:
    text = 'Action: write\nAction Input: {"text": "a\\nFinal Answer: b\\nObservation: c"}'
    assert calls(text) == [("write", {"text": "a\nFinal Answer: b\nObservation: c"})]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join), st.sampled_from(ENDS))
@example('Action: a\nAction Input: {"\ud800": 1}', "stop")
def test_it_never_raises_and_says_one_thing(text: str, finish_reason: FinishReason | None) -> None:
    found = parse(text, finish_reason)
    assert outcomes(found) == 1
    if found.failure is not None:
        assert len(found.failure.detail) <= MAX_DETAIL
        assert len(found.failure.quote) <= MAX_QUOTE_CHARS
        found.failure.quote.encode()
    for call in found.calls:
        ToolCall(id="1", name=call.name, arguments=call.arguments, effect_id="e")
    answer_of(text)


@given(st.text(), st.sampled_from(ENDS))
def test_nor_for_other_text(text: str, finish_reason: FinishReason | None) -> None:
    assert outcomes(parse(text, finish_reason)) == 1


@pytest.mark.parametrize(
    "unit",
    [
        "Action: ",
        "Action:\n",
        "**",
        "**Action:",
        "**Action:**\n",
        "** ",
        "`",
        "observation ",
        "\n",
        " ",
        "Action Input: {",
        "observation(",
        "final ",
        "```\n",
        "{",
    ],
)
def test_time_is_linear_in_the_text(unit: str) -> None:
    """A hundred thousand characters are read in well below the 300 s that a test may take; what is
    quadratic would have some 10^10 steps."""
    count = 100_000 // len(unit)
    began = time.process_time()
    assert outcomes(parse(unit * count, "stop")) == 1
    assert outcomes(parse(f"Action: a\nAction Input: {unit * count}", "stop")) == 1
    assert time.process_time() - began < 60


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), max_size=8),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
            ),
            max_leaves=8,
        ),
        max_size=4,
    )
)
def test_whatever_is_json_comes_back(arguments: dict[str, Any]) -> None:
    for indent in (None, 2):
        text = f"Action: a\nAction Input: {json.dumps(arguments, indent=indent)}"
        assert calls(text) == [("a", arguments)]


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("It is 42.", "It is 42."),
        ("Thought: so\nFinal Answer: It is 42.", "It is 42."),
        ("Thought: It is 42.", "It is 42."),
        (f"{CALL}\nFinal Answer: It is 42.\nThought: or not", "It is 42."),
        (f"Well.\n{CALL}", "Well.\n\nI look."),
        ("Action: search", ""),
    ],
)
def test_the_words_of_a_final_answer(said: str, answer: str) -> None:
    assert answer_of(said) == answer
