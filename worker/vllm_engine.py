"""The real engine: vLLM's AsyncLLM. With `vllm_params` and `vllm_loading` all of this room that
knows vLLM.

Importing it imports vLLM, which takes seconds: `engines.make_engine` does so when it must.
"""

import asyncio
import logging
import multiprocessing
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from multiprocessing import resource_tracker
from threading import Thread
from typing import Any, Protocol, cast

from vllm import __version__ as VLLM_VERSION  # noqa: N812
from vllm.exceptions import VLLMClientError
from vllm.inputs.engine import tokens_input
from vllm.logprobs import Logprob
from vllm.outputs import CompletionOutput
from vllm.sampling_params import SamplingParams
from vllm.v1.engine import EngineCoreRequest
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.detokenizer import BaseIncrementalDetokenizer, IncrementalDetokenizer
from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

from ..guards.engine_gates import packed
from ..schemas import (
    ChatMessage,
    FinishReason,
    GenerationJob,
    InvalidMessage,
    Reason,
    Sampling,
)
from .config import Config
from .engine import (
    Detokenizer,
    EngineDead,
    EngineError,
    EngineInfo,
    EngineOutOfMemory,
    EngineUnavailable,
    Piece,
    Segment,
)
from .grammar_trial import GrammarTrials
from .logs import engine_errors
from .model_tokenizer import ModelTokenizer
from .processes import Processes, descendants, kill
from .vllm_loading import Loaded, explained, load, root_cause
from .vllm_params import biased, sampling_params, seamed
from .watched_engine import is_out_of_memory

log = logging.getLogger(__name__)

# vLLM's finish reasons that an answer may have; `error` is the engine's own failure.
_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "abort": "abort",
    "repetition": "repetition",
}
_CLOSE_TIMEOUT_S = 30.0
_LOOK_EVERY_S = 1.0
_AFTER_ERROR_S = 30.0
_KILL_TIMEOUT_S = 5.0
_NOISY = "vllm.v1.engine.async_llm"


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


# Further `extra_args` for a request, beside our own.
Decorate = Callable[[Segment], dict[str, Any]]


