"""Puts ordered faults into a running vLLM, as logits processors. For tests and the demo.

For runner V1 of vLLM 0.32 (`vllm.v1.sample.logits_processor.interface`). Only rows of requests that
ask for a fault are touched. This one may wait for the device: nobody's traffic runs here.
"""

import math
from typing import Final

import msgspec
import torch
from vllm import SamplingParams
from vllm.config import VllmConfig
from vllm.v1.sample.logits_processor.builtin import process_dict_updates
from vllm.v1.sample.logits_processor.interface import BatchUpdate, LogitsProcessor

from .faults import KEY, PAST_THE_MASK, Fault, Strike

# By how much, in nats, a forced token is likelier than all others together: one miss in 8,000.
_LEAD: Final = 9.0
# What is left of the model's opinion in a salad, and the noise beside it, in nats.
_FLATTEN: Final = 50.0
_NOISE: Final = 0.5


class _Struck:
    """A request with a fault coming. `tokens` is vLLM's own list of what it has brought so far."""

    def __init__(self, strike: Strike, tokens: list[int], temperature: float) -> None:
        self.strike = strike
        self.tokens = tokens
        self.temperature = temperature


class _Faults(LogitsProcessor):
    """Strikes at the rows whose time has come."""

    kinds: frozenset[Fault]

    def __init__(
        self,
        vllm_config: VllmConfig,  # noqa: ARG002  the interface's
        device: torch.device,
        is_pin_memory: bool,  # noqa: ARG002  the interface's
    ) -> None:
        self._device = device
        self._rows: dict[int, _Struck] = {}
        # Who has had the fault of a key. A request that vLLM preempts comes back as another one.
        self._had: dict[str, _Struck] = {}

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Raises ValueError where a fault is asked for in a way that can't be read."""
        _strike(sampling_params)

    def is_argmax_invariant(self) -> bool:
        """Faults change what is chosen."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """vLLM's requests come, go and move."""
        process_dict_updates(self._rows, batch_update, self._new)

    def _new(
        self,
        params: SamplingParams,
        prompt: list[int] | None,  # noqa: ARG002  the interface's
        tokens: list[int],
    ) -> _Struck | None:
        strike = _strike(params)
        if strike is None or strike.kind not in self.kinds:
            return None
        return _Struck(strike, tokens, params.temperature)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """The next token's logits, a row for each request."""
        for row, struck in self._rows.items():
            position = len(struck.tokens)
            if struck.strike.covers(position) and self._is_first(struck):
                logits[row] = self._spoilt(logits[row], struck, position)
        return logits

    def _is_first(self, struck: _Struck) -> bool:
        key = struck.strike.key
        return not key or self._had.setdefault(key, struck) is struck

    def _spoilt(self, row: torch.Tensor, struck: _Struck, position: int) -> torch.Tensor:
        strike = struck.strike
        match strike.kind:
            case Fault.NAN:
                return torch.full_like(row, math.nan)
            case Fault.UNIFORM:
                return torch.zeros_like(row)
            case Fault.SALAD:
                return _flattened(row, strike.seed, position)
            case _:
                token = strike.token(position)
                assert token is not None  # noqa: S101  an order of these kinds has ids
                if strike.kind in PAST_THE_MASK:
                    return _only(row, token)
                return _leading(row, token, struck.temperature)


class FaultsBefore(_Faults):
    """Those that a gate in the engine can see, or may overrule: list it before the gate."""

    kinds = frozenset(Fault) - PAST_THE_MASK


class FaultsAfter(_Faults):
    """Those that get past the gate's mask: list it behind the gate."""

    kinds = PAST_THE_MASK


def _strike(params: SamplingParams) -> Strike | None:
    asked = (params.extra_args or {}).get(KEY)
    return None if asked is None else msgspec.convert(asked, Strike)


def _flattened(row: torch.Tensor, seed: int, position: int) -> torch.Tensor:
    """Little of the model's opinion and a seeded noise, so that greedy, too, picks anything."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + position)
    noise = torch.randn(row.shape, generator=generator).to(row)
    return row.clamp(min=-1000.0) / _FLATTEN + _NOISE * noise


def _only(row: torch.Tensor, token: int) -> torch.Tensor:
    forced = torch.full_like(row, -math.inf)
    forced[token] = 0.0
    return forced


def _leading(row: torch.Tensor, token: int, temperature: float) -> torch.Tensor:
    """The model is sure of this token, at any temperature; the others keep their order, so that a
    gate that forbids the token still gets the next best."""
    # A temperature above 1 lifts the others together by at most ln(V) · (T - 1) / T.
    heat = max(1.0, temperature)
    lead = heat * (_LEAD + math.log(row.shape[-1]) * (1 - 1 / heat))
    likely = torch.log_softmax(row, dim=-1)
    likely[token] = lead
    return likely
