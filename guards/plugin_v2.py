"""The plug-in for vLLM's model runner V2: `sluicegate.guards.plugin_v2:Plugin`.

Requests keep their slots there, rows are laid out anew in every step, and under speculative
decoding a request has one row for each drafted token: every row is judged, and the first one alone
advances what the slot remembers, so that a streak counts steps of the engine. vLLM's bias,
penalties, bad words and grammar come before, so penalties are applied first here. Constants and
wishes come as in `plugin_v1`.
"""

import math
from typing import Final, cast

import numpy as np
import torch
from msgspec import Struct
from torch import Tensor
from vllm.config import VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.utils.math_utils import cdiv
from vllm.v1.worker.gpu.sample.logits_processor.interface import (
    LogitsContext,
    LogitsProcessor,
    LogitsProcRequestState,
)

from .engine_gates import EngineGates, constants_in, gates_in
from .plugin_core import PluginCore

_NO_TOKEN: Final = -1


class _Bans(Struct):
    """The bans of one request, on the device; `after` is padded in front: its last column is the
    token right before."""

    positions: Tensor
    tokens: Tensor
    after: Tensor
    last: int  # position: no ban behind it


class Plugin(LogitsProcessor):
    """Gates 1 and 2 in the engine, bans, and the penalties of resumed segments."""

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Raises ValueError where `extra_args` can't be read."""
        gates_in(sampling_params.extra_args)

    def __init__(self, vllm_config: VllmConfig, req_states: LogitsProcRequestState) -> None:
        super().__init__(vllm_config, req_states)
        said = cast("object", vllm_config.additional_config)
        self._core = PluginCore(
            constants_in(said), slots=req_states.max_num_reqs, device=req_states.device
        )
        self._states = req_states
        self._drafts = vllm_config.speculative_config is not None
        self._penalised: dict[int, EngineGates] = {}
        self._bans: dict[int, _Bans] = {}

    def add_request(self, req_idx: int, sampling_params: SamplingParams) -> bool:
        """Take the slot, whoever had it."""
        self._penalised.pop(req_idx, None)
        self._bans.pop(req_idx, None)
        gates = gates_in(sampling_params.extra_args)
        if gates is None:
            self._core.leave(req_idx)
            return False
        self._core.watch(req_idx, gates)
        if gates.penalises:
            self._penalised[req_idx] = gates
        if gates.bans:
            self._bans[req_idx] = self._prepare(gates)
        return True

    def apply_staged_writes(self) -> None:
        """Bring the slots that were taken to the device."""
        self._core.flush()

    def apply(self, logits: Tensor, ctx: LogitsContext) -> Tensor:
        """In place."""
        slots_here = cast("list[int]", ctx.idx_mapping_np.tolist())
        wants = self._core.wants(slots_here)
        if not wants.anything:
            return logits
        slots = ctx.expanded_idx_mapping.long()
        visible = ctx.pos.long() + 1
        produced = visible - self._states.prompt_len.gpu.index_select(0, slots)
        if penalised := [slot for slot in slots_here if slot in self._penalised]:
            self._penalise(logits, ctx, slots, penalised)
        self._ban(logits, ctx, slots, produced)
        # A prompt that is still being read is sampled too, and the sample dropped.
        reading = visible < self._states.prefill_len.gpu.index_select(0, slots)
        self._core.apply(
            logits,
            torch.where(reading, self._core.nobody, slots),
            produced,
            wants,
            remember=ctx.expanded_local_pos == 0,
        )
        return logits

    def _penalise(
        self, logits: Tensor, ctx: LogitsContext, slots: Tensor, penalised: list[int]
    ) -> None:
        """With vLLM's own kernels and its order, on counts that begin where the output began."""
        # Triton is behind them: there is none where the frontend only checks parameters.
        from vllm.v1.worker.gpu.sample.penalties import (  # noqa: PLC0415
            apply_penalties,
            bincount,
        )

        to_device, states = self._core.to_device, self._states
        count, vocabulary, device = len(penalised), logits.shape[1], logits.device
        # One more, neutral, for the rows of others: the kernel lets them be.
        wishes = [*(self._penalised[slot] for slot in penalised), EngineGates()]
        theirs = to_device(penalised, torch.int64)
        places = torch.arange(count, dtype=torch.int32, device=device)
        place_of = torch.full(
            (states.max_num_reqs,), count, dtype=torch.int32, device=device
        ).index_copy_(0, theirs, places)
        longest = int(np.max(ctx.seq_lens_upper_bound_np))
        seams = states.prompt_len.gpu.index_select(0, theirs) - to_device(
            [wish.carried for wish in wishes[:-1]], torch.int32
        )
        prompts = torch.empty(count + 1, cdiv(vocabulary, 32), dtype=torch.int32, device=device)
        outputs = torch.empty(count + 1, vocabulary, dtype=torch.int32, device=device)
        bincount(
            places,
            states.all_token_ids.gpu[:, :longest].index_select(0, theirs),
            seams,
            states.total_len.gpu.index_select(0, theirs),
            prompts,
            outputs,
            longest,
        )
        apply_penalties(
            logits,
            place_of.index_select(0, slots),
            ctx.input_ids,
            ctx.expanded_local_pos,
            to_device([wish.repetition_penalty for wish in wishes]),
            to_device([wish.frequency_penalty for wish in wishes]),
            to_device([wish.presence_penalty for wish in wishes]),
            prompts,
            outputs,
        )

    def _prepare(self, gates: EngineGates) -> _Bans:
        bans, to_device = gates.bans, self._core.to_device
        longest = max(len(ban.after) for ban in bans)
        after = [[*([_NO_TOKEN] * (longest - len(ban.after))), *ban.after] for ban in bans]
        return _Bans(
            positions=to_device([ban.position for ban in bans], torch.int64),
            tokens=to_device([ban.token for ban in bans], torch.int64),
            after=to_device(after, torch.int64),
            last=max(ban.position for ban in bans),
        )

    def _ban(self, logits: Tensor, ctx: LogitsContext, slots: Tensor, produced: Tensor) -> None:
        for slot, visible in zip(ctx.idx_mapping_np, ctx.seq_lens_upper_bound_np, strict=True):
            bans = self._bans.get(int(slot))
            if bans is None:
                continue
            # With drafts `visible` may be too much.
            if not self._drafts and visible - self._states.prompt_len.np[slot] > bans.last:
                del self._bans[int(slot)]
                continue
            length = bans.after.shape[1]
            before = self._before(ctx, slots, length)[:, None, :]
            matches = ((bans.after == before) | (bans.after == _NO_TOKEN)).all(2)
            here = (slots == int(slot))[:, None] & (produced[:, None] == bans.positions)
            forbidden = torch.where(here & matches, -math.inf, math.inf)
            tokens = bans.tokens.expand(len(slots), -1)
            logits.scatter_reduce_(1, tokens, forbidden, "amin")

    def _before(self, ctx: LogitsContext, slots: Tensor, length: int) -> Tensor:
        """The last `length` tokens that each row sees, drafts included: [rows, length]."""
        back = torch.arange(length - 1, -1, -1, device=slots.device)
        rows = torch.arange(len(slots), device=slots.device)[:, None]
        drafted = ctx.input_ids.long()[(rows - back).clamp_(min=0)]
        committed = self._states.all_token_ids.gpu[
            slots[:, None], (ctx.pos.long()[:, None] - back).clamp_(min=0)
        ]
        return torch.where(back <= ctx.expanded_local_pos[:, None], drafted, committed.long())