class VllmEngine:
    """AsyncLLM behind the Engine protocol. Token ids in, token ids out.

    `before` and `after` name further logits processors ("module:Class"), to run before or after
    ours, and `decorate` what to tell them: for experiments and fault injection.
    """

    def __init__(
        self,
        config: Config,
        *,
        before: Sequence[str] = (),
        after: Sequence[str] = (),
        decorate: Decorate | None = None,
    ) -> None:
        self._config = config
        self._before = tuple(before)
        self._after = tuple(after)
        self._decorate = decorate
        self._engine: AsyncLLM | None = None
        self._loading: asyncio.Future[Loaded] | None = None
        self._tokenizer: ModelTokenizer | None = None
        self._tokenizing = ThreadPoolExecutor(1, "tokenizing")
        self._info: EngineInfo | None = None
        self._errors_before = 0
        self._processes: Processes = frozenset()
        self._grammars = GrammarTrials()

    async def open(self) -> EngineInfo:
        """Load the model in a thread: it takes from seconds to minutes."""
        loop = asyncio.get_running_loop()
        logging.getLogger(_NOISY).setLevel(logging.NOTSET)
        # Those of an engine before this one are none of this one's.
        self._errors_before = len(engine_errors())
        # One that Python starts by itself, and that stays, is none of the engine's.
        resource_tracker.ensure_running()
        others = descendants()
        self._loading = loop.run_in_executor(None, load, self._config, self._before, self._after)
        loaded = await self._loaded(self._loading)
        self._processes = descendants() - others
        self._engine = loaded.engine
        self._tokenizer = loaded.tokenizer
        model = loaded.engine.model_config
        self._info = EngineInfo(
            model=model.model,
            version=f"vllm {VLLM_VERSION}",
            max_model_len=model.max_model_len,
            vocabulary_size=len(loaded.tokenizer.tokenizer),
            denied=frozenset({*loaded.constants.denied, *loaded.constants.sentinels}),
            sentinels=loaded.constants.sentinels if loaded.has_plugin else (),
            tags=loaded.tags,
            always_thinks=self._config.reasoning_block == "open",
        )
        return self._info

    @property
    def info(self) -> EngineInfo:
        """What vLLM and the tokenizer say."""
        if self._info is None:
            raise EngineDead("the engine is not open")
        return self._info

    async def _loaded(self, loading: asyncio.Future[Loaded]) -> Loaded:
        limit_s = self._config.engine_start_timeout_s
        began = time.monotonic()
        failing_since: float | None = None
        while True:
            done, _ = await asyncio.wait([loading], timeout=_LOOK_EVERY_S)
            if done:
                return loading.result()
            now = time.monotonic()
            if failing_since is None and self._errors():
                failing_since = now
            # vLLM's processes can fail to end after an error, and its constructor waits for them.
            if failing_since is not None and now - failing_since > _AFTER_ERROR_S:
                cause = root_cause(self._errors()) or "its log above says more"
                raise EngineUnavailable(explained(cause, self._config))
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
        tokenizer = cast("_Tokenizer", self._tokenizer.tokenizer)
        return await loop.run_in_executor(self._tokenizing, _render, tokenizer, job)

    def detokenizer(self, prompt_token_ids: tuple[int, ...]) -> Detokenizer:
        """vLLM's own."""
        return _Detokenizer(self._running().get_tokenizer(), prompt_token_ids)

    def encode(self, text: str) -> tuple[int, ...]:
        """In the event loop, so for a few words only."""
        ids: list[int] = self._running().get_tokenizer().encode(text, add_special_tokens=False)
        return tuple(ids)

    async def stream(self, segment: Segment) -> AsyncGenerator[Piece, None]:
        """Pieces as vLLM brings them."""
        engine = self._running()
        self._check_length(segment.prompt_token_ids)
        await self._grammars.require(segment.sampling.structured_output)
        try:
            outputs = engine.generate(
                tokens_input(list(segment.prompt_token_ids)),
                self._params(segment),
                segment.request_id,
            )
            async with aclosing(outputs):
                async for output in outputs:
                    part = output.outputs[0]
                    if part.finish_reason == "error":
                        raise EngineError("vLLM ended the request with an error")
                    yield Piece(
                        token_ids=tuple(part.token_ids),
                        cached_tokens=output.num_cached_tokens or 0,
                        finish_reason=_FINISH[part.finish_reason] if part.finish_reason else None,
                        logprobs=() if self.info.sentinels else _logprobs(part),
                    )
        except VLLMClientError as error:
            raise _refusal(error) from error
        except EngineDeadError as error:
            raise self._obituary() from error
        except EngineGenerateError as error:
            raise EngineError(f"vLLM could not generate: {error.__cause__ or error}") from error

    def _params(self, segment: Segment) -> SamplingParams:
        params = sampling_params(segment.sampling, segment.seed, fresh_cache=segment.fresh_cache)
        seam = len(segment.prompt_token_ids) - segment.carried
        carried = segment.prompt_token_ids[seam:]
        extra = self._decorate(segment) if self._decorate else {}
        if self.info.sentinels and segment.gates is not None:
            gates = seamed(params, segment.gates, carried, self._running().get_tokenizer())
            params.stop_token_ids = list(self.info.sentinels)
            extra |= packed(gates)
        elif not self.info.sentinels:
            params.logprobs = 0
            params.logit_bias = biased(params, segment.gates, carried)
        params.extra_args = extra or None
        return params

    async def health(self) -> None:
        """Asks vLLM."""
        try:
            await self._running().check_health()
        except EngineDeadError as error:
            raise self._obituary() from error

    def _errors(self) -> str:
        return engine_errors(self._errors_before)

    def _obituary(self) -> EngineDead:
        cause = root_cause(self._errors())
        if cause is None:
            return EngineDead("vLLM's engine process is gone; its log says why")
        short = " ".join(cause.split())[:500]
        if is_out_of_memory(RuntimeError(cause)):
            return EngineOutOfMemory(f"vLLM's engine process ran out of memory: {short}")
        return EngineDead(f"vLLM's engine process is gone: {short}")

    async def close(self) -> None:
        """Stop the engine's processes, in the middle of loading, too. Those that do not end are
        killed: they would hold the memory that the next engine needs."""
        engine, self._engine = self._engine, None
        # It logs the end of its own processes as an error, with a traceback.
        logging.getLogger(_NOISY).setLevel(logging.CRITICAL)
        self._tokenizing.shutdown(wait=False, cancel_futures=True)
        if engine is None:
            await self._give_up_loading()
        else:
            # In a thread of its own: one that hangs must not hold up the end of this process.
            closing = Thread(target=engine.shutdown, name="close vLLM", daemon=True)
            closing.start()
            await _within(_CLOSE_TIMEOUT_S, lambda: not closing.is_alive())
        if left := await kill(self._processes, _KILL_TIMEOUT_S):
            log.error("processes of vLLM outlive it: %s", sorted(pid for pid, _ in left))

    async def _give_up_loading(self) -> None:
        """vLLM can't be told to stop loading; when its processes die, its constructor raises."""
        loading, self._loading = self._loading, None
        while loading is not None and not loading.done():
            for process in multiprocessing.active_children():
                process.kill()
            await asyncio.wait([loading], timeout=0.2)
        if loading is not None and not loading.cancelled() and loading.exception() is None:
            await asyncio.to_thread(loading.result().engine.shutdown)

    def _running(self) -> AsyncLLM:
        if self._engine is None:
            raise EngineDead("the engine is not open")
        return self._engine

    def _in_vocabulary(self, ids: Sequence[int]) -> tuple[int, ...]:
        vocabulary = self._tokenizer.vocabulary_size if self._tokenizer else 0
        if (worst := max(ids)) >= vocabulary:
            raise InvalidMessage(
                Reason.UNSUPPORTED,
                "$.prompt_token_ids",
                f"token {worst} is out of vocabulary: the model has {vocabulary} tokens",
            )
        return tuple(ids)

    def _check_length(self, ids: Sequence[int]) -> None:
        if not ids:
            raise InvalidMessage(Reason.EMPTY_PROMPT, "$.prompt", "there are no tokens in it")
        if len(ids) >= self.info.max_model_len:
            raise InvalidMessage(
                Reason.PROMPT_TOO_LONG,
                "$.prompt",
                f"has {len(ids)} tokens; the model's context is {self.info.max_model_len}, "
                "the answer included",
            )


