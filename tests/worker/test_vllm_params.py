"""A segment's sampling in vLLM's words, and what goes over the seam."""

import json

import pytest
from sluicegate.guards.engine_gates import Ban, EngineGates
from sluicegate.schemas import Sampling, StructuredOutput

pytestmark = pytest.mark.filterwarnings("ignore")

from sluicegate.worker.vllm_params import biased, sampling_params, seamed  # noqa: E402


# Letters are their code points.
class Letters:
    """A tokenizer of which vLLM needs no more."""

    max_token_id = 200

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [ord(letter) for letter in text]


LETTERS = Letters()


def test_names_and_meanings_are_vllms() -> None:
    params = sampling_params(Sampling(temperature=0.5, top_k=7, stop=("x",), max_tokens=9), 3)
    assert (params.temperature, params.top_k, params.max_tokens, params.seed) == (0.5, 7, 9, 3)
    # Text is ours, and so are stop strings: they must work across segments.
    assert params.detokenize is False
    assert not params.stop


def test_json_has_no_white_space_to_loop_in() -> None:
    wanted = Sampling(structured_output=StructuredOutput(json_schema={"type": "object"}))
    outputs = sampling_params(wanted, 1).structured_outputs
    assert outputs is not None
    assert outputs.disable_any_whitespace


def test_a_numeric_fault_reads_nothing_from_the_cache() -> None:
    assert sampling_params(Sampling(), 1, fresh_cache=True).skip_reading_prefix_cache is True
    assert not sampling_params(Sampling(), 1).skip_reading_prefix_cache


def test_the_first_segment_is_left_to_vllm() -> None:
    params = sampling_params(Sampling(presence_penalty=0.5, repetition_penalty=1.2), 1)
    assert seamed(params, EngineGates(), (), LETTERS) == EngineGates()
    assert (params.presence_penalty, params.repetition_penalty) == (0.5, 1.2)


def test_behind_a_seam_the_plug_in_has_the_penalties() -> None:
    params = sampling_params(
        Sampling(presence_penalty=0.5, frequency_penalty=0.25, repetition_penalty=1.2), 1
    )
    gates = seamed(params, EngineGates(), (5, 6, 7), LETTERS)
    assert (gates.carried, gates.presence_penalty, gates.frequency_penalty) == (3, 0.5, 0.25)
    assert gates.repetition_penalty == 1.2
    assert (params.presence_penalty, params.frequency_penalty) == (0.0, 0.0)
    assert params.repetition_penalty == 1.0


def test_a_repetition_penalty_alone_is_exact_in_vllm() -> None:
    params = sampling_params(Sampling(repetition_penalty=1.2), 1)
    assert seamed(params, EngineGates(), (5,), LETTERS).carried == 0
    assert params.repetition_penalty == 1.2


def test_a_bad_word_that_has_begun_must_not_end() -> None:
    params = sampling_params(Sampling(bad_words=("abc",)), 1)
    carried = tuple(map(ord, "xxa"))
    bans = seamed(params, EngineGates(bans=(Ban(0, 9),)), carried, LETTERS).bans
    assert Ban(0, 9) in bans
    assert Ban(1, ord("c"), (ord("b"),)) in bans


def test_without_a_plug_in_a_bias_comes_near() -> None:
    params = sampling_params(
        Sampling(presence_penalty=0.5, frequency_penalty=0.25, logit_bias={5: 1.0}), 1
    )
    bias = biased(params, EngineGates(bans=(Ban(0, 9),)), (5, 5, 6))
    assert bias == {5: 1.0 - 0.5 - 0.5, 6: -0.75, 9: -100.0}
    assert biased(sampling_params(Sampling(), 1), None, ()) is None


def test_a_structural_tag_goes_to_vllm_as_json() -> None:
    tag = {"type": "structural_tag", "format": {"type": "any_text", "excludes": ["<c>"]}}
    params = sampling_params(Sampling(structured_output=StructuredOutput(structural_tag=tag)), 0)
    assert params.structured_outputs is not None
    assert params.structured_outputs.structural_tag is not None
    assert json.loads(params.structured_outputs.structural_tag) == tag
    assert params.structured_outputs.grammar is None
