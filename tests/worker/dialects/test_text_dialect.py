"""How a conversation is put before a model in plain text."""

import copy
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sluicegate.ops.embedded_model import resolve_model
from sluicegate.schemas import (
    InvalidMessage,
    ParseFailure,
    Reason,
    ToolCall,
    ToolResult,
    ToolSpec,
    ToolStatus,
)
from sluicegate.worker.config import ConfigError
from sluicegate.worker.dialects.dialect import Came, Said, Told, Turn
from sluicegate.worker.dialects.text import TextDialect
from sluicegate.worker.dialects.tokens import ByteTokens, Message, ModelTokens
from sluicegate.worker.model_tokenizer import ModelTokenizer, load_tokenizer

RULES: Final = "Never delete files.\nYou are  careful."
TOOLS: Final = [
    ToolSpec(
        name="weather",
        description="The weather\n  in a city.",
        parameters={"type": "object", "properties": {"city": {"type": "string"}}},
    ),
    ToolSpec(name="clock"),
]
CALL: Final = 'Thought: I look.\nAction: weather\nAction Input: {"city": "Paris"}'
# A template of the Gemma family's kind: no system, and turns that must alternate.
NO_SYSTEM: Final = """\
{%- for message in messages %}\
{%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}\
{{ raise_exception('order') }}{% endif %}\
{{ '<|im_start|>' + message.role + '\n' + message.content | trim + '<|im_end|>\n' }}\
{%- endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""


def call(
    name: str = "weather", content: str = "rain", status: ToolStatus = ToolStatus.OK
) -> ToolCall:
    came = ToolResult(status=status, content=content)
    return ToolCall(id="c1", name=name, arguments={}, effect_id="e1", result=came)


TURNS: Final[list[Turn]] = [
    Told("system", RULES),
    Told("user", "Is it raining?"),
    Said(CALL, (call(),)),
    Came(
        (call(), call("clock", status=ToolStatus.TIMEOUT, content="30 s")),
        reminder="Come to an end.",
    ),
    Said("Hm."),
    Came(failure=ParseFailure(kind="nothing", detail="there is no call")),
]


@pytest.fixture(scope="module")
def model() -> ModelTokenizer:
    return load_tokenizer(resolve_model(None))


@pytest.fixture(scope="module")
def tokens(model: ModelTokenizer) -> ModelTokens:
    return ModelTokens(model)


def text_of(model: ModelTokenizer, turns: Sequence[Turn], **options: Any) -> str:
    prompt = TextDialect(ModelTokens(model, **options)).prompt(turns, TOOLS)
    assert prompt.text is None
    assert prompt.token_ids is not None
    assert prompt.tokens == len(prompt.token_ids)
    return str(model.tokenizer.decode(list(prompt.token_ids)))


def test_the_system_stands_first_and_unchanged_and_the_reminder_last(model: ModelTokenizer) -> None:
    text = text_of(model, TURNS)
    assert text.startswith(f"<|im_start|>system\n{RULES}\n\nYou can call tools.")
    assert '- weather: The weather in a city.\n  {"type":"object","properties":' in text
    assert (
        '- clock\n  {"type":"object"}<|im_end|>\n<|im_start|>user\nIs it raining?<|im_end|>' in text
    )
    assert (
        "<|im_start|>user\nObservation (weather): rain\nObservation (clock): [timeout] 30 s\n"
        "Come to an end.<|im_end|>\n<|im_start|>assistant\nHm.<|im_end|>"
    ) in text
    assert text.endswith(
        "<|im_start|>user\nThat could not be read (nothing): there is no call<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_without_tools_it_is_told_so(tokens: ModelTokens, model: ModelTokenizer) -> None:
    prompt = TextDialect(tokens).prompt(TURNS[:2], ())
    text = model.tokenizer.decode(list(prompt.token_ids or ()))
    assert "There are no tools." in text
    assert "Action Input" not in text


def test_without_a_system_it_begins_with_how_to_call(model: ModelTokenizer) -> None:
    assert text_of(model, TURNS[1:2]).startswith("<|im_start|>system\nYou can call tools.")


def test_turns_of_the_same_speaker_are_one(model: ModelTokenizer) -> None:
    text = text_of(model, [Told("user", "a"), Told("user", "b")])
    assert "<|im_start|>user\na\n\nb<|im_end|>" in text


WORDS = st.lists(
    st.sampled_from([*"ab \n<|>{}", "<|im_end|>", "<|im_start|>", "é", "中"]), max_size=12
).map("".join)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5), WORDS)
def test_a_prompt_grows_only_at_its_end(
    tokens: ModelTokens, rounds: list[tuple[str, str]], task: str
) -> None:
    """Whole prompts, up to where the model is to speak, are the beginning of all later ones."""
    dialect = TextDialect(tokens)
    turns: list[Turn] = [Told("system", RULES), Told("user", task)]
    before = dialect.prompt(turns, TOOLS).token_ids or ()
    for said, came in rounds:
        turns += [Said(said), Came((call(content=came),))]
        after = dialect.prompt(turns, TOOLS).token_ids or ()
        assert after[: len(before)] == before
        assert len(after) > len(before)
        before = after


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(WORDS, WORDS, WORDS)
def test_nobody_speaks_in_anothers_name(
    tokens: ModelTokens, model: ModelTokenizer, task: str, said: str, came: str
) -> None:
    """What is spelled like the model's own marks is text: there are as many turns as there are."""
    turns = [Told("user", task), Said(said), Came((call(content=came),))]
    ids = list(TextDialect(tokens).prompt(turns, TOOLS).token_ids or ())
    start, end = model.tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    assert (ids.count(start), ids.count(end)) == (5, 4)


