"""Which engine a configuration means."""

import asyncio
import importlib

from .config import Config, ConfigError
from .engine import Engine, EngineUnavailable
from .scripted import ScriptedEngine


async def make_engine(config: Config) -> Engine:
    """The engine, not yet open. vLLM is imported here, in a thread, and only if it is wanted."""
    if config.engine == "scripted":
        return _scripted(config)
    try:
        module = await asyncio.to_thread(importlib.import_module, ".vllm_engine", __package__)
    except ImportError as error:
        raise EngineUnavailable(
            f"vLLM can't be imported ({error}); install sluicegate[gpu], or sluicegate[cpu] "
            "where there is no GPU"
        ) from error
    return module.VllmEngine(config)


def _scripted(config: Config) -> Engine:
    tags = (config.reasoning_start, config.reasoning_end) if config.reasoning_start else None
    try:
        return ScriptedEngine(
            tags=tags, always_thinks=config.reasoning_block == "open", **config.engine_args
        )
    except TypeError as error:
        raise ConfigError(
            f"the scripted engine does not take these engine_args ({error}); it takes chunk, "
            "step_s, max_model_len and model"
        ) from error