class _Detokenizer:
    """vLLM's incremental detokenizer, fast or slow as the tokenizer asks, outside of a request."""

    def __init__(self, tokenizer: Any, prompt_token_ids: tuple[int, ...]) -> None:
        request = EngineCoreRequest(
            request_id="",
            prompt_token_ids=list(prompt_token_ids),
            mm_features=None,
            sampling_params=SamplingParams(),
            pooling_params=None,
            arrival_time=0.0,
            lora_request=None,
            cache_salt=None,
            data_parallel_rank=None,
        )
        detokenizer = IncrementalDetokenizer.from_new_request(tokenizer, request)
        self._inner = cast("BaseIncrementalDetokenizer", detokenizer)

    def step(self, token_id: int) -> str:
        """The text that this id makes whole."""
        self._inner.token_ids.append(token_id)
        return self._inner.decode_next(token_id)


async def _within(limit_s: float, over: Callable[[], bool]) -> None:
    end = time.monotonic() + limit_s
    while not over() and time.monotonic() < end:  # noqa: ASYNC110  a thread sends no event
        await asyncio.sleep(0.05)


def _logprobs(part: CompletionOutput) -> tuple[float, ...]:
    """The sampled tokens' own; NaN where vLLM has none to give."""
    steps = cast("Sequence[Mapping[int, Logprob] | None]", part.logprobs or ())
    found: list[float] = []
    for token, step in zip(part.token_ids, steps, strict=False):
        own = step.get(token) if step else None
        found.append(float("nan") if own is None else own.logprob)
    return tuple(found)


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


def _refusal(error: VLLMClientError) -> InvalidMessage:
    """A request that vLLM won't take, as a fault of the job's, with the field where it says so."""
    parameter = getattr(error, "parameter", None)
    text = str(error.args[0] if error.args else error)
    if parameter is None and "grammar" in text.lower():
        parameter = "structured_output"
    field = f"$.sampling.{parameter}" if parameter in Sampling.__struct_fields__ else "$"
    return InvalidMessage(Reason.UNSUPPORTED, field, text[:1000])
