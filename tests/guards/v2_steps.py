"""Steps of runner V2 as a processor sees them: vLLM's own state and context objects, on the CPU."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import torch
from sluicegate.guards.engine_gates import EngineGates, packed
from torch import Tensor

from .logit_rows import CONSTANTS, VOCABULARY

with warnings.catch_warnings():
    # Of vLLM's and torch's own making, as they are imported.
    warnings.simplefilter("ignore")
    from sluicegate.guards.plugin_v2 import Plugin
    from vllm.config import VllmConfig
    from vllm.sampling_params import SamplingParams
    from vllm.v1.worker.cpu.buffer_utils import UvaBuffer
    from vllm.v1.worker.gpu import buffer_utils
    from vllm.v1.worker.gpu.sample.logits_processor.interface import (
        LogitsContext,
        LogitsProcessor,
        LogitsProcRequestState,
    )

CPU = torch.device("cpu")
SLOTS = 6
LENGTH = 96


def config(*, drafting: bool) -> VllmConfig:
    """What is read of it. A real one with drafts wants a model to draft with."""
    draft = SimpleNamespace() if drafting else None
    read = SimpleNamespace(additional_config=packed(CONSTANTS), speculative_config=draft)
    return cast("VllmConfig", read)


def request_states() -> LogitsProcRequestState:
    return LogitsProcRequestState(
        device=CPU,
        max_num_reqs=SLOTS,
        vocab_size=VOCABULARY,
        all_token_ids=buffer_utils.StagedWriteTensor((SLOTS, LENGTH), torch.int32, CPU),
        prompt_len=buffer_utils.UvaBackedTensor(SLOTS, torch.int32),
        prefill_len=buffer_utils.UvaBackedTensor(SLOTS, torch.int32),
        total_len=buffer_utils.StagedWriteTensor(SLOTS, torch.int32, CPU),
    )


class Runner:
    """A processor and the requests in their slots."""

    def __init__(
        self,
        make: Callable[[VllmConfig, LogitsProcRequestState], LogitsProcessor] = Plugin,
        *,
        drafting: bool = False,
    ) -> None:
        with patch.object(buffer_utils, "UvaBuffer", UvaBuffer):
            self.states = request_states()
            self.processor = make(config(drafting=drafting), self.states)

    def add(
        self,
        slot: int,
        gates: EngineGates | None,
        prompt: Sequence[int] = (1, 2),
        produced: Sequence[int] = (),
        **params: Any,
    ) -> None:
        """As the runner adds a request; one that comes back after preemption has `produced`."""
        tokens = [*prompt, *produced]
        states = self.states
        # The runner stages this write; the kernel that carries it out wants Triton.
        states.all_token_ids.gpu[slot, : len(tokens)] = torch.tensor(tokens, dtype=torch.int32)
        states.total_len.gpu[slot] = len(tokens)
        states.prompt_len.np[slot] = len(prompt)
        states.prefill_len.np[slot] = len(tokens)
        states.prompt_len.copy_to_uva()
        states.prefill_len.copy_to_uva()
        extra = packed(gates) if gates else None
        self.processor.add_request(slot, SamplingParams(extra_args=extra, **params))

    def accept(self, slot: int, *tokens: int) -> None:
        states = self.states
        total = int(states.total_len.gpu[slot])
        new = torch.tensor(tokens, dtype=torch.int32)
        states.all_token_ids.gpu[slot, total : total + len(tokens)] = new
        states.total_len.gpu[slot] = total + len(tokens)

    def step(
        self,
        rows: Mapping[int, Sequence[Tensor]],
        drafts: Mapping[int, Sequence[int]] | None = None,
        reading: Mapping[int, int] | None = None,
    ) -> dict[int, Tensor]:
        """The processed rows of each slot, in the order of `rows`: one for its next token and one
        for each that was drafted. `reading` says how far a slot's prompt has been read."""
        slots: list[int] = []
        local: list[int] = []
        positions: list[int] = []
        inputs: list[int] = []
        seen: list[int] = []
        for slot, mine in rows.items():
            total = (reading or {}).get(slot, int(self.states.total_len.gpu[slot]))
            last = int(self.states.all_token_ids.gpu[slot, total - 1])
            drafted = [*(drafts or {}).get(slot, ())]
            assert len(mine) == 1 + len(drafted)
            seen.append(total + len(drafted))
            for place, token in enumerate([last, *drafted]):
                slots.append(slot)
                local.append(place)
                positions.append(total - 1 + place)
                inputs.append(token)
        context = LogitsContext(
            expanded_idx_mapping=torch.tensor(slots, dtype=torch.int32),
            idx_mapping=torch.tensor(list(rows), dtype=torch.int32),
            idx_mapping_np=np.array(list(rows)),
            expanded_local_pos=torch.tensor(local, dtype=torch.int32),
            input_ids=torch.tensor(inputs, dtype=torch.int32),
            pos=torch.tensor(positions),
            seq_lens_upper_bound_np=np.array(seen),
        )
        logits = torch.stack([row for mine in rows.values() for row in mine])
        self.processor.apply_staged_writes()
        logits = self.processor.apply(logits, context)
        places = iter(range(len(logits)))
        return {slot: torch.stack([logits[next(places)] for _ in rows[slot]]) for slot in rows}
