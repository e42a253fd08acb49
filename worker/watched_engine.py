"""The engine that sessions see: the same for the worker's whole life, whatever becomes of the one
behind it. It notices what passes through: pieces, deaths, a lack of memory."""

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

from ..schemas import GenerationJob
from .engine import (
    Detokenizer,
    Engine,
    EngineDead,
    EngineInfo,
    EngineOutOfMemory,
    Piece,
    Segment,
)
from .stall import StallWatch

_NO_MEMORY: Final = re.compile(r"out of memory|can(?:'|no)t allocate memory", re.IGNORECASE)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether it says that memory ran out, of the host or of a device: torch's own error, of which
    this knows the name alone, or a driver's words. What an engine that lives on says of a request
    is not looked at."""
    if isinstance(error, MemoryError | EngineOutOfMemory):
        return True
    if type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError | OSError) and bool(_NO_MEMORY.search(str(error)))


class WatchedEngine:
    """Passes everything on to `current`; without one, every call raises EngineDead."""

    def __init__(self, stall: StallWatch, on_death: Callable[[EngineDead], None]) -> None:
        self.current: Engine | None = None
        self.stall = stall
        self._on_death = on_death
        self._info: EngineInfo | None = None

    def __repr__(self) -> str:
        return f"<WatchedEngine of {self.current!r}>"

    @property
    def info(self) -> EngineInfo:
        """What the engine can do, or the last one could. Raises EngineDead before `open`."""
        if self.current is not None:
            self._info = self.current.info
        if self._info is None:
            raise EngineDead("the engine is not open")
        return self._info

    async def open(self) -> EngineInfo:
        """Open the current one."""
        self._info = await self._running().open()
        return self._info

    async def prompt_token_ids(self, job: GenerationJob) -> tuple[int, ...]:
        """As the current one does."""
        return await self._running().prompt_token_ids(job)

    def detokenizer(self, prompt_token_ids: tuple[int, ...]) -> Detokenizer:
        """The current one's."""
        return self._running().detokenizer(prompt_token_ids)

    def encode(self, text: str) -> tuple[int, ...]:
        """As the current one does."""
        return self._running().encode(text)

    async def stream(self, segment: Segment) -> AsyncGenerator[Piece, None]:
        """Pieces as they come. What a lack of memory is called depends on where it shows: here it
        is EngineOutOfMemory."""
        engine = self._running()
        self.stall.begin(segment.request_id, len(segment.prompt_token_ids))
        try:
            async with aclosing(engine.stream(segment)) as pieces:
                async for piece in pieces:
                    self.stall.beat(segment.request_id)
                    yield piece
        except EngineOutOfMemory as error:
            self._hear(engine, error)
            raise
        except Exception as error:
            if is_out_of_memory(error):
                short = EngineOutOfMemory(f"the engine ran out of memory: {error}")
                self._hear(engine, short)
                raise short from error
            if isinstance(error, EngineDead):
                self._hear(engine, error)
            raise
        finally:
            self.stall.end(segment.request_id)

    async def health(self) -> None:
        """The current one's."""
        await self._running().health()

    async def close(self) -> None:
        """Let go of the current one; who keeps the engines closes them."""
        self.current = None
        self.stall.forget()

    def _hear(self, engine: Engine, error: EngineDead) -> None:
        """One that was let go of may say what it likes."""
        if engine is self.current:
            self._on_death(error)

    def _running(self) -> Engine:
        if self.current is None:
            raise EngineDead("the engine is being started anew")
        return self.current
