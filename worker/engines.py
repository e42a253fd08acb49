"""Which engine a configuration means."""

import asyncio
import importlib

from .config import Config
from .engine import Engine, EngineUnavailable
from .scripted import ScriptedEngine


async def make_engine(config: Config) -> Engine:
    """The engine, not yet open. vLLM is imported here, in a thread, and only if it is wanted."""
    if config.engine == "scripted":
        return ScriptedEngine()
    try:
        module = await asyncio.to_thread(importlib.import_module, ".vllm_engine", __package__)
    except ImportError as error:
        raise EngineUnavailable(
            f"vLLM can't be imported ({error}); install sluicegate[gpu], or sluicegate[cpu] "
            "where there is no GPU"
        ) from error
    return module.VllmEngine(config)
