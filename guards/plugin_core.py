"""What the plug-in does to a batch of logits, whatever the model runner. Torch only.

Nothing here waits for the device: no value is read back, a row trips by arithmetic alone. Requests
have *slots*; what a slot wants and what it has seen lies on the device, and rows find it by slot.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

import torch
from torch import Tensor

from .engine_gates import EngineConstants, EngineGates, Signal, sentinel_for

# A token is a candidate from here on (probability).
CANDIDATE: Final = 1e-5
# Largest probability times the vocabulary: 1 for a row that was sanitised (NaN to a number), and is
# flat; a language model's rows have hundreds. Where a mask leaves less than half of the vocabulary,
# a flat row can't be told from a choice among equals.
_UNIFORM_BELOW: Final = 2.0
# A smaller vocabulary may be flat by chance.
_UNIFORM_FROM: Final = 1000
# As the bits of a float32.
_NEGATIVE_INFINITY: Final = -0x00800000
_OFF: Final = math.inf


class Column(IntEnum):
    """Where a slot's numbers lie; two columns of limits are compared at once."""

    MAX_PROBABILITY = 0
    MIN_CANDIDATES = 1
    LOW_EDGE = 2
    FEW_EDGE = 3
    LOW_MIDDLE = 4
    FEW_MIDDLE = 5
    # In tokens of this segment.
    START_UNTIL = 6
    END_FROM = 7
    WINDOW = 8
    MIN_CONFIDENCE = 9
    ACTIVE = 10


class Wants(NamedTuple):
    """What any request of a batch wants; the rest is not computed."""

    anything: bool
    candidates: bool
    confidence: bool


_NOTHING: Final = Wants(anything=False, candidates=False, confidence=False)


