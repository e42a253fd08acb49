"""What a worker asks of an engine. Two implementations keep it, under one contract suite."""

from collections.abc import AsyncGenerator
from typing import Protocol

from msgspec import Struct

from ..guards.engine_gates import EngineGates
from ..guards.reasoning.tags import Tags
from ..schemas import FinishReason, GenerationJob, Sampling, SluiceError


class EngineError(SluiceError):
    """The engine failed; the job may be innocent."""


class EngineDead(EngineError):
    """The engine is gone: nothing more will come from it."""


class EngineOutOfMemory(EngineDead):
    """Memory ran out while it worked: what it holds is not to be trusted any more."""


class EngineUnavailable(EngineError):
    """The engine can't start: what is wrong and what to do."""


class EngineInfo(Struct, frozen=True, kw_only=True):
    """What an open engine can do. Lengths are in tokens.

    `version` names the engine and its version, as `vllm 0.32.0`. `vocabulary_size` counts the ids
    that the tokenizer knows; `denied` are those that are never legal output; `sentinels` is what
    the plug-in in the engine speaks with: empty where none runs. `tags` set the model's reasoning
    apart, where it has any; `always_thinks`: each output begins inside the block, whatever the
    prompt ends with.
    """

    model: str
    version: str = ""
    max_model_len: int
    vocabulary_size: int
    denied: frozenset[int] = frozenset()
    sentinels: tuple[int, ...] = ()
    tags: Tags | None = None
    always_thinks: bool = False


class Segment(Struct, frozen=True, kw_only=True):
    """One request: continue these tokens.

    The last `carried` tokens of the prompt were generated before, in earlier segments; the text of
    the whole is as if it had been generated in one go: the engine sees to it that penalties and bad
    words reach over the seam. Of `sampling`, `max_tokens` and `min_tokens` are what is left to this
    segment, `stop` is not the engine's business, and the seed is the one here. `fresh_cache`: the
    prefix cache must not be read. `gates` go to the plug-in, where there is one.
    """

    request_id: str
    prompt_token_ids: tuple[int, ...]
    sampling: Sampling
    seed: int
    carried: int = 0
    gates: EngineGates | None = None
    fresh_cache: bool = False


class Piece(Struct, frozen=True, kw_only=True):
    """What one or more engine steps brought.

    With `finish_reason` "stop" the last token ended the text and is no part of it: an end-of-text
    id, or a sentinel. `logprobs` are the tokens' own, where no plug-in watches: empty elsewhere.
    """

    token_ids: tuple[int, ...]
    cached_tokens: int = 0
    finish_reason: FinishReason | None = None
    logprobs: tuple[float, ...] = ()


class Detokenizer(Protocol):
    """Turns a stream of ids into a stream of text, half characters held back."""

    def step(self, token_id: int) -> str:
        """The text that this id makes whole; none for a special token."""
        ...


class Engine(Protocol):
    """Generates tokens. Opened once, streams many segments at a time, closed once."""

    @property
    def info(self) -> EngineInfo:
        """What the open engine can do. Raises EngineDead before `open`."""
        ...

    async def open(self) -> EngineInfo:
        """Load everything. Raises EngineUnavailable with what to do about it."""
        ...

    async def prompt_token_ids(self, job: GenerationJob) -> tuple[int, ...]:
        """The prompt in the model's tokens, through its chat template. Raises InvalidMessage."""
        ...

    def detokenizer(self, prompt_token_ids: tuple[int, ...]) -> Detokenizer:
        """A fresh detokenizer for a text that follows this prompt."""
        ...

    def encode(self, text: str) -> tuple[int, ...]:
        """A few words of ours in the model's tokens, special tokens as such."""
        ...

    def stream(self, segment: Segment) -> AsyncGenerator[Piece, None]:
        """Pieces until one has a finish reason. Closing the generator aborts the request.

        Raises InvalidMessage for a request that this engine can't take, EngineError when the
        request fails for reasons of the engine's, EngineDead when the engine is gone.
        """
        ...

    async def health(self) -> None:
        """Raises EngineDead when nothing more is to be expected."""
        ...

    async def close(self) -> None:
        """Stop and give everything back. May be called twice, and without `open`."""
        ...