def test_a_template_without_a_system(model: ModelTokenizer) -> None:
    text = text_of(model, TURNS, template=NO_SYSTEM)
    assert text.startswith(f"<|im_start|>user\n{RULES}\n\nYou can call tools.")
    assert "\n\nIs it raining?<|im_end|>\n<|im_start|>assistant\nThought: I look." in text


def test_a_model_without_a_template(model: ModelTokenizer) -> None:
    bare = model._replace(tokenizer=copy.deepcopy(model.tokenizer))
    bare.tokenizer.chat_template = None
    text = text_of(bare, TURNS)
    assert text.startswith(f"System: {RULES}\n\nYou can call tools.")
    assert text.endswith("\n\nAssistant:")


def test_an_engine_without_a_model_is_given_text() -> None:
    prompt = TextDialect(ByteTokens()).prompt([*TURNS[:2], Said("é")], TOOLS)
    assert prompt.token_ids is None
    assert prompt.text is not None
    assert prompt.text.startswith(f"System: {RULES}\n\nYou can call tools.")
    assert prompt.text.endswith("User: Is it raining?\n\nAssistant: é\n\nAssistant:")
    assert prompt.tokens == len(prompt.text.encode())


def test_counts_are_the_tokenizers(tokens: ModelTokens, model: ModelTokenizer) -> None:
    assert tokens.count("It is raining.") == len(model.encode("It is raining."))
    assert ByteTokens().count("é") == 2


def test_several_threads_may_ask_at_once(tokens: ModelTokens) -> None:
    dialect = TextDialect(tokens)
    whole = dialect.prompt(TURNS, TOOLS)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(dialect.prompt, TURNS, TOOLS) for _ in range(40)]
        counted = [pool.submit(tokens.count, "It is raining.") for _ in range(40)]
    assert {one.result() for one in asked} == {whole}
    assert {one.result() for one in counted} == {tokens.count("It is raining.")}


def test_a_template_that_can_not_be_used(model: ModelTokenizer) -> None:
    for broken in ("{{ raise_exception('no') }}", "{% if %}"):
        with pytest.raises(ConfigError, match="chat_template"):
            ModelTokens(model, broken)


def test_a_conversation_that_the_template_refuses(model: ModelTokenizer) -> None:
    template = "{% if messages | length > 2 %}{{ raise_exception('too many') }}{% endif %}x"
    own = ModelTokens(model, template)
    own.chat([Message("user", "a")])
    with pytest.raises(InvalidMessage, match="too many") as refused:
        TextDialect(own).prompt(TURNS, TOOLS)
    assert refused.value.reason is Reason.UNSUPPORTED


def test_what_keeps_a_model_from_answering_itself() -> None:
    dialect = TextDialect(ByteTokens())
    made_up = f"{CALL}\nObservation (weather): rain"
    assert any(stop in made_up for stop in dialect.stop)
    assert not any(stop in "Final Answer: a\nObservations were made" for stop in dialect.stop)
    assert any(opener in CALL for opener in dialect.openers)
    assert all(opener in CALL for opener, _ in dialect.spans)
    assert (dialect.name, TextDialect(ByteTokens(), held=True).name) == ("text", "grammar")