class PluginCore:
    """Masks denied ids, judges each row, and lets rows that trip say so: the whole row is -inf but
    for a sentinel.

    A row is judged as the model and vLLM's masks left it, before temperature. A streak counts the
    judged steps of its slot in a row. A slot that is judged again at the same place (the rows of a
    prompt that is still being read are sampled, and the sample dropped) takes back what it had
    learnt there before.
    """

    def __init__(self, constants: EngineConstants, *, slots: int, device: torch.device) -> None:
        """`slots` requests at a time at most."""
        sentinels = [sentinel_for(signal, constants.sentinels) for signal in _signals(constants)]
        denied = sorted({*constants.denied, *sentinels})
        self._device = device
        self._denied = torch.tensor(denied, dtype=torch.int64, device=device)
        self._sentinels = torch.tensor(sentinels, dtype=torch.int64, device=device)
        # One row more: the slot of rows that are not to be touched or not to be remembered.
        self.nobody = slots
        self._gates = torch.zeros(slots + 1, len(Column), device=device)
        # Streaks of low confidence and of few candidates, mean of ln p, steps seen.
        self._before = torch.zeros(slots + 1, 4, device=device)
        self._after = torch.zeros(slots + 1, 4, device=device)
        self._last = torch.full((slots + 1,), -1, dtype=torch.int64, device=device)
        self._room = torch.empty(0, 0, device=device)
        self._staged: dict[int, list[float]] = {}
        self._wants: dict[int, Wants] = {}

    def watch(self, slot: int, gates: EngineGates) -> None:
        """A request takes a slot. Written to the device by the next `flush`."""
        self._staged[slot] = _numbers(gates)
        self._wants[slot] = Wants(
            anything=True,
            candidates=gates.few_candidates_edge > 0 or gates.few_candidates_middle > 0,
            confidence=gates.confidence_window > 0,
        )

    def leave(self, slot: int) -> None:
        """The slot's rows are let be from now on."""
        if self._wants.pop(slot, None):
            self._staged[slot] = [0.0] * len(Column)

    def flush(self) -> None:
        """Bring slots that were taken or left to the device."""
        if not self._staged:
            return
        slots = self.to_device(list(self._staged), torch.int64)
        self._gates.index_copy_(0, slots, self.to_device(list(self._staged.values())))
        self._before.index_fill_(0, slots, 0.0)
        self._after.index_fill_(0, slots, 0.0)
        self._last.index_fill_(0, slots, -1)
        self._staged.clear()

    def wants(self, slots: Iterable[int]) -> Wants:
        """What the requests in these slots want together."""
        found = [self._wants[slot] for slot in slots if slot in self._wants]
        return Wants(*(any(column) for column in zip(*found, strict=True))) if found else _NOTHING

    def to_device(self, values: Sequence[object], dtype: torch.dtype = torch.float32) -> Tensor:
        """Host values as a tensor on the device, without waiting for it."""
        if self._device.type != "cuda":
            return torch.tensor(values, dtype=dtype, device=self._device)
        return torch.tensor(values, dtype=dtype, pin_memory=True).to(
            self._device, non_blocking=True
        )

    def apply(
        self,
        logits: Tensor,
        slots: Tensor,
        produced: Tensor,
        wants: Wants,
        *,
        remember: Tensor | None = None,
    ) -> None:
        """Judge and change float32 `logits` [rows, vocabulary] in place. By row, int64: its slot
        (`nobody` for a row that is none of ours) and the number of tokens its segment has produced
        so far. `remember` (bool by row) are the rows that advance their slot, at most one for each;
        all of them by default."""
        if not wants.anything:
            return
        gates = self._gates.index_select(0, slots)
        active = gates[:, Column.ACTIVE] > 0
        if self._denied.numel():
            row = logits.index_select(1, self._denied)
            row = torch.where(active[:, None], -math.inf, row)
            logits.index_copy_(1, self._denied, row)
        if not self._sentinels.numel():
            return
        written = slots if remember is None else torch.where(remember, slots, self.nobody)
        trips = self._judge(logits, gates, slots, produced, written, wants)
        tripped = trips.any(1) & active
        # The first of the largest: the gravest signal.
        sentinel = self._sentinels.index_select(0, trips.to(torch.uint8).argmax(1))[:, None]
        # As integers, because a NaN survives every arithmetic on floats; `where` and `masked_fill`
        # do it too, at ten times the cost on a CPU.
        bits = logits.view(torch.int32)
        flags = tripped[:, None].to(torch.int32)
        bits.bitwise_and_(flags - 1).bitwise_or_(flags * _NEGATIVE_INFINITY)
        forced = torch.where(tripped[:, None], 0.0, logits.gather(1, sentinel))
        logits.scatter_(1, sentinel, forced)

    def _room_for(self, logits: Tensor) -> Tensor | None:
        """Where a step's probabilities go. On a CPU memory of this size would be asked of the
        system anew for each step, which costs more than to fill it."""
        if self._device.type != "cpu":
            return None
        if self._room.shape[0] < logits.shape[0] or self._room.shape[1] != logits.shape[1]:
            self._room = torch.empty_like(logits)
        return self._room[: logits.shape[0]]

    def _judge(
        self,
        logits: Tensor,
        gates: Tensor,
        slots: Tensor,
        produced: Tensor,
        written: Tensor,
        wants: Wants,
    ) -> Tensor:
        """Which signals each row gives: bool [rows, signals]."""
        probabilities = torch.softmax(logits, -1, out=self._room_for(logits))
        largest = probabilities.amax(-1)
        if wants.candidates:
            candidates = torch.gt(probabilities, CANDIDATE, out=torch.empty_like(logits)).sum(-1)
        else:
            candidates = torch.full_like(largest, math.inf)
        # A NaN or +Inf anywhere, or -Inf everywhere, makes the whole row of probabilities NaN.
        non_finite = largest.isnan()
        uniform = largest < _UNIFORM_BELOW / max(logits.shape[1], _UNIFORM_FROM)

        last = self._last.index_select(0, slots)
        seen = torch.where(
            (last == produced)[:, None],
            self._before.index_select(0, slots),
            self._after.index_select(0, slots),
        )
        at_edge = (produced < gates[:, Column.START_UNTIL]) | (
            produced >= gates[:, Column.END_FROM]
        )
        limits = torch.where(
            at_edge[:, None],
            gates[:, Column.LOW_EDGE : Column.FEW_EDGE + 1],
            gates[:, Column.LOW_MIDDLE : Column.FEW_MIDDLE + 1],
        )
        measured = torch.stack((largest, candidates), 1)
        weak = measured < gates[:, Column.MAX_PROBABILITY : Column.MIN_CANDIDATES + 1]
        streaks = (seen[:, :2] + 1) * weak
        steps = seen[:, 3] + 1
        if wants.confidence:
            window = gates[:, Column.WINDOW]
            # A single step counts for no more than the streaks' limit: those are their business.
            floored = torch.maximum(largest, gates[:, Column.MAX_PROBABILITY])
            mean = torch.lerp(seen[:, 2], floored.log(), 1 / torch.minimum(steps, window))
            lost = (steps >= window) & (mean < gates[:, Column.MIN_CONFIDENCE])
        else:
            mean = seen[:, 2]
            lost = torch.zeros_like(non_finite)

        self._before.index_copy_(0, written, seen)
        now = torch.cat((streaks, mean[:, None], steps[:, None]), 1)
        self._after.index_copy_(0, written, now)
        self._last.index_copy_(0, written, produced)
        long = streaks >= limits
        return torch.stack((non_finite, uniform, long[:, 0], long[:, 1], lost), 1)


def _signals(constants: EngineConstants) -> Sequence[Signal]:
    return tuple(Signal) if constants.sentinels else ()


_LIMITS: Final[Mapping[Column, str]] = {
    Column.LOW_EDGE: "low_confidence_edge",
    Column.FEW_EDGE: "few_candidates_edge",
    Column.LOW_MIDDLE: "low_confidence_middle",
    Column.FEW_MIDDLE: "few_candidates_middle",
}


def _numbers(gates: EngineGates) -> list[float]:
    """The row of a slot, by Column."""
    row = [0.0] * len(Column)
    row[Column.MAX_PROBABILITY] = gates.max_probability
    row[Column.MIN_CANDIDATES] = gates.min_candidates
    for column, name in _LIMITS.items():
        row[column] = getattr(gates, name) or _OFF
    row[Column.START_UNTIL] = gates.edge - gates.position
    row[Column.END_FROM] = (
        gates.max_tokens - gates.edge - gates.position if gates.max_tokens else _OFF
    )
    row[Column.WINDOW] = gates.confidence_window or _OFF
    row[Column.MIN_CONFIDENCE] = gates.min_confidence
    row[Column.ACTIVE] = 1.0
    return row
