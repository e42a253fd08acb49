"""The grammar and the parser are of one mind: what the one lets through, the other reads."""

import json
import random
from functools import cache
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sluicegate.schemas import StructuredOutput, ToolSpec
from sluicegate.schemas.limits import MAX_SCHEMA_BYTES
from sluicegate.worker.dialects.grammar import text_grammar
from sluicegate.worker.dialects.text import TextDialect
from sluicegate.worker.dialects.text_parse import parse
from sluicegate.worker.dialects.tokens import ByteTokens

from .tool_schemas import SCHEMAS, fits, some

# xgrammar imports torch, which warns of many things that are not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")

END: Final = 0
# The end, ASCII, and pieces that make a walk come to the point.
WORDS: Final = [
    "</s>",
    *map(chr, range(9, 127)),
    "Action: ",
    "Action Input: ",
    "Final Answer: ",
    "Thought: ",
    "Observation: ",
    "final",
    " answer",
    "observation",
    '"}',
    '": ',
    '", "',
    "}\n",
    "\n\n",
    "é",
    "中",
    "中。",
    "\\u00e9",
    "\\ud800",
]
SLOW: Final = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])

WEATHER: Final = ToolSpec(
    name="weather",
    parameters={
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 40},
            "days": {"type": "integer", "minimum": 1},
            "units": {"enum": ["c", "f"]},
        },
        "required": ["city"],
        "additionalProperties": False,
    },
)
ANY: Final = ToolSpec(name="any_thing")
SEARCH: Final = ToolSpec(
    name="search",
    parameters={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
)


@cache
def compiler() -> Any:
    import xgrammar

    info = xgrammar.TokenizerInfo(
        list(WORDS), vocab_size=len(WORDS), stop_token_ids=[END], add_prefix_space=False
    )
    return xgrammar.GrammarCompiler(info, max_threads=1)


def matcher(grammar: str, **options: Any) -> Any:
    import xgrammar

    return xgrammar.GrammarMatcher(compiler().compile_grammar(grammar), **options)


def accepts(grammar: str, text: str) -> bool:
    """The text as a whole."""
    found = matcher(grammar, terminate_without_stop_token=True)
    return bool(found.accept_string(text) and found.is_completed())


def walk(grammar: str, seed: int) -> str:
    """A text that the grammar allows, by the way it is used: token by token."""
    import xgrammar

    found = matcher(grammar)
    mask = xgrammar.allocate_token_bitmask(1, len(WORDS))
    chance = random.Random(seed)
    said: list[str] = []
    while not found.is_terminated():
        found.fill_next_token_bitmask(mask)
        words = [int(word) & 0xFFFFFFFF for word in mask[0]]
        allowed = [i for i in range(len(WORDS)) if words[i // 32] >> (i % 32) & 1]
        assert allowed, ("nothing may come", said)
        # Strings and answers would go on for long.
        ends = [i for i in allowed if WORDS[i] in ('"', "}", "]", "</s>", "\n")]
        token = chance.choice(ends if ends and chance.random() < 0.4 + len(said) / 400 else allowed)
        assert found.accept_token(token)
        if token != END:
            said.append(WORDS[token])
    return "".join(said)


@SLOW
@given(SCHEMAS, st.integers(0, 10**6), st.sampled_from([True, False]))
def test_what_the_grammar_lets_through_is_read(
    schema: dict[str, Any], seed: int, may_answer: bool
) -> None:
    tools = [ToolSpec(name="one", parameters=schema), WEATHER]
    text = walk(text_grammar(tools, may_answer=may_answer), seed)
    found = parse(text, "stop")
    assert found.failure is None, text
    assert may_answer or found.answer is None, text
    for call in found.calls:
        (tool,) = (tool for tool in tools if tool.name == call.name)
        assert fits(call.arguments, tool.parameters), text


@SLOW
@given(st.data(), SCHEMAS)
def test_what_fits_the_schema_may_be_said(data: st.DataObject, schema: dict[str, Any]) -> None:
    arguments = data.draw(some(schema))
    for separators in ((", ", ": "), (",", ":")):
        said = json.dumps(arguments, ensure_ascii=False, separators=separators)
        said = said.replace("\x7f", "\\u007f")
        text = f"Thought: so\nAction: one\nAction Input: {said}"
        assert accepts(text_grammar([ToolSpec(name="one", parameters=schema)]), text), text


@SLOW
@given(
    st.text(st.sampled_from("aAcCtTiIoOnN pPuUfFlL:\n(\t.sSeErRvVwW*"), max_size=40)
    | st.lists(
        st.sampled_from(["\n", "**", " ", "*", "a", ":", "Thought", "action input", "Action"]),
        max_size=9,
    ).map("".join)
)
def test_an_answer_is_held_to_what_is_read_as_one(words: str) -> None:
    text = f"Final Answer: {words}"
    found = parse(text, "stop")
    may = accepts(text_grammar([]), text)
    if may:
        assert found.answer == words.strip(), "an answer and nothing else"
    else:
        blank = words != words.strip() or "\n\n\n" in words or not words
        blank = blank or any(not line.strip() for line in words.split("\n") if line)
        odd = any(
            line.lower().lstrip(" \t*").startswith("observation") for line in words.split("\n")
        )
        assert found.answer is None or blank or odd


def texts(name: str) -> list[str]:
    arguments = {"weather": '{"city": "Paris"}', "search": '{"q": "x"}', "any_thing": '{"a": [1]}'}
    return [f"Action: {name}\nAction Input: {arguments[name]}"]


@pytest.mark.parametrize(
    "tools", [[WEATHER], [WEATHER, ANY], [SEARCH, ANY], [WEATHER, SEARCH, ANY]]
)
@pytest.mark.parametrize("may_answer", [True, False])
def test_only_the_tools_that_are_given(tools: list[ToolSpec], may_answer: bool) -> None:
    grammar = text_grammar(tools, may_answer=may_answer)
    names = [tool.name for tool in tools]
    for name in ("weather", "search", "any_thing"):
        for text in texts(name):
            assert accepts(grammar, text) == (name in names)
            assert accepts(grammar, f"Thought: well, well\n{text}") == (name in names)
    assert accepts(grammar, "Final Answer: 42") == may_answer
    both = "\n".join(text for name in names for text in texts(name))
    assert accepts(grammar, both)
    assert [call.name for call in parse(both, "stop").calls] == names


@pytest.mark.parametrize("may_answer", [True, False])
def test_no_tool_left_is_the_final_answer(may_answer: bool) -> None:
    grammar = text_grammar([], may_answer=may_answer)
    assert accepts(grammar, "Thought: done\nFinal Answer: a\n\nb")
    assert not any(accepts(grammar, texts(name)[0]) for name in ("weather", "search"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Well.",
        "Action: weather",
        'Action: weather\nAction Input: {"days": 3}',
        'Action: weather\nAction Input: {"city": "P", "more": 1}',
        'Action: weather\nAction Input: {"city": 5}',
        f'Action: weather\nAction Input: {{"city": "{"x" * 41}"}}',
        'Action: weather\nAction Input: {"city": "P", "days": -3}',
        'Action: weather\nAction Input: {"city": "P", "units": "k"}',
        'Action: weather\nAction Input: {"city":  "P"}',
        'Action: weather\nAction Input: {"city": "P"}\n',
        'Action: weather\nAction Input: {\n"city": "P"}',
        'Action: weather\nAction Input: {"city": "\\ud800"}',
        'Action: weather\nAction Input: {"city": "P"}\nObservation: rain',
        'Action: weather\nAction Input: {"city": "P"}\nFinal Answer: rain',
        "Final Answer: ",
        "Final Answer: a\n\n\nb",
        "Final Answer: a\nObservation: b",
        "Final Answer: a\n**Observation:** b",
        "Final Answer: a\n ** action ** : b",
        f"Thought: {'word ' * 101}\nFinal Answer: a",
    ],
)
def test_what_may_not_be_said(text: str) -> None:
    assert not accepts(text_grammar([WEATHER]), text)


def test_a_schema_of_msgspec_with_references() -> None:
    node = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}], "default": None},
        },
        "required": ["name"],
    }
    odd = '😀\u2028\x7f\n\\"'
    schema = {
        "type": "object",
        "properties": {
            "head": {"$ref": "#/$defs/Node"},
            "pair": {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "items": False,
                "minItems": 2,
                "maxItems": 2,
            },
            "tags": {"type": "object", "additionalProperties": {"type": "integer"}},
            "free": {},
            "odd": {"const": odd},
        },
        "required": ["head"],
        "$defs": {"Node": node},
    }
    grammar = text_grammar([ToolSpec(name="t", parameters=schema)])
    good = '{"head": {"name": "a", "next": {"name": "b", "next": null}}, "pair": [1, "x"], '
    good += '"tags": {"a": 1, "b": 2}, "free": [{"x": [null, 1.5e3]}], "odd": '
    good += json.dumps(odd, ensure_ascii=False) + "}"
    assert accepts(grammar, f"Action: t\nAction Input: {good}")
    for bad in (
        '{"head": {"next": null}}',
        '{"head": null}',
        '{"head": {"name": "a"}, "pair": [1]}',
    ):
        assert not accepts(grammar, f"Action: t\nAction Input: {bad}")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": True, "b": 5, "c": {"type": 7}, "d": {"type": []}}},
        {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}},
        {"type": "object", "properties": {"a": {"enum": []}, "b": {"anyOf": []}}},
        {"type": "object", "properties": {"a": {"allOf": [{"type": "string"}, {"minLength": 1}]}}},
        {"type": "object", "properties": {"a": {"type": "string", "maxLength": "x"}}},
        {"type": "object", "properties": {"a": {"type": "array", "minItems": 3, "maxItems": 1}}},
        {"type": "object", "required": "abc"},
        {"type": "object", "required": ["a"]},
        {"type": "object", "properties": {"a": {"const": 'x"\\\né'}}, "required": ["a"]},
        {"type": "object", "additionalProperties": False},
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_schemas_that_make_no_sense_still_make_a_grammar(schema: dict[str, Any], seed: int) -> None:
    found = parse(
        walk(text_grammar([ToolSpec(name="t", parameters=schema)], may_answer=False), seed), None
    )
    assert found.failure is None or "twice" in found.failure.detail


