"""The scoring model: the embedded one, and tiny ones of other kinds made here."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from sluicegate.guards.checks.scores import TextScores
from sluicegate.ops.embedded_model import resolve_model
from sluicegate.worker.scoring import (
    Limits,
    ScoreRequest,
    ScoringFailed,
    ScoringUnavailable,
    Wants,
)
from sluicegate.worker.scoring_model import TransformersScorer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    BertConfig,
    BertModel,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
)

pytestmark = pytest.mark.engine

EVERYTHING = Wants()
# Log probabilities in float32, computed in batches of other shapes; and the mean of some in
# bfloat16.
CLOSE = 1e-3
CLOSE_ENOUGH = 0.1
ODD = (
    "",
    " ",
    "\n\n\n",
    "a",
    "ß",
    "😀\N{WOMAN}\u200d\N{WOMAN}\u200d\N{GIRL}",
    "a" * 3_000,
    "\u202e\u0629\u0301\u0302\u0369\u200b",
    "\ud83d half",
    "<|im_end|>",
)


@pytest.fixture(scope="module")
def scorer() -> TransformersScorer:
    return TransformersScorer(str(resolve_model(None)))


@pytest.fixture(scope="module")
def exact() -> TransformersScorer:
    return TransformersScorer(str(resolve_model(None)), dtype="float32")


def numbers(scores: TextScores) -> list[float]:
    parts = [value for each in scores.sentences for value in (each.alone, each.after)]
    return [*scores.logprobs, *scores.given_prompt, *parts]


def means(scores: TextScores) -> list[float]:
    parts = [value for each in scores.sentences for value in (each.alone, each.after)]
    lists = [each for each in (scores.logprobs, scores.given_prompt) if len(each) > 2]
    return [*parts, *(sum(each) / len(each) for each in lists)]


def assert_alike(found: Sequence[TextScores], expected: Sequence[TextScores]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.chars == other.chars
        assert numbers(one) == pytest.approx(numbers(other), abs=CLOSE)


def test_a_batch_scores_as_each_alone(
    scorer: TransformersScorer, exact: TransformersScorer
) -> None:
    requests = [
        ScoreRequest("What are cats?", "Cats are small animals. They eat mice. People like them."),
        ScoreRequest("", "def area(radius):\n    return 3.14159 * radius ** 2\n"),
        ScoreRequest(
            "Say it in German. " * 30, "Das Wetter ist heute schön. Wir gehen an den See."
        ),
        ScoreRequest("One word.", "Yes"),
        ScoreRequest("Tell me of the sea.", "The sea is wide. " * 20),
    ]
    together = exact.score(requests, EVERYTHING)
    assert_alike(together, [exact.score([each], EVERYTHING)[0] for each in requests])
    for one, other in zip(scorer.score(requests, EVERYTHING), together, strict=True):
        assert one.chars == other.chars
        for half, full in zip(means(one), means(other), strict=True):
            assert half == pytest.approx(full, abs=CLOSE_ENOUGH)


def test_scores_are_those_of_the_model(exact: TransformersScorer) -> None:
    scorer: Any = exact
    text = "Trains run on rails. They were first pulled by steam."
    (found,) = scorer.score([ScoreRequest("Tell me of trains.", text)], EVERYTHING)
    tokenizer, model = scorer._backend, scorer._model
    tokens: list[int] = tokenizer.encode(text, add_special_tokens=False).ids

    def told(prompt: str) -> list[float]:
        asked: list[int] = tokenizer.encode(prompt, add_special_tokens=False).ids
        before = [*scorer._prompts.before, *asked, *scorer._prompts.behind]
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([[*before, *tokens]])).logits[0].float()
        rows = torch.log_softmax(logits[len(before) - 1 : -1], -1)
        return [float(row[token]) for row, token in zip(rows, tokens, strict=True)]

    assert found.logprobs == pytest.approx(told(""), abs=CLOSE)
    assert found.given_prompt == pytest.approx(told("Tell me of trains."), abs=CLOSE)


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_odd_texts_have_scores(scorer: TransformersScorer, text: str) -> None:
    (found,) = scorer.score([ScoreRequest("What? " + text, text)], EVERYTHING)
    assert len(found.chars) == len(found.logprobs)
    assert all(value <= 1e-3 for value in found.logprobs)
    assert all(0 <= begin <= end <= len(text) for begin, end in found.chars)
    assert found.scored_chars == len(text)


def test_characters_are_those_of_the_text(scorer: TransformersScorer) -> None:
    text = "Grüße 😀 aus 東京, <|im_end|>!"
    (found,) = scorer.score([ScoreRequest("", text)], EVERYTHING)
    covered = {at for begin, end in found.chars for at in range(begin, end)}
    assert covered == set(range(len(text)))
    begins = [begin for begin, _ in found.chars]
    assert begins == sorted(begins)
    # What is spelled like the end of a turn is some tokens of text, not that one token.
    mark = text.index("<|im_end|>")
    assert sum(mark <= begin < mark + 10 for begin in begins) > 2


def test_a_long_text_is_scored_at_its_beginning_and_its_end() -> None:
    bounds = Limits(text=200, window=80, overlap=20)
    scorer = TransformersScorer(str(resolve_model(None)), limits=bounds)
    text = "".join(f"Line {number} of a long report.\n" for number in range(200))
    (found,) = scorer.score([ScoreRequest("", text)], EVERYTHING)
    assert len(found.logprobs) == 200
    assert found.chars[0][0] == 0
    assert found.chars[-1][1] == len(text)
    assert found.scored_chars < len(text) / 5
    # The text before a window is seen: that lines go on as they did is no surprise.
    assert sum(found.logprobs[80:150]) / 70 > sum(found.logprobs[:20]) / 20


def test_what_belongs_together_scores_higher(scorer: TransformersScorer) -> None:
    text = "Photosynthesis turns light into sugar. Plants take carbon dioxide from the air for it."
    asked, other = "How does photosynthesis work?", "Write an e-mail about a lost parcel."
    right, wrong = scorer.score([ScoreRequest(asked, text), ScoreRequest(other, text)], EVERYTHING)
    assert sum(right.given_prompt) > sum(right.logprobs) > sum(wrong.given_prompt)
    (sentence,) = right.sentences
    assert text[slice(*sentence.chars)].startswith("Plants")
    assert sentence.after > sentence.alone


def test_what_does_not_fit_a_batch_is_scored_alone(
    exact: TransformersScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [ScoreRequest("", f"This is text number {number}.") for number in range(4)]
    scorer: Any = exact
    expected = scorer.score(requests, EVERYTHING)
    whole: Any = getattr(scorer, "_pass")  # noqa: B009  it is protected

    def small(rows: Sequence[Any], *, neutral: bool) -> list[list[float]]:
        if len(rows) > 1:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return whole(rows, neutral=neutral)

    monkeypatch.setattr(scorer, "_pass", small)
    assert_alike(scorer.score(requests, EVERYTHING), expected)


def test_the_one_that_fails_alone_is_named_and_the_others_are_scored(
    scorer: TransformersScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [ScoreRequest("", text) for text in ("Short.", "Long. " * 60, "Short too.")]
    whole: Any = getattr(scorer, "_pass")  # noqa: B009  it is protected

    def small(rows: Sequence[Any], *, neutral: bool) -> list[list[float]]:
        if max(len(row.ids) for row in rows) > 50:
            raise MemoryError
        return whole(rows, neutral=neutral)

    monkeypatch.setattr(scorer, "_pass", small)
    with pytest.raises(
        ScoringFailed, match="1 of 3 texts could not be scored: MemoryError"
    ) as told:
        scorer.score(requests, EVERYTHING)
    assert list(told.value.failed) == [1]
    assert [scores is None for scores in told.value.scores] == [False, True, False]
    with pytest.raises(ScoringFailed, match="1 of 1"):
        scorer.score(requests[1:2], EVERYTHING)


def test_scores_that_are_no_numbers_are_a_failure(
    scorer: TransformersScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_numbers(states: torch.Tensor) -> torch.Tensor:
        return torch.full((len(states), 50_000), float("nan"))

    monkeypatch.setattr(scorer, "_head", no_numbers)
    with pytest.raises(ScoringFailed, match="no numbers"):
        scorer.score([ScoreRequest("", "Some text.")], EVERYTHING)


def test_no_requests_no_scores(scorer: TransformersScorer) -> None:
    assert scorer.score([], EVERYTHING) == []


def test_a_closed_scorer_scores_no_more(tmp_path: Path) -> None:
    scorer = TransformersScorer(str(base_model(tmp_path)), dtype="float32")
    scorer.close()
    with pytest.raises(ValueError, match="closed"):
        scorer.score([ScoreRequest("", "text")], EVERYTHING)


# Models of other kinds


def seed() -> None:
    library: Any = torch
    library.manual_seed(0)


def save_tokenizer(folder: Path) -> int:
    """A byte level one without a chat template; its size."""
    backend: Any = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer: Any = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    backend.train_from_iterator(["the cat sat on the mat", "a text of some words"], trainer)
    tokenizer: Any = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    tokenizer.save_pretrained(folder)
    return len(tokenizer)


def base_model(folder: Path) -> Path:
    seed()
    size = save_tokenizer(folder)
    config: Any = GPT2Config(vocab_size=size, n_embd=32, n_layer=2, n_head=2, n_positions=128)
    model: Any = GPT2LMHeadModel(config)
    model.save_pretrained(folder)
    return folder


def test_a_base_model_has_an_empty_line_behind_the_prompt(tmp_path: Path) -> None:
    scorer = TransformersScorer(str(base_model(tmp_path)), dtype="float32")
    inside: Any = scorer
    assert inside._prompts.neutral == inside._prompts.before
    requests = [ScoreRequest("the mat", "the cat sat. " * 50), ScoreRequest("x" * 900, "a text")]
    long, short = scorer.score(requests, EVERYTHING)
    # The context has 128 tokens only.
    assert len(long.logprobs) > 128
    assert len(long.given_prompt) == 63
    assert len(short.given_prompt) == len(short.logprobs)
    assert_alike([short], scorer.score(requests[1:], EVERYTHING))


def test_a_model_that_changes_its_logits_is_refused(tmp_path: Path) -> None:
    size = save_tokenizer(tmp_path)
    config: Any = Gemma2Config(
        vocab_size=size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        final_logit_softcapping=0.01,
        initializer_range=3.0,
    )
    model: Any = Gemma2ForCausalLM(config)
    model.save_pretrained(tmp_path)
    with pytest.raises(ScoringUnavailable, match="changes its logits"):
        TransformersScorer(str(tmp_path), dtype="float32")


def test_weights_that_are_pickles_are_refused(tmp_path: Path) -> None:
    base_model(tmp_path)
    weights = tmp_path / "model.safetensors"
    torch.save({}, tmp_path / "pytorch_model.bin")
    weights.unlink()
    with pytest.raises(ScoringUnavailable, match="no scoring model"):
        TransformersScorer(str(tmp_path))


@pytest.mark.parametrize("changed", [{"model": "/nowhere/at-all"}, {"dtype": "bfloat17"}])
def test_what_is_not_there_is_said(tmp_path: Path, changed: dict[str, str]) -> None:
    asked: dict[str, Any] = {"model": str(base_model(tmp_path))} | changed
    with pytest.raises(ScoringUnavailable, match="no scoring model"):
        TransformersScorer(**asked)


def embedding_model(folder: Path) -> Path:
    seed()
    size = save_tokenizer(folder)
    config: Any = BertConfig(
        vocab_size=size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    model: Any = BertModel(config)
    model.save_pretrained(folder)
    return folder


def test_an_embedding_model_gives_the_similarity(tmp_path: Path) -> None:
    base, embedding = tmp_path / "base", tmp_path / "embedding"
    base.mkdir()
    embedding.mkdir()
    scorer = TransformersScorer(
        str(base_model(base)), dtype="float32", embedding_model=str(embedding_model(embedding))
    )
    requests = [
        ScoreRequest("the cat sat on the mat", "the cat sat on the mat"),
        ScoreRequest("the cat", "zzz !!! " * 200),
        ScoreRequest("", "a text"),
        ScoreRequest("a text", " \n"),
    ]
    scores = scorer.score(requests, EVERYTHING)
    same, other, *empty = [each.similarity for each in scores]
    assert same == pytest.approx(1, abs=1e-5)
    assert other is not None
    assert -1 <= other < 0.999
    assert empty == [None, None]
    alone = scorer.score(requests[1:2], EVERYTHING)[0].similarity
    assert alone == pytest.approx(other, abs=1e-5)
    assert scorer.score(requests[:1], Wants(similarity=False))[0].similarity is None
    with pytest.raises(ScoringUnavailable, match="no embedding model"):
        TransformersScorer(str(base), embedding_model=str(tmp_path / "none"))
