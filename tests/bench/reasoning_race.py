"""Runs the turns: reasoning that is cut, and plain requests of the same length, one at a time."""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from itertools import count
from typing import Final

import msgspec
from msgspec import structs
from sluicegate.schemas import GenerationJob, Reasoning, ReasoningRecord, Sampling
from sluicegate.worker.endings import Answered
from sluicegate.worker.engine import Engine, Piece, Segment
from sluicegate.worker.gating import Gating
from sluicegate.worker.session import GenerationSession
from sluicegate.worker.vllm_engine import VllmEngine

from .engine_race import PROMPTS, Say
from .engine_report import BenchFailed
from .reasoning_report import CutTurn

START: Final = "<think>"
END: Final = "</think>"
WRAP_UP: Final = "That is enough thinking: I answer now, from what is settled so far."
# The answer's tokens: the request that is cut must be running still, and its successor run on. The
# profile must leave them some share of all tokens, and this is more than that.
_ANSWER: Final = 4
_SHARE: Final = 0.01
_numbers = count()


class _Resumed:
    """The engine, but that a resumed request may be told not to read the cache. Keeps that one."""

    def __init__(self, engine: Engine, *, fresh_cache: bool) -> None:
        self.info = engine.info
        self.prompt_token_ids = engine.prompt_token_ids
        self.detokenizer = engine.detokenizer
        self.encode = engine.encode
        self.open, self.health, self.close = engine.open, engine.health, engine.close
        self._engine = engine
        self._fresh_cache = fresh_cache
        self.resumed: Segment | None = None

    async def stream(self, segment: Segment) -> AsyncGenerator[Piece, None]:
        if segment.carried:
            segment = structs.replace(segment, fresh_cache=self._fresh_cache)
            self.resumed = segment
        async with aclosing(self._engine.stream(segment)) as pieces:
            async for piece in pieces:
                yield piece


class Cut(msgspec.Struct, frozen=True):
    """One attempt that was cut: what is on record, and the prompt that the answer came from."""

    record: ReasoningRecord
    prompt: tuple[int, ...]


async def race(
    engine: VllmEngine, lengths: Sequence[int], *, rounds: int, say: Say
) -> list[CutTurn]:
    """After a round of warming up, every way in every round; which one is first, changes."""
    turns: list[CutTurn] = []
    for number in range(rounds + 1):
        for kept in lengths:
            turn = await _turn(engine, number, kept)
            say(
                f"round {number or 'of warming up'}, {kept} tokens kept: {_ms(turn.cut_s)} after "
                f"the cut, {_ms(turn.normal_s)} normally, {_ms(turn.behind_abort_s)} behind an "
                f"aborted request; not cached {_ms(turn.cut_uncached_s)} "
                f"and {_ms(turn.normal_uncached_s)}"
            )
            if number:
                turns.append(turn)
    return turns


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms"


async def _turn(engine: VllmEngine, number: int, kept: int) -> CutTurn:
    job = GenerationJob(prompt=PROMPTS[number % len(PROMPTS)])
    asked = (*await engine.prompt_token_ids(job), *engine.encode(f"{START}\n"))
    cuts: dict[bool, Cut] = {}
    for fresh in (False, True) if number % 2 else (True, False):
        # Thoughts of their own: what one of them leaves in the cache is of no use to the other.
        seed = 2 * number + fresh
        cuts[fresh] = await _cut(engine, asked, kept, seed=seed, fresh_cache=fresh)
    prompt = cuts[False].prompt
    if len(cuts[True].prompt) != len(prompt):
        raise BenchFailed("the same reasoning was closed in two ways")
    # As long, with endings of their own: the cut's was not in the cache either.
    thought, closing = prompt[: len(asked) + kept], prompt[len(asked) + kept :]
    first: dict[bool, tuple[float, int]] = {}
    for fresh in (True, False) if number % 2 else (False, True):
        ending = closing[1:] + closing[:1] if fresh else closing[::-1]
        first[fresh] = await _first_token(engine, (*thought, *ending), fresh_cache=fresh)
    await _abort(engine, asked)
    ending = closing[2:] + closing[:2]
    behind, behind_cached = await _first_token(engine, (*thought, *ending), fresh_cache=False)
    cut, uncut = cuts[False].record, cuts[True].record
    if cut.first_answer_token_s is None or uncut.first_answer_token_s is None:
        raise BenchFailed("nothing was cut")
    cached = {cut.resumed_cached_tokens, first[False][1], behind_cached}
    if uncut.resumed_cached_tokens or first[True][1] or len(cached) > 1:
        raise BenchFailed(f"not as much as wanted was read from the cache: {cached}")
    return CutTurn(
        round=number,
        kept=kept,
        prompt_tokens=len(prompt),
        cached_tokens=cut.resumed_cached_tokens,
        cut_s=cut.first_answer_token_s,
        cut_uncached_s=uncut.first_answer_token_s,
        normal_s=first[False][0],
        normal_uncached_s=first[True][0],
        behind_abort_s=behind,
    )


