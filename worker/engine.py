"""What a worker asks of an engine. Two implementations keep it, under one contract suite."""

from collections.abc import AsyncGenerator
from typing import Protocol

from msgspec import Struct

from ..schemas import FinishReason, GenerationJob, Sampling, SluiceError


class EngineError(SluiceError):
    """The engine failed; the job may be innocent."""


class EngineDead(EngineError):
    """The engine is gone: nothing more will come from it."""


class EngineUnavailable(EngineError):
    """The engine can't start: what is wrong and what to do."""


class EngineInfo(Struct, frozen=True, kw_only=True):
    """What an open engine can do. Lengths are in tokens."""

    model: str
    max_model_len: int


class Segment(Struct, frozen=True, kw_only=True):
    """One request: continue these tokens. The seed here rules, not the one in `sampling`."""

    request_id: str
    prompt_token_ids: tuple[int, ...]
    sampling: Sampling
    seed: int


class Piece(Struct, frozen=True, kw_only=True):
    """What one or more engine steps brought. `text` may lag behind the tokens: half a character
    and what could be the start of a stop string are held back."""

    token_ids: tuple[int, ...]
    text: str
    cached_tokens: int = 0
    finish_reason: FinishReason | None = None


class Engine(Protocol):
    """Generates tokens. Opened once, streams many segments at a time, closed once."""

    async def open(self) -> EngineInfo:
        """Load everything. Raises EngineUnavailable with what to do about it."""
        ...

    async def prompt_token_ids(self, job: GenerationJob) -> tuple[int, ...]:
        """The prompt in the model's tokens, through its chat template. Raises InvalidMessage."""
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
