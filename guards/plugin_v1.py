"""The plug-in for vLLM's model runner V1: `sluicegate.guards.plugin_v1:Plugin`.

Rows are requests there, and move; slots stay. The numbers of vLLM's own stages: masks (grammar,
allowed ids, bad words), `min_tokens` and `logit_bias` come before, penalties, temperature and the
rest after. Constants come from `additional_config`, a request's wishes from `extra_args`, both
under `engine_gates.KEY`; requests without any are left alone.
"""

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from msgspec import Struct
from torch import Tensor
from vllm.config import VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.v1.sample.logits_processor.interface import (
    BatchUpdate,
    LogitsProcessor,
    MoveDirectionality,
)
from vllm.v1.sample.ops.penalties import apply_all_penalties

from .engine_gates import Ban, EngineGates, constants_in, gates_in
from .plugin_core import PluginCore, Wants


class _Request(Struct):
    """A request in the batch. `produced` is vLLM's own list and grows."""

    slot: int
    gates: EngineGates
    prompt: Sequence[int]
    produced: Sequence[int]

    @property
    def seam(self) -> int:
        """Where in the prompt the carried output begins."""
        return len(self.prompt) - self.gates.carried


class _Penalised(Struct):
    """The rows whose penalties are applied here, until the batch changes. `whole`: that is all."""

    requests: list[_Request]
    rows: Tensor
    whole: bool
    prompts: Tensor
    presence: Tensor
    frequency: Tensor
    repetition: Tensor


class Plugin(LogitsProcessor):
    """Gates 1 and 2 in the engine, bans, and the penalties of resumed segments."""

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Raises ValueError where `extra_args` can't be read."""
        gates_in(sampling_params.extra_args)

    def __init__(
        self,
        vllm_config: VllmConfig,
        device: torch.device,
        is_pin_memory: bool,
    ) -> None:
        del is_pin_memory
        slots = vllm_config.scheduler_config.max_num_seqs
        said = cast("object", vllm_config.additional_config)
        self._core = PluginCore(constants_in(said), slots=slots, device=device)
        self._free = list(range(slots))
        self._requests: dict[int, _Request] = {}
        self._rows: list[_Request | None] = []
        self._slots: Tensor = torch.zeros(0, dtype=torch.int64, device=device)
        self._wants = Wants(anything=False, candidates=False, confidence=False)
        self._penalised: _Penalised | None = None
        self._stale_penalties = False

    def is_argmax_invariant(self) -> bool:
        """A forced sentinel changes it."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow the batch: requests removed, added and moved, in that order."""
        if batch_update is None:
            return
        for row in batch_update.removed:
            self._drop(row)
        for row, params, prompt, produced in batch_update.added:
            self._drop(row)
            if gates := gates_in(params.extra_args):
                slot = self._free.pop()
                self._core.watch(slot, gates)
                self._requests[row] = _Request(slot, gates, prompt or [], produced)
        for source, target, direction in batch_update.moved:
            self._move(source, target, swap=direction is MoveDirectionality.SWAP)
        self._core.flush()
        self._lay_out(batch_update.batch_size)

    def _drop(self, row: int) -> None:
        if request := self._requests.pop(row, None):
            self._core.leave(request.slot)
            self._free.append(request.slot)

    def _move(self, source: int, target: int, *, swap: bool) -> None:
        moved = self._requests.pop(source, None)
        if swap:
            other = self._requests.pop(target, None)
            if other:
                self._requests[source] = other
        else:
            self._drop(target)
        if moved:
            self._requests[target] = moved

    def _lay_out(self, batch_size: int) -> None:
        """What stays the same until the batch changes."""
        self._rows = [self._requests.get(row) for row in range(batch_size)]
        nobody = self._core.nobody
        slots = [request.slot if request else nobody for request in self._rows]
        self._slots = self._core.to_device(slots, torch.int64)
        self._wants = self._core.wants(slots)
        self._penalised = None
        self._stale_penalties = any(request and request.gates.penalises for request in self._rows)

    def apply(self, logits: Tensor) -> Tensor:
        """In place."""
        if not self._wants.anything:
            return logits
        self._ban(logits)
        produced = [len(request.produced) if request else 0 for request in self._rows]
        self._core.apply(
            logits, self._slots, self._core.to_device(produced, torch.int64), self._wants
        )
        self._penalise(logits)
        return logits

    def _ban(self, logits: Tensor) -> None:
        cells = [
            (row, ban.token)
            for row, request in enumerate(self._rows)
            if request and request.gates.bans
            for ban in request.gates.bans
            if applies(ban, request.produced)
        ]
        if cells:
            rows, tokens = self._core.to_device(cells, torch.int64).unbind(1)
            logits.index_put_((rows, tokens), logits.new_full((), -math.inf))

    def _penalise(self, logits: Tensor) -> None:
        """With vLLM's own function, which comes right after its processors anyway: an uninterrupted
        request would have had the same, bit for bit."""
        if self._stale_penalties:
            self._penalised = self._prepare(logits.shape[1])
            self._stale_penalties = False
        if (penalised := self._penalised) is None:
            return
        rows = logits if penalised.whole else logits.index_select(0, penalised.rows)
        outputs = [[*r.prompt[r.seam :], *r.produced] for r in penalised.requests]
        apply_all_penalties(
            rows,
            penalised.prompts,
            penalised.presence,
            penalised.frequency,
            penalised.repetition,
            outputs,
        )
        if not penalised.whole:
            logits.index_copy_(0, penalised.rows, rows)

    def _prepare(self, vocabulary: int) -> _Penalised:
        """Read all of the prompts once for each change of the batch, as vLLM does."""
        found = [(row, r) for row, r in enumerate(self._rows) if r and r.gates.penalises]
        requests = [request for _, request in found]
        longest = max(request.seam for request in requests)
        to_device = self._core.to_device
        prompts: list[Any] = [
            [*request.prompt[: request.seam], *([vocabulary] * (longest - request.seam))]
            for request in requests
        ]
        return _Penalised(
            requests=requests,
            rows=to_device([row for row, _ in found], torch.int64),
            whole=len(found) == len(self._rows),
            prompts=to_device(prompts, torch.int64),
            presence=to_device([request.gates.presence_penalty for request in requests]),
            frequency=to_device([request.gates.frequency_penalty for request in requests]),
            repetition=to_device([request.gates.repetition_penalty for request in requests]),
        )


def applies(ban: Ban, produced: Sequence[int]) -> bool:
    """Whether a ban is in force for a segment's next token. Tokens that are not known yet (-1) are
    no match."""
    at = ban.position
    return len(produced) == at and tuple(produced[at - len(ban.after) :]) == ban.after