async def _cut(
    engine: VllmEngine, prompt: tuple[int, ...], kept: int, *, seed: int, fresh_cache: bool
) -> Cut:
    """As a worker does it, streaming. Only the cap is in force: nothing else is to end it."""
    tokens = kept + max(_ANSWER, kept // 64)
    job = GenerationJob(
        id=f"cut-{next(_numbers)}",
        prompt_token_ids=prompt,
        sampling=Sampling(temperature=0.7, seed=seed, max_tokens=tokens, min_tokens=tokens),
        profile="off",
        gates={"reasoning_answer_share": _SHARE},
        reasoning=Reasoning(mode="cut", effort=kept),
        stream=True,
    )
    resumed = _Resumed(engine, fresh_cache=fresh_cache)
    session = GenerationSession(
        job,
        resumed,
        worker="bench",
        nonce="0",
        gating=Gating(wrap_up=WRAP_UP),
        release=lambda _, __: None,
        release_reasoning=lambda _, __: None,
    )
    ending = await session.run()
    record = session.report(ending, None).record.reasoning
    if not isinstance(ending, Answered) or record is None or resumed.resumed is None:
        raise BenchFailed(f"an attempt ended as {ending!r}")
    if (record.tokens, record.cuts) != (kept, 1):
        raise BenchFailed(f"{record.tokens} tokens were kept, in {record.cuts} cuts")
    return Cut(record, resumed.resumed.prompt_token_ids)


async def _abort(engine: VllmEngine, prompt: tuple[int, ...]) -> None:
    """Leave a request in the middle, as a cut does: the engine is at its next step already."""
    segment = Segment(
        request_id=f"aborted-{next(_numbers)}",
        prompt_token_ids=prompt,
        sampling=Sampling(temperature=0.7, max_tokens=64, min_tokens=64),
        seed=2,
    )
    came = 0
    async with aclosing(engine.stream(segment)) as pieces:
        async for piece in pieces:
            came += len(piece.token_ids)
            if came >= _ANSWER:
                break


async def _first_token(
    engine: VllmEngine, prompt: tuple[int, ...], *, fresh_cache: bool
) -> tuple[float, int]:
    """Seconds to the first token of a request like any other, and how much of its prompt was read
    from the cache."""
    segment = Segment(
        request_id=f"normal-{next(_numbers)}",
        prompt_token_ids=prompt,
        sampling=Sampling(temperature=0.7, max_tokens=_ANSWER, min_tokens=_ANSWER),
        seed=1,
        fresh_cache=fresh_cache,
    )
    first_s: float | None = None
    cached = 0
    began = time.perf_counter()
    async with aclosing(engine.stream(segment)) as pieces:
        async for piece in pieces:
            if first_s is None and piece.token_ids:
                first_s = time.perf_counter() - began
                cached = piece.cached_tokens
    if first_s is None:
        raise BenchFailed("a request brought nothing")
    return first_s, cached
