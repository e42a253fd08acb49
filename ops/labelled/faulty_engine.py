"""The real engine in this process, so that a fault can be put into it between two steps.

vLLM with its model runner in reach: weights and KV cache are ordinary tensors here.
"""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from msgspec import Struct

from ..embedded_model import offline_environment

# In this process, and before vLLM is imported.
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
# One thread: where others use the cores too, several would wait for each other at every layer.
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.update(offline_environment())

from vllm import LLM, SamplingParams

_MAX_LEN: Final = 768
_AT_ONCE: Final = 64
_LONGEST_PROMPT: Final = 256


class Request(Struct, frozen=True, kw_only=True):
    """A prompt and how to sample behind it."""

    prompt: list[int]
    max_tokens: int
    temperature: float
    seed: int
    top_p: float = 1.0


class Answer(Struct, frozen=True, kw_only=True):
    """The ids that came; how many had come when the fault was put in; whether it ended itself."""

    ids: list[int]
    before_fault: int | None
    ended: bool


class FaultyEngine:
    """vLLM, and the ways to break it and to mend it again."""

    def __init__(self, model: str) -> None:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        self._llm: Any = LLM(
            model,
            max_model_len=_MAX_LEN,
            max_num_seqs=_AT_ONCE,
            # Whole prompts in one step: vLLM 0.32 on CPU dies of a prompt in parts with a seed.
            max_num_batched_tokens=_AT_ONCE * _LONGEST_PROMPT,
            enforce_eager=True,
            enable_prefix_caching=False,  # a poisoned block must not come back
            block_size=32,
        )
        core = self._llm.llm_engine.engine_core.engine_core
        self._runner: Any = core.model_executor.driver_worker.worker.model_runner

    def answer(
        self,
        requests: Sequence[Request],
        progress: Callable[[int], None],
        *,
        fault_after: int | None = None,
        fault: Callable[[], None] = lambda: None,
        enough: Callable[[list[int]], bool] = lambda _: False,
    ) -> list[Answer]:
        """All answers, batched. The fault is put in once each request of a batch that still runs
        has `fault_after` tokens. A request ends early when what it has is `enough`."""
        answers: list[Answer] = []
        for start in range(0, len(requests), _AT_ONCE):
            batch = requests[start : start + _AT_ONCE]
            answers += self._batch(batch, fault_after, fault, enough)
            progress(len(answers))
        return answers

    def _batch(
        self,
        batch: Sequence[Request],
        fault_after: int | None,
        fault: Callable[[], None],
        enough: Callable[[list[int]], bool],
    ) -> list[Answer]:
        engine = self._llm.llm_engine
        for number, one in enumerate(batch):
            engine.add_request(
                str(number),
                {"prompt_token_ids": one.prompt},
                SamplingParams(
                    temperature=one.temperature,
                    top_p=one.top_p,
                    max_tokens=one.max_tokens,
                    seed=one.seed,
                    detokenize=False,
                ),
            )
        ids: list[list[int]] = [[] for _ in batch]
        ended = [False] * len(batch)
        running = set(range(len(batch)))
        before: list[int] | None = None
        while engine.has_unfinished_requests():
            for output in engine.step():
                number, part = int(output.request_id), output.outputs[0]
                ids[number] = list(part.token_ids)
                if output.finished:
                    running.discard(number)
                    ended[number] = part.finish_reason == "stop"
                elif enough(ids[number]):
                    running.discard(number)
                    engine.abort_request([output.request_id])
            if (
                fault_after is not None
                and before is None
                and all(len(ids[number]) >= fault_after for number in running)
            ):
                before = [len(one) for one in ids]
                fault()
        faulty = before or [None] * len(batch)
        return [
            Answer(ids=one, before_fault=at, ended=end)
            for one, at, end in zip(ids, faulty, ended, strict=True)
        ]

    def surprise(self, texts: Sequence[tuple[list[int], list[int]]]) -> list[float]:
        """For each (what stood before, tokens) the mean negative logprob of the tokens, in nats."""
        outputs = self._llm.generate(
            [{"prompt_token_ids": before + tokens} for before, tokens in texts],
            SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=0, detokenize=False),
            use_tqdm=False,
        )
        found: list[float] = []
        for (before, tokens), output in zip(texts, outputs, strict=True):
            row = output.prompt_logprobs[len(before) :]
            total = sum(at[token].logprob for at, token in zip(row, tokens, strict=True))
            found.append(-total / len(tokens))
        return found

    @contextmanager
    def noise_in_weights(self, strength: float, seed: int) -> Generator[None]:
        """Every norm's weights multiplied by 1 + noise of this standard deviation."""
        draw = torch.Generator().manual_seed(seed)
        norms = self._norms()
        clean = [one.clone() for one in norms]
        try:
            for one in norms:
                noise = torch.randn(one.shape, generator=draw) * strength
                one.mul_((1 + noise).to(one.dtype))
            yield
        finally:
            for one, was in zip(norms, clean, strict=True):
                one.copy_(was)

    @contextmanager
    def nan_when_called(self) -> Generator[Callable[[], None]]:
        """A call of what is given makes the last norm NaN, and with it every logit."""
        last = self._norms()[-1]
        was = last.clone()
        try:
            yield lambda: _fill(last, float("nan"))
        finally:
            last.copy_(was)

    def noise_in_cache(self, strength: float, seed: int) -> None:
        """Noise on every key and value that is there, in units of their standard deviation."""
        draw = torch.Generator().manual_seed(seed)
        for layer in self._caches():
            noise = torch.randn(layer.shape, generator=draw).to(layer.dtype)
            layer.add_(noise * (layer.float().std() * strength).to(layer.dtype))

    def swap_cache_blocks(self) -> None:
        """Every block's keys and values in the place of its neighbour's, as after a wrong table."""
        for layer in self._caches():
            layer.copy_(layer.roll(1, 0).flip(2))

    def _norms(self) -> list[torch.Tensor]:
        named = self._runner.model.named_parameters()
        return [weight.data for name, weight in named if "norm" in name]

    def _caches(self) -> list[torch.Tensor]:
        used: list[torch.Tensor] = []
        for layer in self._runner.kv_caches:
            filled = layer.flatten(1).abs().amax(1).nonzero()
            used.append(layer[: int(filled.max()) + 2] if len(filled) else layer[:1])
        return used


def _fill(weight: torch.Tensor, value: float) -> None:
    weight.fill_(value)
