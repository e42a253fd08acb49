"""The real engine: vLLM's AsyncLLM. The one file of this room that knows vLLM.

Importing it imports vLLM, which takes seconds: `engines.make_engine` does so when it must.
"""

import asyncio
import copy
import logging
import multiprocessing
import os
import re
import shutil
import signal
import time
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, Protocol, cast

from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.exceptions import VLLMClientError
from vllm.inputs.engine import tokens_input
from vllm.platforms import current_platform
from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

from ..schemas import (
    ChatMessage,
    FinishReason,
    GenerationJob,
    InvalidMessage,
    Reason,
    Sampling,
    StructuredOutput,
)
from .config import Config, slots
from .engine import EngineDead, EngineError, EngineInfo, EngineUnavailable, Piece, Segment
from .logs import engine_errors
from .orphan_guard import WORKER_PID
from .orphan_guard import is_installed as orphan_guard_is_installed

log = logging.getLogger(__name__)

# vLLM's finish reasons that an answer may have; `error` is the engine's own failure.
_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "abort": "abort",
    "repetition": "repetition",
}
# On CPU vLLM's default KV block is 128 tokens, so that short prefixes never hit the prefix cache.
_CPU_BLOCK_SIZE = 32
_CLOSE_TIMEOUT_S = 30.0
_LOOK_EVERY_S = 1.0
_AFTER_ERROR_S = 30.0


class _Tokenizer(Protocol):
    """What is used of a tokenizer of transformers, whose own types are half unknown."""

    chat_template: object

    def encode(self, text: str) -> list[int]: ...

    def apply_chat_template(
        self,
        conversation: list[dict[str, str]],
        *,
        add_generation_prompt: bool,
        tokenize: bool,
        return_dict: bool,
    ) -> list[int]: ...


