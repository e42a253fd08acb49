"""The plug-in for runner V1, driven by vLLM's own batch and sampler."""

import random
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.guards.engine_gates import Ban, EngineGates, Signal, packed, seam_bans
from torch import Tensor

from .logit_rows import CONSTANTS, KINDS, VOCABULARY, expected, row, said

with warnings.catch_warnings():
    # Of vLLM's and torch's own making, as they are imported.
    warnings.simplefilter("ignore")
    from sluicegate.guards.plugin_v1 import Plugin
    from vllm.config import VllmConfig
    from vllm.sampling_params import SamplingParams
    from vllm.v1.sample.logits_processor import LogitsProcessors
    from vllm.v1.sample.sampler import Sampler
    from vllm.v1.worker.gpu_input_batch import CachedRequestState, InputBatch

CPU = torch.device("cpu")
SLOTS = 6
WISHES = (
    EngineGates(low_confidence_edge=2, low_confidence_middle=4, edge=2, max_tokens=20),
    EngineGates(few_candidates_edge=1, few_candidates_middle=3, edge=3),
    EngineGates(confidence_window=3, min_confidence=-4.5),
    EngineGates(),
    None,
)


@cache
def config() -> VllmConfig:
    made = VllmConfig(additional_config=packed(CONSTANTS))
    made.scheduler_config.max_num_seqs = SLOTS
    return made


