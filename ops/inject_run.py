"""`sluice demo --inject`: an engine of its own for one injection. Importing it imports vLLM."""

import os
from typing import Final

from msgspec import structs

from ..worker.config import Config
from ..worker.gating import Gating
from ..worker.model_tokenizer import load_tokenizer
from ..worker.vllm_engine import VllmEngine
from .faults import AFTER, BEFORE, IN_REASONING, Fault, Orders, Vocabulary, order
from .inject import Injection, Say, inject, job_for, thinking_job

_CONTEXT: Final = 2048
# A model that has no tags takes these for what they are where its prompt ends with the first.
_START: Final = "<think>"
_END: Final = "</think>"


async def run(config: Config, kind: Fault, *, at: int, seed: int, say: Say) -> Injection:
    """Start an engine, let the fault strike with and without gates, and stop it.

    Raises EngineUnavailable, and CannotInject where the model has no tokens for the fault.
    """
    ordered = order(kind, Vocabulary.of(load_tokenizer(config.model)), at=at, seed=seed)
    # The faults speak the older of vLLM's two interfaces.
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "0"
    if kind in IN_REASONING and not (config.reasoning_parser or config.reasoning_start):
        config = structs.replace(config, reasoning_start=_START, reasoning_end=_END)
    orders = Orders()
    engine = VllmEngine(
        structs.replace(
            config,
            max_model_len=config.max_model_len or _CONTEXT,
            # Compiling would take longer than the demo, and needs a compiler on the machine.
            enforce_eager=True,
            lanes="interactive=1",
        ),
        before=BEFORE,
        after=AFTER,
        decorate=orders,
    )
    try:
        say("starting an engine, which loads the model (half a minute on a small machine)")
        await engine.open()
        job = (
            await thinking_job(engine, ordered, "inject")
            if kind in IN_REASONING
            else job_for(ordered, "inject")
        )
        gating = Gating(wrap_up=config.reasoning_wrap_up)
        injection = await inject(engine, orders, ordered, job, say, gating)
        say("stopping the engine")
        return injection
    finally:
        await engine.close()