def defined(**schemas: Any) -> dict[str, Any]:
    """An object of one A."""
    a = {"$ref": "#/$defs/A"}
    return {"type": "object", "properties": {"a": a}, "required": ["a"], "$defs": schemas}


def to(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def holding(inner: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": inner}, "required": ["x"]}


@pytest.mark.parametrize(
    "schema",
    [
        defined(A=to("A")),
        defined(A=to("B"), B=to("A")),
        defined(A=to("B"), B=to("C"), C=to("B")),
        defined(A={"anyOf": [to("B"), to("A")]}, B={"oneOf": [to("A")]}),
        defined(A=holding(to("A"))),
        defined(A=holding(to("B")), B={"type": "array", "items": to("A"), "minItems": 1}),
        defined(A={"type": "array", "prefixItems": [{"type": "integer"}, to("A")]}),
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    ],
)
def test_what_would_have_no_end_takes_anything(schema: dict[str, Any]) -> None:
    grammar = text_grammar([ToolSpec(name="t", parameters=schema)], may_answer=False)
    assert accepts(grammar, 'Action: t\nAction Input: {"a": 5}')
    for seed in range(5):
        assert parse(walk(grammar, seed), "stop").calls


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (defined(A=to("B"), B={"type": "integer"}), ["5"], ['"x"']),
        (
            defined(A={"anyOf": [to("B"), {"type": "null"}]}, B=holding(to("A"))),
            ["null", '{"x": {"x": null}}'],
            ["5", '{"x": 5}', "{}"],
        ),
        (
            defined(A={"anyOf": [to("A"), {"type": "boolean"}]}),
            ["true"],
            ["5"],
        ),
        (
            defined(A={"type": "object", "properties": {"x": to("A")}}),
            ["{}", '{"x": {"x": {}}}'],
            ['{"x": 5}', '{"y": {}}'],
        ),
        (defined(A={"type": "array", "items": to("A")}), ["[]", "[[], [[]]]"], ["[5]"]),
    ],
)
def test_what_has_an_end_is_held_to_its_schema(
    schema: dict[str, Any], good: list[str], bad: list[str]
) -> None:
    grammar = text_grammar([ToolSpec(name="t", parameters=schema)])
    for value in good:
        assert accepts(grammar, f'Action: t\nAction Input: {{"a": {value}}}'), value
    for value in bad:
        assert not accepts(grammar, f'Action: t\nAction Input: {{"a": {value}}}'), value


