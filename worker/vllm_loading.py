"""Loading vLLM: its arguments, our plug-in in it, and why it would not start."""

import logging
import os
import re
import shutil
import signal
from collections.abc import Sequence
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from msgspec import Struct
from vllm.config import VllmConfig
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.platforms import current_platform
from vllm.reasoning import ReasoningParserManager
from vllm.tokenizers import registry
from vllm.usage.usage_lib import UsageContext
from vllm.v1.engine.async_llm import AsyncLLM

from ..guards.engine_gates import EngineConstants
from ..guards.engine_plugin import install
from ..guards.reasoning.tags import Tags
from . import model_tokenizer
from .config import Config, slots
from .engine import EngineUnavailable
from .logs import engine_errors
from .model_tokenizer import ModelTokenizer
from .orphan_guard import WORKER_PID
from .orphan_guard import is_installed as orphan_guard_is_installed

log = logging.getLogger(__name__)

# On CPU vLLM's default KV block is 128 tokens, so that short prefixes never hit the prefix cache.
_CPU_BLOCK_SIZE = 32


class Loaded(Struct, frozen=True):
    """A running engine, a tokenizer of our own, what the plug-in in it was told, if it runs, and
    the tags of the model's reasoning, if it has any."""

    engine: AsyncLLM
    tokenizer: ModelTokenizer
    constants: EngineConstants
    has_plugin: bool
    tags: Tags | None


def load(config: Config, before: Sequence[str], after: Sequence[str]) -> Loaded:
    """Blocking, from seconds to minutes. Further logits processors run before or after ours.
    Raises EngineUnavailable with the likely remedy."""
    os.environ[WORKER_PID] = str(os.getpid())
    if not orphan_guard_is_installed():
        log.warning("the engine would outlive a worker that is killed: install sluicegate again")
    # A Ctrl-C in a terminal reaches every process of the group. The engine must outlive it until
    # the worker has drained: signal masks are inherited by the processes that start from here.
    # The resource tracker unblocks what it finds blocked when it starts, so it starts before.
    resource_tracker.ensure_running()
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return _load(config, _engine_arguments(config), before, after)
    except EngineUnavailable:
        raise
    except Exception as error:  # vLLM raises whatever went wrong, in this process or the other
        raise EngineUnavailable(_explain(error, config)) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)


def _arguments(config: Config) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "model": config.model,
        "dtype": config.dtype,
        "max_num_seqs": slots(config),
        "enforce_eager": config.enforce_eager,
        "gpu_memory_utilization": config.gpu_memory_utilization,
        "enable_prefix_caching": True,
    }
    if config.max_model_len:
        arguments["max_model_len"] = config.max_model_len
    if current_platform.is_cpu():
        if not config.enforce_eager and not _has_compiler():
            log.warning("no C++ compiler is installed: running eagerly, without compilation")
            arguments["enforce_eager"] = True
        arguments["block_size"] = _CPU_BLOCK_SIZE
        # A prompt read in parts makes vLLM turn the request's random numbers back, which torch
        # can't do on a CPU: with a seed, the engine would die (vLLM 0.32, gpu_model_runner.py).
        arguments["enable_chunked_prefill"] = False
        arguments["kv_cache_memory_bytes"] = int(config.kv_cache_gib * 2**30)
    return arguments


class Prepared(Struct, frozen=True):
    """All but the engine itself: vLLM's configuration with our plug-in in it, if it fits."""

    vllm_config: VllmConfig
    tokenizer: ModelTokenizer
    constants: EngineConstants
    has_plugin: bool
    tags: Tags | None


def prepare(config: Config, before: Sequence[str] = (), after: Sequence[str] = ()) -> Prepared:
    """What `load` does before it loads any weights. Seconds; reads the model's configuration and
    tokenizer. Raises EngineUnavailable."""
    try:
        return _prepare(config, _engine_arguments(config), before, after)
    except EngineUnavailable:
        raise
    except Exception as error:  # as in `load`
        raise EngineUnavailable(_explain(error, config)) from error


def _engine_arguments(config: Config) -> AsyncEngineArgs:
    return AsyncEngineArgs(**_arguments(config) | config.engine_args)


def _prepare(
    config: Config, args: AsyncEngineArgs, before: Sequence[str], after: Sequence[str]
) -> Prepared:
    vllm_config = args.create_engine_config(UsageContext.ENGINE_CONTEXT)
    tokenizer = _tokenizer(vllm_config)
    tags = _tags(config, tokenizer)
    legal = (*tags.start_ids, *tags.end_ids) if tags is not None else ()
    denied = tokenizer.denied(legal)
    sentinels = tokenizer.sentinels(denied, legal)
    constants = EngineConstants(denied=tuple(denied), sentinels=sentinels)
    model = vllm_config.model_config
    model.logits_processors = [*(model.logits_processors or []), *before]
    has_plugin = bool(constants.sentinels) and install(vllm_config, constants)
    model.logits_processors = [*model.logits_processors, *after]
    if not has_plugin:
        log.warning("the gates on logits can't run inside this engine: watching from outside")
    return Prepared(vllm_config, tokenizer, constants, has_plugin, tags)