class VllmEngine:
    """AsyncLLM behind the Engine protocol. Token-id prompts in, deltas out."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._engine: AsyncLLM | None = None
        self._loading: asyncio.Future[AsyncLLM] | None = None
        self._tokenizer: _Tokenizer | None = None
        self._tokenizing = ThreadPoolExecutor(1, "tokenizing")
        self._max_model_len = 0
        self._vocabulary = 0

    async def open(self) -> EngineInfo:
        """Load the model in a thread: it takes from seconds to minutes."""
        loop = asyncio.get_running_loop()
        self._loading = loop.run_in_executor(None, _load, self._config)
        engine = await self._loaded(self._loading)
        self._engine = engine
        # A tokenizer of our own: encoding borrows it mutably, while vLLM decodes with the other.
        self._tokenizer = copy.deepcopy(cast("_Tokenizer", engine.get_tokenizer()))
        model = engine.model_config
        self._max_model_len = model.max_model_len
        self._vocabulary = model.get_vocab_size()
        return EngineInfo(model=model.model, max_model_len=self._max_model_len)

    async def _loaded(self, loading: "asyncio.Future[AsyncLLM]") -> AsyncLLM:
        limit_s = self._config.engine_start_timeout_s
        began = time.monotonic()
        failing_since: float | None = None
        while True:
            done, _ = await asyncio.wait([loading], timeout=_LOOK_EVERY_S)
            if done:
                return loading.result()
            now = time.monotonic()
            if failing_since is None and engine_errors():
                failing_since = now
            # vLLM's processes can fail to end after an error, and its constructor waits for them.
            if failing_since is not None and now - failing_since > _AFTER_ERROR_S:
                cause = _root_cause(engine_errors()) or "its log above says more"
                raise EngineUnavailable(_explained(cause, self._config))
            if now - began > limit_s:
                raise EngineUnavailable(
                    f"the engine did not start within {limit_s:g} s; raise "
                    "engine_start_timeout_s if the model is large"
                )

    async def prompt_token_ids(self, job: GenerationJob) -> tuple[int, ...]:
        """The job's prompt in tokens; text and messages go through the chat template.

        In a thread: a prompt of the largest size keeps a tokenizer busy for a second.
        """
        if self._tokenizer is None:
            raise EngineDead("the engine is not open")
        if job.prompt_token_ids is not None:
            return self._in_vocabulary(job.prompt_token_ids)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._tokenizing, _render, self._tokenizer, job)

    async def stream(self, segment: Segment) -> AsyncGenerator[Piece, None]:
        """Pieces as vLLM brings them."""
        engine = self._running()
        self._check_length(segment.prompt_token_ids)
        try:
            outputs = engine.generate(
                tokens_input(list(segment.prompt_token_ids)),
                sampling_params(segment.sampling, segment.seed),
                segment.request_id,
            )
            async with aclosing(outputs):
                async for output in outputs:
                    part = output.outputs[0]
                    if part.finish_reason == "error":
                        raise EngineError("vLLM ended the request with an error")
                    yield Piece(
                        token_ids=tuple(part.token_ids),
                        text=part.text,
                        cached_tokens=output.num_cached_tokens or 0,
                        finish_reason=_FINISH[part.finish_reason] if part.finish_reason else None,
                    )
        except VLLMClientError as error:
            raise _refusal(error) from error
        except EngineDeadError as error:
            raise EngineDead("vLLM's engine process is gone; its log says why") from error
        except EngineGenerateError as error:
            raise EngineError(f"vLLM could not generate: {error.__cause__ or error}") from error

    async def health(self) -> None:
        """Asks vLLM."""
        try:
            await self._running().check_health()
        except EngineDeadError as error:
            raise EngineDead("vLLM's engine process is gone; its log says why") from error

    async def close(self) -> None:
        """Stop the engine's processes, in the middle of loading, too."""
        engine, self._engine = self._engine, None
        # It logs the end of its own processes as an error, with a traceback.
        logging.getLogger("vllm.v1.engine.async_llm").setLevel(logging.CRITICAL)
        self._tokenizing.shutdown(wait=False, cancel_futures=True)
        if engine is None:
            await self._give_up_loading()
            return
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await asyncio.to_thread(engine.shutdown)
        except TimeoutError as error:
            raise EngineError("vLLM did not stop in time") from error

    async def _give_up_loading(self) -> None:
        """vLLM can't be told to stop loading; when its processes die, its constructor raises."""
        loading, self._loading = self._loading, None
        while loading is not None and not loading.done():
            for process in multiprocessing.active_children():
                process.kill()
            await asyncio.wait([loading], timeout=0.2)
        if loading is not None and not loading.cancelled() and loading.exception() is None:
            await asyncio.to_thread(loading.result().shutdown)

    def _running(self) -> AsyncLLM:
        if self._engine is None:
            raise EngineDead("the engine is not open")
        return self._engine

    def _in_vocabulary(self, ids: Sequence[int]) -> tuple[int, ...]:
        if (worst := max(ids)) >= self._vocabulary:
            raise InvalidMessage(
                Reason.UNSUPPORTED,
                "$.prompt_token_ids",
                f"token {worst} is out of vocabulary: the model has {self._vocabulary} tokens",
            )
        return tuple(ids)

    def _check_length(self, ids: Sequence[int]) -> None:
        if not ids:
            raise InvalidMessage(Reason.EMPTY_PROMPT, "$.prompt", "there are no tokens in it")
        if len(ids) >= self._max_model_len:
            raise InvalidMessage(
                Reason.PROMPT_TOO_LONG,
                "$.prompt",
                f"has {len(ids)} tokens; the model's context is {self._max_model_len}, "
                "the answer included",
            )


def sampling_params(sampling: Sampling, seed: int) -> SamplingParams:
    """The job's sampling in vLLM's words."""
    return SamplingParams(
        output_kind=RequestOutputKind.DELTA,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        seed=seed,
        max_tokens=sampling.max_tokens,
        min_tokens=sampling.min_tokens,
        stop=list(sampling.stop),
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        repetition_penalty=sampling.repetition_penalty,
        bad_words=list(sampling.bad_words),
        logit_bias=sampling.logit_bias or None,
        structured_outputs=_structured(sampling.structured_output),
    )


