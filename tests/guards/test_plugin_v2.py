"""The plug-in for runner V2, driven with vLLM's own context objects, and against that for V1."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.guards.engine_gates import Ban, EngineGates, Signal, packed
from torch import Tensor

from .logit_rows import KINDS, expected, row, said
from .test_plugin_v1 import WISHES, Batch
from .v2_steps import SLOTS, Plugin, Runner, SamplingParams


@pytest.mark.timeout(120)
@settings(deadline=None, max_examples=30)
@given(chance=st.randoms(use_true_random=False))
def test_each_request_hears_what_it_would_hear_alone(chance: random.Random) -> None:
    """However rows are laid out, and whoever had the slot before."""
    runner = Runner()
    wishes: dict[int, EngineGates | None] = {}
    rows: dict[int, list[Tensor]] = {}
    heard: dict[int, list[Signal | None]] = {}

    def check(slot: int) -> None:
        gates = wishes.pop(slot, None)
        assert gates is None or heard[slot] == expected(gates, rows[slot])

    for _ in range(12):
        for slot in range(SLOTS):
            if chance.random() < 0.2:
                check(slot)
                wishes[slot] = chance.choice(WISHES)
                rows[slot], heard[slot] = [], []
                runner.add(slot, wishes[slot])
        order = chance.sample(sorted(wishes), chance.randint(0, len(wishes)))
        if not order:
            continue
        now = {slot: row(chance.choice(KINDS), chance.randrange(50)) for slot in order}
        for slot, after in runner.step({slot: [mine] for slot, mine in now.items()}).items():
            if wishes[slot] is None:
                assert torch.equal(after[0].view(torch.int32), now[slot].view(torch.int32))
            else:
                rows[slot].append(now[slot])
                heard[slot].append(said(after[0]))
            runner.accept(slot, 11)
    for slot in list(wishes):
        check(slot)


@settings(deadline=None, max_examples=40)
@given(
    gates=st.sampled_from([gates for gates in WISHES if gates]),
    kinds=st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 50)), max_size=10),
    before=st.integers(0, 3),
)
def test_both_runners_say_the_same(
    gates: EngineGates, kinds: list[tuple[str, int]], before: int
) -> None:
    """Bit for bit, also for a request that was preempted after some tokens."""
    first, second = Batch(), Runner()
    first.add("a", gates, produced=[11] * before)
    second.add(0, gates, produced=[11] * before)
    for kind, seed in kinds:
        logits = row(kind, seed)
        one, two = first.step({"a": logits})["a"], second.step({0: [logits]})[0][0]
        assert torch.equal(one.view(torch.int32), two.view(torch.int32))
        first.accept("a", 11)
        second.accept(0, 11)


def test_a_prompt_still_being_read_is_let_be() -> None:
    runner = Runner()
    wishes = EngineGates(low_confidence_edge=1, low_confidence_middle=1)
    runner.add(0, wishes, prompt=[1, 2, 3, 4])
    logits = row("weak", 1)
    for read in (1, 3):
        after = runner.step({0: [logits]}, reading={0: read})[0][0]
        assert torch.equal(after, logits)
    assert said(runner.step({0: [logits]})[0][0]) == Signal.LOW_CONFIDENCE


def test_every_drafted_row_is_judged_and_a_streak_counts_steps() -> None:
    runner = Runner(drafting=True)
    runner.add(0, EngineGates(low_confidence_edge=2, low_confidence_middle=2))
    runner.add(1, EngineGates())
    weak, broken, fine = row("weak", 1), row("nan", 1), row("usual", 1)
    low = Signal.LOW_CONFIDENCE
    heard: list[list[Signal | None]] = []
    for _ in range(2):
        after = runner.step({1: [fine], 0: [weak, weak, broken]}, {0: [20, 21]})
        heard.append([said(mine) for mine in after[0]])
        assert said(after[1][0]) is None
        runner.accept(0, 20, 21)
    assert heard == [[None, None, Signal.NON_FINITE], [low, low, Signal.NON_FINITE]]


def banned(rows: Tensor) -> list[list[int]]:
    return [[token for token in range(20, 30) if mine[token].isneginf()] for mine in rows]


def test_a_ban_holds_at_its_position_alone() -> None:
    runner = Runner()
    runner.add(2, EngineGates(bans=(Ban(0, 20), Ban(1, 21, (30,)), Ban(2, 22, (31,)))))
    runner.add(0, EngineGates())
    found: list[list[int]] = []
    for token in (30, 31, 32):
        after = runner.step({0: [row("usual", 1)], 2: [row("usual", 1)]})
        found += banned(after[2])
        assert banned(after[0]) == [[]]
        runner.accept(2, token)
        runner.accept(0, token)
    assert found == [[20], [21], [22]]


def test_bans_see_drafted_tokens() -> None:
    runner = Runner(drafting=True)
    bans = (Ban(0, 20), Ban(1, 21, (30,)), Ban(2, 22, (30, 31)), Ban(2, 23, (30, 39)))
    runner.add(1, EngineGates(bans=bans))
    rows = [row("usual", 1)] * 3
    assert banned(runner.step({1: rows}, {1: [30, 31]})[1]) == [[20], [21], [22]]
    runner.accept(1, 30)
    assert banned(runner.step({1: rows}, {1: [39, 40]})[1]) == [[21], [23], []]


def test_a_slot_keeps_nothing_of_who_had_it() -> None:
    runner = Runner()
    runner.add(0, EngineGates(bans=(Ban(0, 20),), presence_penalty=1.0))
    runner.add(0, EngineGates())
    assert banned(runner.step({0: [row("usual", 1)]})[0]) == [[]]


def test_extra_args_are_checked_at_admission() -> None:
    Plugin.validate_params(SamplingParams(extra_args=packed(EngineGates())))
    with pytest.raises(ValueError, match="unknown field"):
        Plugin.validate_params(SamplingParams(extra_args={"sluicegate": {"egde": 3}}))


def test_penalties_are_those_of_vllms_kernels() -> None:
    """Where there is no GPU, in Triton's interpreter: a process of its own."""
    cases = Path(__file__).with_name("v2_penalties.py")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cases],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-2000:]
    assert "2 passed" in ran.stdout
