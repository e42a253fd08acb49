"""The one engine that all contenders share, with a record of every request to it."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final, cast

from msgspec import Struct, to_builtins
from sluicegate.ops.faults import AFTER, BEFORE, KEY, Order, Strike
from sluicegate.schemas import GenerationJob
from sluicegate.worker.config import Config
from sluicegate.worker.engine import Piece, Segment
from sluicegate.worker.vllm_engine import VllmEngine
from vllm.inputs.engine import tokens_input
from vllm.sampling_params import RepetitionDetectionParams, RequestOutputKind, SamplingParams
from vllm.v1.engine.async_llm import AsyncLLM

from ..live.checks_bench import LentEngine
from .oracle import Request

# What vLLM's own documents use: patterns of 4 to 128 tokens, four times in a row.
REPETITION: Final = RepetitionDetectionParams(max_pattern_size=128, min_pattern_size=4, min_count=4)

_FORGET_S: Final = 20.0


class Whole(Struct, frozen=True, kw_only=True):
    """A whole answer, as a plain user of vLLM has it."""

    text: str
    ids: tuple[int, ...]
    finish: str


class Tap:
    """All requests since the last `clear`, by job."""

    def __init__(self, config: Config) -> None:
        self.engine = VllmEngine(config, before=BEFORE, after=AFTER, decorate=self._decorate)
        self._strikes: dict[str, Order] = {}
        self._requests: defaultdict[str, list[Request]] = defaultdict(list)

    def place(self, job_id: str, ordered: Order) -> None:
        """Let a fault strike a job."""
        self._strikes[job_id] = ordered

    def of(self, job_id: str) -> list[Request]:
        """What was asked for a job, in order."""
        return self._requests[job_id]

    def clear(self) -> None:
        """Forget the requests so far."""
        self._requests.clear()
        self._strikes.clear()

    async def forget_prefixes(self) -> None:
        """Empty the prefix cache: who comes second to a prompt is to read no more of it than who
        came first. Raises TimeoutError where requests keep it in use."""
        async with asyncio.timeout(_FORGET_S):
            while not await self._llm().reset_prefix_cache():
                await asyncio.sleep(0.1)

    def _llm(self) -> AsyncLLM:
        """The very engine that the sessions run on."""
        return cast("AsyncLLM", vars(self.engine)["_engine"])

    def _decorate(self, segment: Segment) -> dict[str, Any]:
        return _extra(self._strike(job_of(segment), segment.carried)) or {}

    def _strike(self, job_id: str, carried: int) -> Strike | None:
        ordered = self._strikes.get(job_id)
        return ordered.strike(carried, job_id) if ordered else None

    def begin(self, job_id: str, carried: tuple[int, ...]) -> Request:
        """Enter a request."""
        strike = self._strike(job_id, len(carried))
        request = Request(job=job_id, carried=carried, strike=strike, began=time.monotonic())
        self._requests[job_id].append(request)
        return request

    async def whole(
        self, job: GenerationJob, *, seed: int, job_id: str = "", repetition: bool = False
    ) -> Whole:
        """As a plain worker asks vLLM: the whole answer at once, in vLLM's own words."""
        prompt = await self.engine.prompt_token_ids(job)
        request = self.begin(job_id or job.id, ())
        sampling = job.sampling
        params = SamplingParams(
            output_kind=RequestOutputKind.FINAL_ONLY,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=sampling.max_tokens,
            seed=seed,
            repetition_detection=REPETITION if repetition else None,
            extra_args=_extra(request.strike),
        )
        name = f"{request.job}:{len(self._requests[request.job])}"
        found = Whole(text="", ids=(), finish="")
        async for output in self._llm().generate(tokens_input(list(prompt)), params, name):
            part = output.outputs[0]
            finish = part.finish_reason or ""
            found = Whole(text=part.text, ids=tuple(part.token_ids), finish=finish)
        request.tokens = list(found.ids)
        request.finish = found.finish
        request.ended = time.monotonic()
        return found


def _extra(strike: Strike | None) -> dict[str, Any] | None:
    return None if strike is None else {KEY: to_builtins(strike)}


class TappedEngine(LentEngine):
    """The engine, for a worker that asks for segments."""

    def __init__(self, tap: Tap) -> None:
        super().__init__(tap.engine)
        self._tap = tap

    async def stream(self, segment: Segment) -> AsyncGenerator[Piece, None]:
        """As the engine's, on record. The decoration of requests has put the fault in."""
        seam = len(segment.prompt_token_ids) - segment.carried
        request = self._tap.begin(job_of(segment), segment.prompt_token_ids[seam:])
        try:
            async with aclosing(self._tap.engine.stream(segment)) as pieces:
                async for piece in pieces:
                    request.tokens += piece.token_ids
                    request.finish = piece.finish_reason or ""
                    yield piece
        finally:
            request.ended = time.monotonic()


def job_of(segment: Segment) -> str:
    """Whose segment it is: the ids here have no colon."""
    return segment.request_id.partition(":")[0]