def _load(
    config: Config, args: AsyncEngineArgs, before: Sequence[str], after: Sequence[str]
) -> Loaded:
    ready = _prepare(config, args, before, after)
    engine = AsyncLLM.from_vllm_config(
        ready.vllm_config,
        enable_log_requests=args.enable_log_requests,
        disable_log_stats=args.disable_log_stats,
    )
    return Loaded(engine, ready.tokenizer, ready.constants, ready.has_plugin, ready.tags)


def _tags(config: Config, tokenizer: ModelTokenizer) -> Tags | None:
    """What sets the model's reasoning apart, by the settings; what they leave out is as vLLM's
    parser for the model has it."""
    start, end = config.reasoning_start, config.reasoning_end
    if config.reasoning_parser and not start:
        start, end = _parser_tags(config.reasoning_parser, tokenizer)
    if not start:
        return None
    try:
        return tokenizer.tags(start, end)
    except ValueError as error:
        raise EngineUnavailable(f"reasoning_start and reasoning_end: {error}") from None


def _parser_tags(name: str, tokenizer: ModelTokenizer) -> tuple[str, str]:
    known = ReasoningParserManager.list_registered()
    if name not in known:
        raise EngineUnavailable(
            f"reasoning_parser: vLLM has no {name!r}; it has {', '.join(sorted(known))}"
        )
    try:
        parser = ReasoningParserManager.get_reasoning_parser(name)(tokenizer.tokenizer)
        start, end = parser.reasoning_start_str, parser.reasoning_end_str
    except Exception as error:  # each parser has its own way to say that the model is not its own
        raise EngineUnavailable(
            f"reasoning_parser: {name} does not go with the model ({error}); choose the model's "
            "own, or set reasoning_start and reasoning_end"
        ) from error
    if not start or not end:
        raise EngineUnavailable(
            f"reasoning_parser: {name} does not say what opens and closes the reasoning; "
            "set reasoning_start and reasoning_end"
        )
    return start, end


def _tokenizer(vllm_config: VllmConfig) -> ModelTokenizer:
    """Our own: encoding borrows it mutably in a thread, while the loop decodes with vLLM's."""
    model = vllm_config.model_config
    get_tokenizer: Any = getattr(registry, "get_tokenizer")  # noqa: B009  its type is half unknown
    tokenizer = get_tokenizer(
        model.tokenizer,
        runner_type=model.runner_type,
        tokenizer_mode=model.tokenizer_mode,
        revision=model.tokenizer_revision,
        trust_remote_code=model.trust_remote_code,
    )
    generation: dict[str, Any] = model.try_get_generation_config()
    ends = (generation.get("eos_token_id"), getattr(model.hf_text_config, "eos_token_id", None))
    return model_tokenizer.of(model.model, tokenizer, model.get_vocab_size(), ends)


def _has_compiler() -> bool:
    """Whether torch can compile for the CPU: it asks for `g++`, or what CXX names."""
    return shutil.which(os.environ.get("CXX", "g++")) is not None


# The device, or the host, has not so much; or the share that it may have is too small.
_NO_MEMORY = r"out of memory|allocate memory|OutOfMemoryError|MemoryError|less than desired"
_TOO_LITTLE = r"[Nn]ot enough|larger than the|less than requested|No available memory"
_NO_MODEL = (
    r"OSError|RepositoryNotFound|LocalEntryNotFound|not a local folder|Can't load|[Oo]ffline"
)


def root_cause(log_text: str) -> str | None:
    """The last exception in the tracebacks of vLLM's processes."""
    found = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b.*$", log_text, re.MULTILINE)
    return found[-1] if found else None


def _explain(error: Exception, config: Config) -> str:
    text = f"{type(error).__name__}: {error}".strip()
    if "See root cause above" in text:
        text = root_cause(engine_errors()) or text
    return explained(text, config)


def explained(text: str, config: Config) -> str:
    first = " ".join(text.split())[:500]
    if config.model.startswith((".", "/", "~")) and not Path(config.model).is_dir():
        return f"there is no folder {config.model}; set model to a model's folder or hub name"
    if "unexpected keyword argument" in text:
        return f"vLLM does not know an engine argument ({first}); check engine_args"
    if re.search(_NO_MEMORY, text):
        return (
            f"not enough memory to load the engine ({first}); lower gpu_memory_utilization, "
            "kv_cache_gib or max_model_len, or free the memory that others hold"
        )
    if re.search(_TOO_LITTLE, text):
        return (
            f"not enough memory for model, context and KV cache ({first}); lower max_model_len or "
            "the slots in lanes, or raise kv_cache_gib or gpu_memory_utilization"
        )
    if re.search(_NO_MODEL, text):
        return (
            f"the model {config.model!r} can't be loaded ({first}); check the folder or hub name, "
            "and for a hub the network"
        )
    return f"vLLM did not start ({first}); its log above says more"