class NumberTokenizer:
    """Bad words are written as ids."""

    max_token_id = VOCABULARY - 1

    @staticmethod
    def encode(text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [int(word) for word in text.split()]


class Batch:
    """vLLM's input batch and sampler with the plug-in, as the model runner uses them."""

    def __init__(self) -> None:
        self.plugin = Plugin(config(), CPU, is_pin_memory=False)
        self.batch = InputBatch(
            max_num_reqs=SLOTS,
            max_model_len=256,
            max_num_batched_tokens=256,
            device=CPU,
            vocab_size=VOCABULARY,
            block_sizes=[16],
            max_num_blocks_per_req=[16],
            logitsprocs=LogitsProcessors([self.plugin]),
            logitsprocs_need_output_token_ids=True,
        )
        self.requests: dict[str, CachedRequestState] = {}

    def add(
        self,
        name: str,
        gates: EngineGates | None,
        prompt: Sequence[int] = (1, 2),
        produced: Sequence[int] = (),
        **params: Any,
    ) -> None:
        extra = packed(gates) if gates else None
        sampling = SamplingParams(extra_args=extra, **params)
        sampling.update_from_tokenizer(cast("Any", NumberTokenizer))
        self.requests[name] = CachedRequestState(
            req_id=name,
            prompt_token_ids=list(prompt),
            mm_features=[],
            sampling_params=sampling,
            generator=None,
            block_ids=([0],),
            num_computed_tokens=0,
            output_token_ids=list(produced),
        )
        self.batch.add_request(self.requests[name])

    def remove(self, name: str) -> None:
        self.batch.remove_request(name)
        del self.requests[name]

    def settle(self, *swapped: tuple[str, str]) -> None:
        """Before each step, when requests have come and gone: close the gaps, then reorder."""
        self.batch.condense()
        where = self.batch.req_id_to_index
        for first, second in swapped:
            self.batch.swap_states(where[first], where[second])
        self.batch.refresh_metadata()

    def step(self, rows: dict[str, Tensor], *swapped: tuple[str, str]) -> dict[str, Tensor]:
        """The processed logits of each request."""
        self.settle(*swapped)
        names = self.batch.req_ids
        logits = torch.stack([rows[name] for name in names])
        after = Sampler().apply_logits_processors(
            logits, self.batch.sampling_metadata, predict_bonus_token=False
        )
        return {name: after[place] for place, name in enumerate(names)}

    def accept(self, name: str, token: int) -> None:
        self.requests[name].output_token_ids.append(token)


@pytest.mark.timeout(120)
@settings(deadline=None, max_examples=30)
@given(chance=st.randoms(use_true_random=False))
def test_each_request_hears_what_it_would_hear_alone(chance: random.Random) -> None:
    """However requests come, go, move and swap rows."""
    batch = Batch()
    wishes: dict[str, EngineGates | None] = {}
    rows: dict[str, list[Tensor]] = {}
    heard: dict[str, list[Signal | None]] = {}
    for step in range(12):
        for name in list(batch.requests):
            if chance.random() < 0.2:
                batch.remove(name)
        while len(batch.requests) < SLOTS and chance.random() < 0.5:
            name = f"{step}.{len(wishes)}"
            wishes[name] = chance.choice(WISHES)
            rows[name], heard[name] = [], []
            batch.add(name, wishes[name])
        names = sorted(batch.requests)
        if not names:
            continue
        swaps = [(chance.choice(names), chance.choice(names)) for _ in range(chance.randrange(3))]
        swaps = [(first, second) for first, second in swaps if first != second]
        now = {name: row(chance.choice(KINDS), chance.randrange(50)) for name in batch.requests}
        for name, after in batch.step(now, *swaps).items():
            if wishes[name] is None:
                assert torch.equal(after.view(torch.int32), now[name].view(torch.int32))
            else:
                rows[name].append(now[name])
                heard[name].append(said(after))
            batch.accept(name, 11)
    for name, gates in wishes.items():
        assert gates is None or heard[name] == expected(gates, rows[name])


def test_rows_of_a_prompt_still_being_read_count_for_nothing() -> None:
    batch = Batch()
    batch.add("a", EngineGates(low_confidence_edge=2, low_confidence_middle=2))
    heard = [said(batch.step({"a": row("weak", 1)})["a"]) for _ in range(5)]
    assert heard == [None] * 5
    batch.accept("a", 11)
    assert said(batch.step({"a": row("weak", 1)})["a"]) == Signal.LOW_CONFIDENCE


def test_a_request_that_was_preempted_goes_on_at_its_place() -> None:
    wishes = EngineGates(low_confidence_edge=1, low_confidence_middle=9, edge=3)
    batch = Batch()
    batch.add("a", wishes, produced=[11, 12, 13])
    assert said(batch.step({"a": row("weak", 1)})["a"]) is None
    batch.remove("a")
    batch.settle()
    batch.add("a", wishes, produced=[11, 12])
    assert said(batch.step({"a": row("weak", 1)})["a"]) == Signal.LOW_CONFIDENCE


penalties = st.fixed_dictionaries(
    {
        "presence_penalty": st.sampled_from([0.0, 0.5, -1.3]),
        "frequency_penalty": st.sampled_from([0.0, 0.7, 2.0]),
        "repetition_penalty": st.sampled_from([1.0, 1.1, 0.9, 2.0]),
    }
)
some_tokens = st.lists(st.integers(10, 40), max_size=12)


@settings(deadline=None, max_examples=50)
@given(
    penalty=penalties,
    others=st.lists(penalties, max_size=2),
    prompt=st.lists(st.integers(10, 40), min_size=1, max_size=12),
    carried=some_tokens,
    produced=some_tokens,
    seed=st.integers(0, 999),
)
def test_a_resumed_request_is_penalised_as_if_it_had_never_stopped(
    penalty: dict[str, float],
    others: list[dict[str, float]],
    prompt: list[int],
    carried: list[int],
    produced: list[int],
    seed: int,
) -> None:
    """Bit for bit, whatever company the request has before and after."""
    logits = row("usual", seed) * 3
    whole = Batch()
    whole.add("a", EngineGates(), prompt, [*carried, *produced], **penalty)
    resumed = Batch()
    for place, other in enumerate(others):
        resumed.add(f"{place}", EngineGates() if place else None, [10, 11], [12], **other)
    wishes = cast("dict[str, Any]", penalty)
    gates = EngineGates(carried=len(carried), position=len(carried), **wishes)
    resumed.add("a", gates, [*prompt, *carried], produced)
    rows = dict.fromkeys(resumed.requests, logits)
    for token in (13, 14):
        wanted = whole.step({"a": logits})["a"]
        found = resumed.step(rows)["a"]
        assert torch.equal(found.view(torch.int32), wanted.view(torch.int32))
        whole.accept("a", token)
        for name in resumed.requests:
            resumed.accept(name, token)


def test_penalties_are_seen_to_matter() -> None:
    batch = Batch()
    logits = row("usual", 1)
    batch.add("a", EngineGates(carried=2, presence_penalty=0.5, frequency_penalty=1.0), [9, 20, 20])
    after = batch.step({"a": logits})["a"]
    assert float(after[20]) == pytest.approx(float(logits[20]) - 2.5)


def test_a_speaking_row_speaks_under_penalties_too() -> None:
    batch = Batch()
    gates = EngineGates(carried=2, presence_penalty=2.0, repetition_penalty=1.5)
    batch.add("a", gates, [5, 6, 20], presence_penalty=1.0)
    assert said(batch.step({"a": row("nan", 1)})["a"]) == Signal.NON_FINITE


def test_a_ban_holds_at_its_position_alone() -> None:
    batch = Batch()
    batch.add("a", EngineGates(bans=(Ban(0, 20), Ban(1, 21, (30,)), Ban(2, 22, (31,)))))
    batch.add("b", EngineGates())
    banned: list[list[int]] = []
    for token in (30, 31, 32):
        rows = batch.step({"a": row("usual", 1), "b": row("usual", 1)})
        banned.append([t for t in (20, 21, 22) if rows["a"][t].isneginf()])
        assert not rows["b"][[20, 21, 22]].isneginf().any()
        batch.accept("a", token)
        batch.accept("b", token)
    assert banned == [[20], [21], [22]]


@given(
    word=st.lists(st.integers(10, 12), min_size=2, max_size=4),
    output=st.lists(st.integers(10, 12), min_size=1, max_size=8),
    data=st.data(),
)
@settings(deadline=None, max_examples=50)
def test_bad_words_across_the_seam(word: list[int], output: list[int], data: st.DataObject) -> None:
    """vLLM bans the last token of a bad word behind the others; a resumed segment starts afresh,
    and bans make up for it."""
    seam = data.draw(st.integers(0, len(output)))
    text = " ".join(map(str, word))
    whole, resumed = Batch(), Batch()
    whole.add("a", EngineGates(), [1], output[:seam], bad_words=[text])
    bans = seam_bans([word], output[:seam])
    resumed.add("a", EngineGates(bans=bans), [1, *output[:seam]], bad_words=[text])
    for token in output[seam:]:
        logits = {"a": row("usual", 1)}
        assert torch.equal(resumed.step(logits)["a"], whole.step(logits)["a"])
        whole.accept("a", token)
        resumed.accept("a", token)


def test_extra_args_are_checked_at_admission() -> None:
    Plugin.validate_params(SamplingParams())
    Plugin.validate_params(SamplingParams(extra_args={"other": 1}))
    Plugin.validate_params(SamplingParams(extra_args=packed(WISHES[0] or EngineGates())))
    for wrong in ("x", {"edge": "much"}, {"egde": 3}):
        with pytest.raises(ValueError, match=r"Expected|unknown field"):
            Plugin.validate_params(SamplingParams(extra_args={"sluicegate": wrong}))
