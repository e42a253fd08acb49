"""What sets a model's reasoning apart: vLLM's own parsers, on a real tokenizer."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from sluicegate.guards.denied import Denial
from sluicegate.guards.reasoning.tags import Tags
from sluicegate.ops.embedded_model import resolve_model
from sluicegate.worker.config import Config
from sluicegate.worker.engine import EngineUnavailable
from sluicegate.worker.model_tokenizer import ModelTokenizer, load_tokenizer

# vLLM and what it imports warn of many things that are not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")

THINK = ("<think>", "</think>")
REMEDY = "set reasoning_start and reasoning_end"


def tags_of(config: Config, tokenizer: ModelTokenizer) -> Tags | None:
    # Here, where its warnings are ignored.
    from sluicegate.worker import vllm_loading

    find: Callable[[Config, ModelTokenizer], Tags | None] = vars(vllm_loading)["_tags"]
    return find(config, tokenizer)


@pytest.fixture(scope="module")
def plain() -> ModelTokenizer:
    """To which tags are ordinary text."""
    return load_tokenizer(resolve_model(None))


def thinker(plain: ModelTokenizer, *tokens: str, special: bool = False) -> ModelTokenizer:
    """The same with tokens of their own for these."""
    tokenizer: Any = copy.deepcopy(plain.tokenizer)
    tokenizer.add_tokens(list(tokens), special_tokens=special)
    return plain._replace(tokenizer=tokenizer, vocabulary_size=len(tokenizer))


def config(**settings: Any) -> Config:
    return Config(model="m", **settings)


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(
    ("name", "tags"),
    [
        ("qwen3", THINK),
        ("deepseek_r1", THINK),
        ("deepseek_v4", THINK),
        ("glm45", THINK),
        ("olmo3", THINK),
        ("kimi_k2", THINK),
        ("minimax_m2", THINK),
        ("nemotron_v3", THINK),
        ("ernie45", THINK),
        ("step3", THINK),
        ("seed_oss", ("<seed:think>", "</seed:think>")),
        ("cohere_command4", ("<|START_THINKING|>", "<|END_THINKING|>")),
        ("gemma4", ("<|channel>", "<channel|>")),
    ],
)
def test_a_parser_says_its_models_tags(
    plain: ModelTokenizer, name: str, tags: tuple[str, str], special: bool
) -> None:
    tokenizer = thinker(plain, *tags, special=special)
    found = tags_of(config(reasoning_parser=name), tokenizer)
    assert found is not None
    assert (found.start, found.end) == tags
    added = tokenizer.tokenizer.get_added_vocab()
    assert (found.start_ids, found.end_ids) == ((added[tags[0]],), (added[tags[1]],))
    assert found.by_id


def test_a_parser_whose_tags_are_ordinary_text_to_the_model(plain: ModelTokenizer) -> None:
    """It was taught to write them: told by their text, in whatever tokens it comes."""
    found = tags_of(config(reasoning_parser="qwen3"), plain)
    assert found is not None
    assert (found.start, found.end) == THINK
    assert not found.by_id
    assert len(found.start_ids) > 1
    assert plain.tokenizer.decode(found.end_ids) == "</think>"


@pytest.mark.parametrize("name", ["openai_gptoss", "granite", "hunyuan_a13b", "deepseek_v3"])
def test_a_parser_that_has_no_tags_to_tell(plain: ModelTokenizer, name: str) -> None:
    with pytest.raises(EngineUnavailable, match=REMEDY) as refused:
        tags_of(config(reasoning_parser=name), plain)
    assert f"{name} does not say what opens and closes" in str(refused.value)


@pytest.mark.parametrize("name", ["deepseek_r1", "ernie45", "mistral", "minimax_m3", "step3", "hf"])
def test_a_parser_of_another_model(plain: ModelTokenizer, name: str) -> None:
    with pytest.raises(EngineUnavailable, match=REMEDY) as refused:
        tags_of(config(reasoning_parser=name), plain)
    assert f"{name} does not go with the model" in str(refused.value)


def test_a_parser_that_vllm_does_not_have(plain: ModelTokenizer) -> None:
    with pytest.raises(EngineUnavailable, match="reasoning_parser: vLLM has no 'qwen33'") as no:
        tags_of(config(reasoning_parser="qwen33"), plain)
    assert "qwen3, " in str(no.value), "it has that"


def test_every_parser_gives_tags_or_says_what_to_do(plain: ModelTokenizer) -> None:
    from vllm.reasoning import ReasoningParserManager

    names = ReasoningParserManager.list_registered()
    found: list[Tags] = []
    for tokenizer in (plain, thinker(plain, *THINK)):
        for name in names:
            try:
                tags = tags_of(config(reasoning_parser=name), tokenizer)
            except EngineUnavailable as error:
                assert REMEDY in str(error)  # noqa: PT017  either will do
                continue
            assert tags is not None
            assert tags.start
            assert tags.start != tags.end
            found.append(tags)
    assert len(found) > len(names), "most have some"


def test_strings_go_over_the_parser(plain: ModelTokenizer) -> None:
    asked = config(
        reasoning_parser="nobody", reasoning_start="[reason] ", reasoning_end=" [answer]"
    )
    found = tags_of(asked, plain)
    assert found is not None
    assert (found.start, found.end) == ("[reason]", "[answer]")
    assert not found.by_id


def test_without_a_parser_or_strings_there_is_no_reasoning(plain: ModelTokenizer) -> None:
    assert tags_of(config(), plain) is None


def test_tags_that_are_no_two_different_texts(plain: ModelTokenizer) -> None:
    with pytest.raises(EngineUnavailable, match="two different texts"):
        tags_of(config(reasoning_start="---", reasoning_end=" ---"), plain)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        # The beginning of a conversation, and the unknown token: denied to all other models.
        ("<|im_start|>", "<|endoftext|>"),
        # Markers of training corpora, of which sentinels are made.
        ("<repo_name>", "<reponame>"),
        ("<file_sep>", "<gh_stars>"),
        # Several tokens, one of them special.
        ("<|im_start|>think", "<filename>\nanswer"),
    ],
)
def test_tags_are_neither_denied_nor_sentinels(plain: ModelTokenizer, start: str, end: str) -> None:
    tags = tags_of(config(reasoning_start=start, reasoning_end=end), plain)
    assert tags is not None
    assert tags.by_id
    legal = {*tags.start_ids, *tags.end_ids}
    denied = plain.denied(legal)
    sentinels = plain.sentinels(denied, legal)
    assert sentinels
    assert legal.isdisjoint(denied)
    assert legal.isdisjoint(sentinels)


def test_a_reserved_token_that_is_a_tag_is_legal(plain: ModelTokenizer) -> None:
    names = ("<|reserved_special_token_7|>", "<|reserved_special_token_8|>")
    tokenizer = thinker(plain, *names, special=True)
    tags = tags_of(config(reasoning_start=names[0], reasoning_end=names[1]), tokenizer)
    assert tags is not None
    legal = (*tags.start_ids, *tags.end_ids)
    assert {tokenizer.denied()[token] for token in legal} == {Denial.RESERVED}
    assert tokenizer.denied(legal).keys().isdisjoint(legal)