def _structured(wanted: StructuredOutput | None) -> StructuredOutputsParams | None:
    if wanted is None:
        return None
    return StructuredOutputsParams(
        json=wanted.json_schema,
        regex=wanted.regex,
        choice=list(wanted.choice) if wanted.choice else None,
        grammar=wanted.grammar,
        # Unbounded white space between JSON tokens is a favourite place to loop for ever.
        disable_any_whitespace=wanted.json_schema is not None,
    )


def _render(tokenizer: _Tokenizer, job: GenerationJob) -> tuple[int, ...]:
    """Blocking. The prompt through the chat template, or as plain text where there is none."""
    if tokenizer.chat_template is None:
        if job.messages is None:
            return tuple(tokenizer.encode(job.prompt or ""))
        raise InvalidMessage(
            Reason.UNSUPPORTED,
            "$.messages",
            "the model has no chat template: send prompt or prompt_token_ids",
        )
    messages = job.messages or (ChatMessage(role="user", content=job.prompt or ""),)
    turns = [{"role": message.role, "content": message.content} for message in messages]
    try:
        ids = tokenizer.apply_chat_template(
            turns, add_generation_prompt=True, tokenize=True, return_dict=False
        )
    except Exception as error:  # a template is the model's own program and may raise anything
        raise InvalidMessage(
            Reason.UNSUPPORTED, "$.messages", f"the model's chat template refuses it: {error}"
        ) from error
    return tuple(ids)


def _load(config: Config) -> AsyncLLM:
    """Blocking. Raises EngineUnavailable with the likely remedy."""
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
        arguments["kv_cache_memory_bytes"] = int(config.kv_cache_gib * 2**30)
    os.environ[WORKER_PID] = str(os.getpid())
    if not orphan_guard_is_installed():
        log.warning("the engine would outlive a worker that is killed: install sluicegate again")
    # A Ctrl-C in a terminal reaches every process of the group. The engine must outlive it until
    # the worker has drained: signal masks are inherited by the processes that start from here.
    # The resource tracker unblocks what it finds blocked when it starts, so it starts before.
    resource_tracker.ensure_running()
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments | config.engine_args))
    except Exception as error:  # vLLM raises whatever went wrong, in this process or the other
        raise EngineUnavailable(_explain(error, config)) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)


def _has_compiler() -> bool:
    """Whether torch can compile for the CPU: it asks for `g++`, or what CXX names."""
    return shutil.which(os.environ.get("CXX", "g++")) is not None


_NO_MEMORY = (
    r"out of memory|[Nn]ot enough|larger than the|less than requested|No available memory|"
    r"allocate memory"
)
_NO_MODEL = (
    r"OSError|RepositoryNotFound|LocalEntryNotFound|not a local folder|Can't load|[Oo]ffline"
)


def _root_cause(log_text: str) -> str | None:
    """The last exception in the tracebacks of vLLM's processes."""
    found = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b.*$", log_text, re.MULTILINE)
    return found[-1] if found else None


def _explain(error: Exception, config: Config) -> str:
    text = f"{type(error).__name__}: {error}".strip()
    if "See root cause above" in text:
        text = _root_cause(engine_errors()) or text
    return _explained(text, config)


def _explained(text: str, config: Config) -> str:
    first = " ".join(text.split())[:500]
    if config.model.startswith((".", "/", "~")) and not Path(config.model).is_dir():
        return f"there is no folder {config.model}; set model to a model's folder or hub name"
    if "unexpected keyword argument" in text:
        return f"vLLM does not know an engine argument ({first}); check engine_args"
    if re.search(_NO_MEMORY, text):
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


def _refusal(error: VLLMClientError) -> InvalidMessage:
    """A request that vLLM won't take, as a fault of the job's, with the field where it says so."""
    parameter = getattr(error, "parameter", None)
    text = str(error.args[0] if error.args else error)
    if parameter is None and "grammar" in text.lower():
        parameter = "structured_output"
    field = f"$.sampling.{parameter}" if parameter in Sampling.__struct_fields__ else "$"
    return InvalidMessage(Reason.UNSUPPORTED, field, text[:1000])
