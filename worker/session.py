"""GenerationSession: one attempt at one job, on any engine, with no broker in sight.

It is the one place where tokens and engine meet. An attempt is a sequence of segments; each is one
request to the engine that goes on from the tokens accepted so far.
"""

import time
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime

from ..rollback import base_seed, derive_seed
from ..schemas import (
    AttemptRecord,
    FinishReason,
    GenerationJob,
    InvalidMessage,
    SegmentRecord,
    Timings,
    Usage,
)
from ..schemas.errors import tame
from .endings import Answered, Ending, EngineLost, Faulted, Refused, Report
from .engine import Engine, EngineDead, EngineError, Segment

Release = Callable[[int, str], None]
Clock = Callable[[], float]


class GenerationSession:
    """Runs an attempt to its end. `release(offset, text)` gets text that won't be taken back."""

    def __init__(
        self,
        job: GenerationJob,
        engine: Engine,
        *,
        worker: str,
        nonce: str,
        release: Release | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._job = job
        self._engine = engine
        self._worker = worker
        self._nonce = nonce
        self._release = release
        self._clock = clock
        self._started_at = datetime.now(UTC)
        self._began: float | None = None
        self._first_token_s: float | None = None
        self._ended: float | None = None
        self._prompt: tuple[int, ...] = ()
        self._tokens: list[int] = []
        self._text: list[str] = []
        self._released = 0
        self._segments: list[SegmentRecord] = []

    async def run(self) -> Ending:
        """Generate until the text is done or can't be. What the job or the engine did wrong comes
        back as an ending, never as an exception."""
        try:
            self._prompt = await self._engine.prompt_token_ids(self._job)
            self._began = self._clock()
            return await self._segment(derive_seed(self._base_seed(), self._job.attempt, 0))
        except InvalidMessage as error:
            return Refused(error)
        except EngineDead as error:
            return EngineLost(tame(str(error)))
        except EngineError as error:
            return Faulted(tame(str(error)))
        finally:
            self._ended = self._clock()

    def report(self, ending: Ending, queued_s: float | None) -> Report:
        """What happened, up to now. Fit to be called after `run` was cancelled, too."""
        ended = self._ended if self._ended is not None else self._clock()
        return Report(
            ending=ending,
            text="".join(self._text),
            record=AttemptRecord(
                attempt=self._job.attempt,
                worker=self._worker,
                started_at=self._started_at,
                segments=tuple(self._segments),
            ),
            usage=Usage(
                prompt_tokens=len(self._prompt),
                cached_tokens=self._segments[0].cached_tokens if self._segments else 0,
                completion_tokens=len(self._tokens),
            ),
            timings=Timings(
                queued_s=queued_s,
                first_token_s=self._first_token_s,
                engine_s=ended - self._began if self._began is not None else 0.0,
            ),
        )

    def _base_seed(self) -> int:
        return base_seed(self._job.id, self._job.sampling.seed)

    async def _segment(self, seed: int) -> Ending:
        """One request to the engine, from the tokens accepted so far to a finish reason."""
        segment = Segment(
            request_id=f"{self._job.id}:{self._job.attempt}:{self._nonce}:{len(self._segments)}",
            prompt_token_ids=(*self._prompt, *self._tokens),
            sampling=self._job.sampling,
            seed=seed,
        )
        began = self._clock()
        before = len(self._tokens)
        cached = 0
        finish: FinishReason | None = None
        try:
            async with aclosing(self._engine.stream(segment)) as pieces:
                async for piece in pieces:
                    cached = max(cached, piece.cached_tokens)
                    self._accept(piece.token_ids, piece.text)
                    finish = piece.finish_reason
                    if finish is not None:
                        break
        finally:
            self._segments.append(
                SegmentRecord(
                    seed=seed,
                    prompt_tokens=len(segment.prompt_token_ids),
                    cached_tokens=cached,
                    tokens=len(self._tokens) - before,
                    engine_s=self._clock() - began,
                    finish_reason=finish,
                )
            )
        if finish in ("stop", "length"):
            return Answered(finish)
        return Faulted(f"the engine ended the request with {finish or 'no reason at all'}")

    def _accept(self, token_ids: tuple[int, ...], text: str) -> None:
        if token_ids and self._first_token_s is None and self._began is not None:
            self._first_token_s = self._clock() - self._began
        self._tokens.extend(token_ids)
        if text:
            self._text.append(text)
            if self._release is not None:
                self._release(self._released, text)
            self._released += len(text)
