"""Which plug-in an engine can carry, and putting it there."""

from typing import Any, Final, cast

from vllm.config import VllmConfig
from vllm.platforms import current_platform

from .engine_gates import EngineConstants, packed

_V1: Final = "sluicegate.guards.plugin_v1:Plugin"
_V2: Final = "sluicegate.guards.plugin_v2:Plugin"


def processor_path(vllm_config: VllmConfig) -> str | None:
    """What to name among the engine argument `logits_processors`; None where no plug-in can run.

    The model runner decides, and is known only once vLLM has made its configuration. None for
    models that do not generate, for speculative decoding on runner V1, and on TPU, where runner V1
    takes no processors (vLLM 0.32, `vllm/v1/sample/logits_processor/__init__.py`).
    """
    if vllm_config.model_config.runner_type != "generate":
        return None
    if vllm_config.use_v2_model_runner:
        return _V2
    if vllm_config.speculative_config or current_platform.is_tpu():
        return None
    return _V1


def install(vllm_config: VllmConfig, constants: EngineConstants) -> bool:
    """Put the plug-in and its constants into a configuration that no engine was made from yet:

        config = arguments.create_engine_config(UsageContext.ENGINE_CONTEXT)
        watched = install(config, constants)
        engine = AsyncLLM.from_vllm_config(config)

    Processors and additional settings that are there already stay. False where no plug-in can run:
    then the worker has to watch from outside.
    """
    path = processor_path(vllm_config)
    if path is None:
        return False
    model = vllm_config.model_config
    model.logits_processors = [*(model.logits_processors or []), path]
    others = cast("object", vllm_config.additional_config)
    if not isinstance(others, dict):
        raise TypeError(f"additional_config must be a mapping, not {type(others).__name__}")
    vllm_config.additional_config = cast("dict[str, Any]", others) | packed(constants)
    return True
