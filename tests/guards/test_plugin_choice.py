"""Which plug-in an engine gets."""

import warnings
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sluicegate.guards.engine_gates import EngineConstants, constants_in

with warnings.catch_warnings():
    # Of vLLM's and torch's own making, as they are imported.
    warnings.simplefilter("ignore")
    from sluicegate.guards import plugin_v1, plugin_v2
    from sluicegate.guards.engine_plugin import install, processor_path
    from vllm.config import VllmConfig
    from vllm.v1.sample.logits_processor import LogitsProcessor as FirstInterface
    from vllm.v1.worker.gpu.sample.logits_processor.interface import (
        LogitsProcessor as SecondInterface,
    )

CONSTANTS = EngineConstants(denied=(1, 2), sentinels=(2,))


def config(*, second: bool = False, drafting: bool = False, **others: Any) -> VllmConfig:
    model = SimpleNamespace(runner_type="generate", logits_processors=None)
    made = SimpleNamespace(
        model_config=model,
        use_v2_model_runner=second,
        speculative_config=SimpleNamespace() if drafting else None,
        additional_config={},
    )
    vars(made).update(others)
    return cast("VllmConfig", made)


def test_each_runner_gets_a_class_of_its_own_interface() -> None:
    for chosen, interface in (
        (processor_path(config()), FirstInterface),
        (processor_path(config(second=True, drafting=True)), SecondInterface),
    ):
        module, _, name = (chosen or "").partition(":")
        found = {loaded.__name__: loaded for loaded in (plugin_v1, plugin_v2)}[module]
        assert issubclass(getattr(found, name), interface)


def test_where_no_plug_in_can_run_nothing_is_touched() -> None:
    pooling = SimpleNamespace(runner_type="pooling", logits_processors=None)
    for unfit in (config(drafting=True), config(second=True, model_config=pooling)):
        assert not install(unfit, CONSTANTS)
        assert unfit.model_config.logits_processors is None
        assert not cast("object", unfit.additional_config)


def test_what_was_there_stays() -> None:
    mine = config(additional_config={"other": 1})
    mine.model_config.logits_processors = ["a.b:C"]
    assert install(mine, CONSTANTS)
    assert mine.model_config.logits_processors == ["a.b:C", processor_path(mine)]
    said = cast("dict[str, Any]", mine.additional_config)
    assert said["other"] == 1
    assert constants_in(said) == CONSTANTS
    with pytest.raises(TypeError, match="mapping"):
        install(config(additional_config=3), CONSTANTS)
