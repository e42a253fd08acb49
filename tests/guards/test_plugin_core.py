"""The core of the plug-in against plain arithmetic."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.guards.engine_gates import EngineConstants, EngineGates, Signal
from sluicegate.guards.plugin_core import PluginCore
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from .logit_rows import CONSTANTS, KINDS, VOCABULARY, expected, row, said

CPU = torch.device("cpu")
STREAKS = EngineGates(low_confidence_edge=2, low_confidence_middle=4, edge=3, max_tokens=14)
ALL = EngineGates(
    low_confidence_edge=2,
    low_confidence_middle=3,
    few_candidates_edge=2,
    few_candidates_middle=3,
    edge=2,
    max_tokens=12,
    confidence_window=4,
    min_confidence=-3.3,
)

streaks = st.integers(0, 4)
gates = st.builds(
    EngineGates,
    low_confidence_edge=streaks,
    low_confidence_middle=streaks,
    few_candidates_edge=streaks,
    few_candidates_middle=streaks,
    edge=st.integers(0, 5),
    confidence_window=st.sampled_from([0, 0, 1, 3, 6]),
    # Between what the kinds of rows bring, so that no rounding decides.
    min_confidence=st.sampled_from([-0.2, -2.345, -4.987]),
    position=st.integers(0, 6),
    max_tokens=st.sampled_from([0, 12]),
)
outputs = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 99)), max_size=12)


def core(slots: int = 8, constants: EngineConstants = CONSTANTS) -> PluginCore:
    return PluginCore(constants, slots=slots, device=CPU)


def step(
    plugin: PluginCore, rows: dict[int, Tensor], produced: dict[int, int]
) -> dict[int, Tensor]:
    """One step of the engine for the rows of these slots."""
    slots = list(rows)
    logits = torch.stack([rows[slot] for slot in slots])
    plugin.apply(
        logits,
        torch.tensor(slots),
        torch.tensor([produced[slot] for slot in slots]),
        plugin.wants(slots),
    )
    return {slot: logits[place] for place, slot in enumerate(slots)}


def heard(wishes: EngineGates, kinds: list[str]) -> list[Signal | None]:
    plugin = core()
    plugin.watch(0, wishes)
    plugin.flush()
    return [said(step(plugin, {0: row(kind, at)}, {0: at})[0]) for at, kind in enumerate(kinds)]


@settings(deadline=None)
@given(requests=st.lists(st.tuples(gates, outputs), min_size=1, max_size=4))
def test_a_batch_hears_what_plain_arithmetic_finds(
    requests: list[tuple[EngineGates, list[tuple[str, int]]]],
) -> None:
    plugin = core()
    rows = [[row(kind, seed) for kind, seed in kinds] for _, kinds in requests]
    for slot, (wishes, _) in enumerate(requests):
        plugin.watch(slot, wishes)
    plugin.flush()
    found: list[list[Signal | None]] = [[] for _ in requests]
    for at in range(max(map(len, rows))):
        now = {slot: mine[at] for slot, mine in enumerate(rows) if at < len(mine)}
        for slot, logits in step(plugin, now, dict.fromkeys(now, at)).items():
            found[slot].append(said(logits))
    assert found == [
        expected(wishes, mine) for (wishes, _), mine in zip(requests, rows, strict=True)
    ]


@pytest.mark.parametrize(
    ("kind", "signal"),
    [
        ("nan", Signal.NON_FINITE),
        ("infinity", Signal.NON_FINITE),
        ("nothing", Signal.NON_FINITE),
        ("flat", Signal.UNIFORM),
        ("sure", None),
        ("usual", None),
        ("weak", None),
        ("single", None),
        ("masked", None),
    ],
)
def test_broken_rows_are_found_at_once(kind: str, signal: Signal | None) -> None:
    assert heard(EngineGates(), [kind]) == [signal]


def test_streaks_are_stricter_at_the_edges() -> None:
    weak = heard(STREAKS, ["weak"] * 2 + ["usual"] + ["weak"] * 8)
    low = Signal.LOW_CONFIDENCE
    assert weak == [None, low, None, None, None, None, low, low, low, low, low]
    # One good row ends a streak; the end of the text is an edge as well, from 11 on.
    start, middle, end = ["weak", "usual"], ["weak"] * 3 + ["usual"], ["usual", "weak", "weak"]
    assert heard(STREAKS, start + middle * 2 + end) == [None] * 12 + [low]


def test_few_candidates_are_a_streak_too() -> None:
    few = Signal.FEW_CANDIDATES
    wishes = EngineGates(few_candidates_edge=2, few_candidates_middle=2)
    assert heard(wishes, ["single", "usual", "single", "single"]) == [None, None, None, few]


def test_confidence_is_lost_over_a_window() -> None:
    lost = Signal.LOST_CONFIDENCE
    wishes = EngineGates(confidence_window=4, min_confidence=-4.5)
    assert heard(wishes, ["weak"] * 5) == [None, None, None, lost, lost]
    assert heard(wishes, ["sure", "weak", "sure", "weak"] * 3) == [None] * 12


def test_the_next_best_wins_where_a_denied_id_was_best() -> None:
    logits = torch.linspace(50, 0, VOCABULARY)
    plugin = core()
    plugin.watch(0, EngineGates())
    plugin.flush()
    denied = [*CONSTANTS.denied, 0, 1]
    other = core(constants=EngineConstants(denied=tuple(denied), sentinels=(5,)))
    other.watch(0, EngineGates())
    other.flush()
    assert step(other, {0: logits.clone()}, {0: 0})[0].argmax() == 2
    masked = step(plugin, {0: logits.clone()}, {0: 0})[0]
    kept = [token for token in range(VOCABULARY) if token not in CONSTANTS.denied]
    assert torch.equal(masked[kept], logits[kept])


def test_without_denied_ids_nothing_can_be_said_or_changed() -> None:
    plugin = core(constants=EngineConstants(denied=(), sentinels=()))
    plugin.watch(0, ALL)
    plugin.flush()
    logits = row("nan", 1)
    assert step(plugin, {0: logits.clone()}, {0: 0})[0].nan_to_num().equal(logits.nan_to_num())


def test_with_few_sentinels_one_stands_for_several() -> None:
    plugin = core(constants=EngineConstants(denied=(3, 4, 5, 6, 7, 8, 9), sentinels=(8, 9)))
    plugin.watch(0, STREAKS)
    plugin.flush()
    for at in range(2):
        logits = step(plugin, {0: row("weak", at)}, {0: at})[0]
    assert said(logits, (8, 9)) == Signal.LOW_CONFIDENCE  # type: ignore[possibly-unbound]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_others_are_let_be(kind: str) -> None:
    plugin = core()
    plugin.watch(2, ALL)
    plugin.watch(3, ALL)
    plugin.leave(3)
    plugin.flush()
    foreign = row(kind, 3)
    for at in range(6):
        after = step(
            plugin,
            {2: row("nan", 2), 3: foreign, plugin.nobody: foreign},
            {2: at, 3: 0, plugin.nobody: 0},
        )
        assert said(after[2]) == Signal.NON_FINITE
        for slot in (3, plugin.nobody):
            assert torch.equal(after[slot].view(torch.int32), foreign.view(torch.int32))


def test_a_slot_starts_afresh() -> None:
    plugin = core()
    for _ in range(2):
        plugin.watch(0, STREAKS)
        plugin.flush()
        found = [said(step(plugin, {0: row("weak", at)}, {0: at})[0]) for at in range(2)]
        assert found == [None, Signal.LOW_CONFIDENCE]


@given(again=st.integers(1, 4), kind=st.sampled_from(["weak", "usual", "nan", "single"]))
def test_a_place_judged_again_counts_once(again: int, kind: str) -> None:
    """Rows of a prompt that is still being read are sampled, and the sample dropped."""
    plugin = core()
    plugin.watch(0, ALL)
    plugin.flush()
    rows = [row(kind, at) for at in range(6)]
    found: list[Signal | None] = []
    for at, logits in enumerate(rows):
        for dropped in range(again):
            step(plugin, {0: row("weak", dropped)}, {0: at})
        found.append(said(step(plugin, {0: logits}, {0: at})[0]))
    assert found == expected(ALL, rows)


def test_rows_that_are_not_to_be_remembered_are_judged_all_the_same() -> None:
    plugin = core()
    plugin.watch(0, STREAKS)
    plugin.flush()
    found: list[list[Signal | None]] = []
    for at in range(2):
        logits = torch.stack([row("weak", at), row("weak", at), row("nan", at)])
        plugin.apply(
            logits,
            torch.tensor([0, 0, 0]),
            torch.tensor([at, at + 1, at + 2]),
            plugin.wants([0]),
            remember=torch.tensor([True, False, False]),
        )
        found.append([said(mine) for mine in logits])
    low, broken = Signal.LOW_CONFIDENCE, Signal.NON_FINITE
    assert found == [[None, None, broken], [low, low, broken]]


# What makes a host wait for a GPU: a value read back, or a shape that depends on values.
_WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "unique")


class NoWaiting(TorchDispatchMode):
    """Fails where an operation would wait for the device."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = func.overloadpacket.__name__
        assert name not in _WAITS, f"{name} waits for the device"
        if name in ("index", "index_put", "index_put_"):
            assert all(index is None or index.dtype != torch.bool for index in args[1]), name
        return func(*args, **(kwargs or {}))


def test_nothing_waits_for_the_device() -> None:
    plugin = core()
    plugin.watch(0, ALL)
    plugin.watch(1, STREAKS)
    logits = torch.stack([row(kind, 1) for kind in ("nan", "weak", "sure")])
    slots, produced, remember = torch.tensor([0, 1, 8]), torch.zeros(3).long(), torch.ones(3) > 0
    with NoWaiting():
        plugin.flush()
        plugin.apply(logits, slots, produced, plugin.wants([0, 1]), remember=remember)
    assert said(logits[0]) == Signal.NON_FINITE


def test_the_watch_on_waiting_sees_it() -> None:
    with NoWaiting(), pytest.raises(AssertionError, match="waits"):
        bool(torch.ones(2).any())
    with NoWaiting(), pytest.raises(AssertionError, match="index"):
        torch.ones(2)[torch.ones(2) > math.inf]
