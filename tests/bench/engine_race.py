"""Runs the contenders: the plain engine and gated sessions on the same engine, turn by turn."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from itertools import count
from typing import Final, cast

from msgspec import structs
from sluicegate.schemas import GenerationJob, Sampling
from sluicegate.worker.endings import Answered
from sluicegate.worker.engine import Segment
from sluicegate.worker.session import GenerationSession
from sluicegate.worker.vllm_engine import VllmEngine
from vllm.inputs.engine import tokens_input
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.v1.engine.async_llm import AsyncLLM

from .engine_report import GATED, PLAIN, BenchFailed, EngineTurn, RollbackTurn

Say = Callable[[str], None]

PROMPTS: Final = (
    "Explain how a rainbow forms.",
    "Write a short story about a lighthouse keeper.",
    "What are the causes of inflation?",
    "Describe the life cycle of a butterfly.",
    "How does a bicycle stay upright?",
    "Tell me about the history of paper.",
    "Why do leaves change colour in autumn?",
    "What makes a good teacher?",
    "Describe a busy market in the morning.",
    "How do vaccines work?",
    "Explain the rules of chess to a child.",
    "What is the water cycle?",
    "Write a letter to a friend about a journey.",
    "How is bread made?",
    "Why is the sea salty?",
    "Describe the planets of the solar system.",
)
# What a chat service would use.
_TEMPERATURE: Final = 0.7
_TOP_P: Final = 0.95
_numbers = count()


def jobs(concurrency: int, max_tokens: int) -> list[GenerationJob]:
    """The same prompts and seeds each time, ids apart."""
    return [
        GenerationJob(
            id=f"bench-{next(_numbers)}",
            prompt=PROMPTS[index % len(PROMPTS)],
            sampling=Sampling(
                temperature=_TEMPERATURE, top_p=_TOP_P, max_tokens=max_tokens, seed=1000 + index
            ),
            stream=True,
        )
        for index in range(concurrency)
    ]


async def race(
    engine: VllmEngine, concurrencies: Sequence[int], *, max_tokens: int, rounds: int, say: Say
) -> list[EngineTurn]:
    """Both contenders at each concurrency, in each round, taking turns at being first. A round
    before the first is not counted."""
    turns: list[EngineTurn] = []
    for number in range(rounds + 1):
        for concurrency in concurrencies:
            order = (PLAIN, GATED) if number % 2 else (GATED, PLAIN)
            pair = [
                await _turn(engine, name, number, jobs(concurrency, max_tokens)) for name in order
            ]
            if number:
                turns += pair
            rates = ", ".join(f"{turn.contender} {turn.rate:.1f}" for turn in pair)
            say(f"round {number or 'of warming up'}, {concurrency} at once: {rates} tokens/s")
    return turns


async def _turn(
    engine: VllmEngine, contender: str, number: int, wanted: Sequence[GenerationJob]
) -> EngineTurn:
    prompts = [await engine.prompt_token_ids(job) for job in wanted]
    run = _plain if contender == PLAIN else _gated
    began = time.perf_counter()
    done = await asyncio.gather(
        *(run(engine, job, prompt) for job, prompt in zip(wanted, prompts, strict=True))
    )
    wall_s = time.perf_counter() - began
    return EngineTurn(
        contender=contender,
        round=number,
        concurrency=len(wanted),
        tokens=sum(tokens for _, tokens, _, _ in done),
        wall_s=wall_s,
        texts=tuple(text for text, _, _, _ in done),
        trips=sum(trips for _, _, trips, _ in done),
        wasted_tokens=sum(wasted for _, _, _, wasted in done),
    )


_Done = tuple[str, int, int, int]  # text, tokens, trips, wasted tokens


async def _plain(engine: VllmEngine, job: GenerationJob, prompt: tuple[int, ...]) -> _Done:
    """As vLLM's own users do it: deltas of text from `generate`."""
    # The very engine that the sessions run on.
    llm = cast("AsyncLLM", vars(engine)["_engine"])
    sampling = job.sampling
    params = SamplingParams(
        output_kind=RequestOutputKind.DELTA,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        max_tokens=sampling.max_tokens,
        seed=sampling.seed,
    )
    text: list[str] = []
    tokens = 0
    async for output in llm.generate(tokens_input(list(prompt)), params, job.id):
        text.append(output.outputs[0].text)
        tokens += len(output.outputs[0].token_ids)
    return "".join(text), tokens, 0, 0


async def _gated(engine: VllmEngine, job: GenerationJob, prompt: tuple[int, ...]) -> _Done:
    """As a worker does it, deltas released to a client. The prompt is turned into tokens before the
    clock runs, as for the other."""
    asked = structs.replace(job, prompt=None, prompt_token_ids=prompt)
    seen: list[str] = []
    session = GenerationSession(
        asked, engine, worker="bench", nonce="0", release=lambda _, text: seen.append(text)
    )
    ending = await session.run()
    report = session.report(ending, None)
    if not isinstance(ending, Answered) or "".join(seen) != report.text:
        raise BenchFailed(f"a gated request ended as {ending!r}")
    usage = report.usage
    return report.text, usage.completion_tokens, len(report.record.trips), usage.wasted_tokens


async def rollbacks(
    engine: VllmEngine, *, tokens: int, back: int, rounds: int
) -> list[RollbackTurn]:
    """Go back in answers to different prompts, one at a time, alone on the engine."""
    turns: list[RollbackTurn] = []
    for number in range(rounds):
        job = GenerationJob(prompt=PROMPTS[number % len(PROMPTS)])
        prompt = await engine.prompt_token_ids(job)
        whole, _, _ = await _generate(engine, prompt, tokens)
        # It may read the prompt from the cache, but must make the tokens up to the cut anew.
        _, again_s, _ = await _generate(engine, prompt, tokens - back + 1)
        kept = (*prompt, *whole[: tokens - back])
        _, resumed_s, cached = await _generate(engine, kept, 1, carried=tokens - back)
        _, uncached_s, none = await _generate(
            engine, kept, 1, carried=tokens - back, fresh_cache=True
        )
        if none or len(whole) != tokens:
            raise BenchFailed("the engine did not do as asked")
        turns.append(
            RollbackTurn(
                prompt_tokens=len(kept),
                tokens=tokens,
                back=back,
                cached_tokens=cached,
                resumed_s=resumed_s,
                uncached_s=uncached_s,
                again_s=again_s,
            )
        )
    return turns


async def _generate(
    engine: VllmEngine,
    prompt: tuple[int, ...],
    tokens: int,
    *,
    carried: int = 0,
    fresh_cache: bool = False,
) -> tuple[tuple[int, ...], float, int]:
    """The tokens, the seconds to the last one, and how many were read from the cache."""
    sampling = Sampling(temperature=0, max_tokens=tokens, min_tokens=tokens)
    segment = Segment(
        request_id=f"bench-{next(_numbers)}",
        prompt_token_ids=prompt,
        sampling=sampling,
        seed=0,
        carried=carried,
        fresh_cache=fresh_cache,
    )
    found: list[int] = []
    cached = 0
    began = time.perf_counter()
    async with aclosing(engine.stream(segment)) as pieces:
        async for piece in pieces:
            found += piece.token_ids
            cached = max(cached, piece.cached_tokens)
    return tuple(found), time.perf_counter() - began, cached
