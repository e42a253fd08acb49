"""Rows of logits of each kind, and what the plug-in ought to say to them, step by step."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from sluicegate.guards.engine_gates import EngineConstants, EngineGates, Signal, signal_of
from torch import Tensor

VOCABULARY = 1500
CONSTANTS = EngineConstants(denied=(3, 4, 5, 6, 7, 8, 9), sentinels=(5, 6, 7, 8, 9))
KINDS = ("sure", "usual", "weak", "single", "flat", "nan", "infinity", "nothing", "masked")


def row(kind: str, seed: int) -> Tensor:
    """One row. Denied ids are likely: the mask must be what keeps them out."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(VOCABULARY, generator=generator)
    top = int(torch.randint(10, VOCABULARY, (1,), generator=generator))
    match kind:
        case "sure":
            logits[top] += 12
        case "usual":
            logits[top] += 5
            logits *= 2
        case "weak":
            logits *= 0.5
            logits[top] = 1.5
        case "single":
            logits[top] += 60
        case "flat":
            logits.zero_()
        case "nan":
            logits[top] = math.nan
        case "infinity":
            logits[top] = math.inf
        case "nothing":
            logits.fill_(-math.inf)
        case "masked":
            logits[10:1000] = -math.inf
            logits[top] = 20
        case _:
            raise AssertionError(kind)
    logits[3:10] += 3
    return logits


class Reference:
    """The signals of one request, row by row on the host: the rules written a second time."""

    def __init__(self, gates: EngineGates) -> None:
        self.gates = gates
        self.low = self.few = self.steps = 0
        self.mean = 0.0

    def step(self, logits: Tensor, produced: int) -> Signal | None:
        """The gravest signal of the next row."""
        gates = self.gates
        values = np.delete(logits.numpy().astype(np.float64), CONSTANTS.denied)
        finite = values[np.isfinite(values)]
        if not finite.size or np.isnan(values).any() or np.isposinf(values).any():
            self.low = 0
            # What is no distribution has no candidates.
            self.few += 1
            self.steps += 1
            self.mean = math.nan
            return Signal.NON_FINITE
        weights = np.exp(finite - finite.max())
        largest = float(1 / weights.sum())
        candidates = int((weights * largest > 1e-5).sum())
        self.low = self.low + 1 if largest < gates.max_probability else 0
        self.few = self.few + 1 if candidates < gates.min_candidates else 0
        self.steps += 1
        weight = 1 / min(self.steps, gates.confidence_window or math.inf)
        self.mean += weight * (math.log(max(largest, self.gates.max_probability)) - self.mean)
        if largest * max(VOCABULARY, 1000) < 2:
            return Signal.UNIFORM
        place = gates.position + produced
        edge = place < gates.edge or (
            gates.max_tokens > 0 and place >= gates.max_tokens - gates.edge
        )
        low = gates.low_confidence_edge if edge else gates.low_confidence_middle
        few = gates.few_candidates_edge if edge else gates.few_candidates_middle
        if low and self.low >= low:
            return Signal.LOW_CONFIDENCE
        if few and self.few >= few:
            return Signal.FEW_CANDIDATES
        window = gates.confidence_window
        if window and self.steps >= window and self.mean < gates.min_confidence:
            return Signal.LOST_CONFIDENCE
        return None


def expected(gates: EngineGates, rows: Iterable[Tensor]) -> list[Signal | None]:
    """What a request ought to hear, from its first token on."""
    reference = Reference(gates)
    return [reference.step(logits, produced) for produced, logits in enumerate(rows)]


def said(logits: Tensor, sentinels: Sequence[int] = CONSTANTS.sentinels) -> Signal | None:
    """What a row says after the plug-in. A row that speaks says nothing else."""
    alive = [int(token) for token in np.flatnonzero(~np.isneginf(logits.numpy()))]
    if len(alive) == 1 and alive[0] in sentinels:
        assert logits[alive[0]] == 0
        return signal_of(alive[0], sentinels)
    assert not {*alive} & {*CONSTANTS.denied}
    return None
