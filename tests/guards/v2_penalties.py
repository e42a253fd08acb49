"""Penalties of resumed segments on runner V2, against vLLM's own, in Triton's interpreter.

Run by `test_plugin_v2`, with TRITON_INTERPRET=1 and in a process of its own: the interpreter has to
be there before vLLM is imported, which switches Triton off where it finds no device.
"""

from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from triton.backends import backends

cast("dict[str, Any]", backends)["cpu"] = SimpleNamespace(
    driver=SimpleNamespace(is_active=lambda: True)
)

# What vLLM's own CPU worker does to run the same kernels.
import_module("vllm.v1.worker.cpu.shm")
from sluicegate.guards.engine_gates import EngineGates  # noqa: E402
from sluicegate.guards.plugin_v2 import Plugin  # noqa: E402
from vllm.v1.worker.gpu.sample.penalties import PenaltiesState  # noqa: E402

from .logit_rows import CONSTANTS, row  # noqa: E402
from .v2_steps import Runner  # noqa: E402

penalties = st.fixed_dictionaries(
    {
        "presence_penalty": st.sampled_from([0.0, 0.5, -1.3]),
        "frequency_penalty": st.sampled_from([0.0, 0.7, 2.0]),
        "repetition_penalty": st.sampled_from([1.0, 1.1, 0.9, 2.0]),
    }
)
some_tokens = st.lists(st.integers(10, 40), max_size=12)


@settings(deadline=None, max_examples=40)
@given(
    penalty=penalties,
    other=penalties,
    prompt=st.lists(st.integers(10, 40), min_size=1, max_size=12),
    carried=some_tokens,
    produced=some_tokens,
    drafted=st.lists(st.integers(10, 40), max_size=3),
    seed=st.integers(0, 999),
)
def test_a_resumed_request_is_penalised_as_if_it_had_never_stopped(
    penalty: dict[str, float],
    other: dict[str, float],
    prompt: list[int],
    carried: list[int],
    produced: list[int],
    drafted: list[int],
    seed: int,
) -> None:
    """Bit for bit, drafted tokens included."""
    rows = [row("usual", seed + place) * 3 for place in range(1 + len(drafted))]
    whole = Runner(PenaltiesState)
    whole.add(0, None, prompt, [*carried, *produced], **penalty)
    resumed = Runner(Plugin, drafting=True)
    resumed.add(4, EngineGates(**cast("dict[str, Any]", other)), [12, 13], [13])
    resumed.add(3, None, [12, 13], [13])
    gates = EngineGates(carried=len(carried), **cast("dict[str, Any]", penalty))
    resumed.add(2, gates, [*prompt, *carried], produced)
    plain = row("usual", 1)
    wanted = whole.step({0: rows}, {0: drafted})[0]
    found = resumed.step({3: [plain], 2: rows, 4: [plain]}, {2: drafted})
    legal = [token for token in range(wanted.shape[1]) if token not in CONSTANTS.denied]
    assert torch.equal(found[2][:, legal].view(torch.int32), wanted[:, legal].view(torch.int32))
    assert torch.equal(found[3][0], plain)


def test_penalties_are_seen_to_matter() -> None:
    runner = Runner()
    gates = EngineGates(carried=2, presence_penalty=0.5, frequency_penalty=1.0)
    runner.add(0, gates, [11, 20, 20])
    logits = row("usual", 1)
    after = runner.step({0: [logits]})[0][0]
    assert abs(float(after[20]) - float(logits[20]) + 2.5) < 1e-5
    assert after[11] == logits[11]