def test_a_long_chain_of_references() -> None:
    links = {f"L{n}": to(f"L{n + 1}") for n in range(1_500)}
    schema = defined(A=to("L0"), **links, L1500={"type": "integer"})
    grammar = text_grammar([ToolSpec(name="t", parameters=schema)], may_answer=False)
    assert accepts(grammar, 'Action: t\nAction Input: {"a": 5}')


def test_what_has_no_room_takes_any_object() -> None:
    large = {
        "type": "object",
        "properties": {f"property_{number}": {"type": "integer"} for number in range(400)},
    }
    tools = [ToolSpec(name=f"tool_{number}", parameters=large) for number in range(5)]
    grammar = text_grammar([*tools, WEATHER])
    assert len(grammar.encode()) <= MAX_SCHEMA_BYTES
    StructuredOutput(grammar=grammar)
    assert accepts(grammar, 'Action: tool_4\nAction Input: {"x": "y"}')
    assert not accepts(grammar, 'Action: tool_0\nAction Input: {"x": "y"}')
    assert not accepts(grammar, 'Action: weather\nAction Input: {"x": "y"}'), "small ones have room"


@pytest.mark.parametrize("held", [True, False])
def test_the_dialect_gives_it(held: bool) -> None:
    """A free one, too: a job may be held to some of its tools for a round."""
    given = TextDialect(ByteTokens(), held=held).grammar([WEATHER])
    assert given == StructuredOutput(grammar=text_grammar([WEATHER]))
