"""A fault put into the real engine, with the gates off and with the gates on."""

import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final

from msgspec import Struct, structs

from ..guards.reasoning.tags import Tags
from ..rollback import attempt_seed
from ..schemas import (
    GenerationJob,
    Reasoning,
    ReasoningRecord,
    Sampling,
    SegmentRecord,
    TripRecord,
)
from ..worker.endings import Answered, Ending, GaveUp, Refused, Report
from ..worker.engine import Engine, Segment
from ..worker.gating import Gating
from ..worker.release import Release
from ..worker.session import GenerationSession
from .faults import IN_REASONING, CannotInject, Fault, Order, Orders
from .inject_judge import found_after, innocent, is_clean, surviving

Say = Callable[[str], None]

PROMPT: Final = "Explain in a few sentences how a rainbow forms."
# Calm, and long enough for a loop to be recognised. An end of the text waits for the fault.
_MAX_TOKENS: Final = 160
_AFTER: Final = 4
# For reasoning and answer together.
_MAX_THINKING: Final = 1000
# Before seconds are compared: neither run is to pay for the engine's first steps or the prompt.
_WARM_UP: Final = 8


class Raw(Struct, frozen=True, kw_only=True):
    """What any user of the plain engine gets. `onset` is the first struck token, `span` the struck
    text in characters, half open; without a struck token both stand at the end. Of a fault in the
    reasoning the span is in `reasoning`, a loop's begins with its second turn, and `text` is the
    answer behind it."""

    text: str
    token_ids: tuple[int, ...]
    onset: int
    span: tuple[int, int]
    reasoning: str | None = None
    engine_s: float = 0.0


class Gated(Struct, frozen=True, kw_only=True):
    """What a client gets. `surviving`: how many tokens of the fault are still in it, or in the
    reasoning that it was made from."""

    text: str
    reasoning: str | None = None
    reasoning_record: ReasoningRecord | None = None
    outcome: str
    detail: str
    trips: tuple[TripRecord, ...]
    segments: tuple[SegmentRecord, ...]
    wasted_tokens: int
    engine_s: float
    surviving: int


class Saved(Struct, frozen=True, kw_only=True):
    """What the guard saved against the plain engine, in tokens generated and seconds in the engine:
    less than nothing where it took more. `token_ratio` and `time_ratio`: how many times more the
    plain engine took."""

    tokens: int
    seconds: float
    token_ratio: float
    time_ratio: float


class Injection(Struct, frozen=True, kw_only=True):
    """Both runs, with a fault of at most `length` tokens. `found_after_tokens`: how many tokens
    from the fault's first one to its finding, both included; None where it was not found. `clean`:
    the text was accepted and nothing of the fault is in it, or in what it was made from. `saved` is
    for faults in the reasoning alone: with the others the plain engine has its text, a bad one, as
    soon."""

    kind: Fault
    seed: int
    at: int
    raw: Raw
    gated: Gated
    length: int
    found_after_tokens: int | None
    clean: bool
    saved: Saved | None = None

    @property
    def ok(self) -> bool:
        """The fault was found and mended."""
        return self.found_after_tokens is not None and self.clean


def job_for(ordered: Order, job_id: str, *, prompt: str = PROMPT) -> GenerationJob:
    """A calm job that is long enough for the fault to strike."""
    sampling = Sampling(
        temperature=0,
        repetition_penalty=1.1,
        min_tokens=ordered.at + _AFTER,
        max_tokens=ordered.at + _MAX_TOKENS,
    )
    return GenerationJob(id=job_id, prompt=prompt, sampling=sampling)


async def thinking_job(
    engine: Engine, ordered: Order, job_id: str, *, prompt: str = PROMPT
) -> GenerationJob:
    """A question to a model that finds itself reasoning: the prompt, through the model's
    chat template, ends with the start of a reasoning block. Any model will go on from there.
    Raises CannotInject where the engine knows of no such block."""
    asked = job_for(ordered, job_id, prompt=prompt)
    tags = _tags(engine)
    token_ids = await engine.prompt_token_ids(asked)
    if not tags.opened_by(token_ids, partial(_text_of, engine)):
        token_ids = (*token_ids, *engine.encode(f"{tags.start}\n"))
    return structs.replace(
        asked,
        prompt=None,
        prompt_token_ids=token_ids,
        sampling=structs.replace(asked.sampling, max_tokens=ordered.at + _MAX_THINKING),
        reasoning=Reasoning(mode="cut"),
    )


def _tags(engine: Engine) -> Tags:
    if engine.info.tags is None:
        raise CannotInject("the engine knows of no reasoning: set reasoning_start, reasoning_end")
    return engine.info.tags


def _text_of(engine: Engine, token_ids: Sequence[int]) -> str:
    return "".join(map(engine.detokenizer(()).step, token_ids))


async def inject(
    engine: Engine,
    orders: Orders,
    ordered: Order,
    job: GenerationJob,
    say: Say,
    gating: Gating | None = None,
) -> Injection:
    """Run the job with the fault twice, alone on an open engine that asks `orders`. A fault in the
    reasoning wants a `thinking_job`."""
    thinks = ordered.kind in IN_REASONING
    if thinks:
        await _warm_up(engine, job)
    raw_id = f"{job.id}.raw"
    orders.place(raw_id, ordered)
    orders.place(job.id, ordered)
    say("generating on the plain engine")
    raw = await run_raw(engine, ordered, job, raw_id)
    say(f"{len(raw.token_ids)} tokens; once more, with the gates on")
    report = await run_gated(engine, job, gating=gating)
    gated = gated_of(report, ordered)
    say(f"{report.usage.completion_tokens} tokens, {len(gated.trips)} trips")
    return Injection(
        kind=ordered.kind,
        seed=ordered.seed,
        at=ordered.at,
        length=ordered.length,
        raw=raw,
        gated=gated,
        found_after_tokens=found_after(gated.trips, ordered),
        clean=is_clean(report, ordered),
        saved=saved(raw, gated) if thinks else None,
    )


async def _warm_up(engine: Engine, job: GenerationJob) -> None:
    segment = Segment(
        request_id=f"{job.id}.warm:1",
        prompt_token_ids=await engine.prompt_token_ids(job),
        sampling=structs.replace(job.sampling, max_tokens=_WARM_UP, min_tokens=0),
        seed=0,
    )
    async with aclosing(engine.stream(segment)) as pieces:
        async for _ in pieces:
            pass


async def run_raw(engine: Engine, ordered: Order, job: GenerationJob, request: str) -> Raw:
    """No gate, no rollback, one request. What comes is what the client gets."""
    prompt = await engine.prompt_token_ids(job)
    segment = Segment(
        request_id=f"{request}:1",
        prompt_token_ids=prompt,
        sampling=job.sampling,
        seed=attempt_seed(job.id, job.sampling.seed, job.attempt),
    )
    tokens: list[int] = []
    began = time.monotonic()
    async with aclosing(engine.stream(segment)) as pieces:
        async for piece in pieces:
            ends_text = piece.finish_reason == "stop"
            tokens += piece.token_ids[:-1] if ends_text else piece.token_ids
    engine_s = time.monotonic() - began
    detokenizer = engine.detokenizer(prompt)
    offsets = [0]
    text = ""
    for token in tokens:
        text += detokenizer.step(token)
        offsets.append(len(text))
    first = min(ordered.at, len(tokens))
    bad = min(ordered.at + innocent(ordered), len(tokens))
    last = min(ordered.at + ordered.length, len(tokens))
    thought: str | None = None
    if ordered.kind in IN_REASONING:
        end = _end_of_reasoning(_tags(engine), tokens, offsets, text)
        thought, text = text[: end[0]], text[end[1] :]
    return Raw(
        text=text,
        reasoning=thought,
        token_ids=tuple(tokens),
        onset=first,
        span=(offsets[bad], offsets[max(bad, last)]),
        engine_s=engine_s,
    )


def _end_of_reasoning(
    tags: Tags, tokens: Sequence[int], offsets: Sequence[int], text: str
) -> tuple[int, int]:
    """Where the end tag stands in a text, in characters; behind it where there is none."""
    if not tags.by_id:
        at = text.find(tags.end)
        return (at, at + len(tags.end)) if at >= 0 else (len(text), len(text))
    size = len(tags.end_ids)
    for at in range(len(tokens) - size + 1):
        if tuple(tokens[at : at + size]) == tags.end_ids:
            return offsets[at], offsets[at + size]
    return len(text), len(text)


async def run_gated(
    engine: Engine,
    job: GenerationJob,
    release: Release | None = None,
    *,
    release_reasoning: Release | None = None,
    gating: Gating | None = None,
) -> Report:
    """As a worker does it."""
    session = GenerationSession(
        job,
        engine,
        worker="inject",
        nonce="0",
        gating=gating,
        release=release,
        release_reasoning=release_reasoning,
    )
    return session.report(await session.run(), None)


def gated_of(report: Report, ordered: Order) -> Gated:
    """The run's record, as far as it is shown."""
    return Gated(
        text=report.text,
        reasoning=report.reasoning,
        reasoning_record=report.record.reasoning,
        outcome=_outcome(report.ending),
        detail=_detail(report.ending),
        trips=report.record.trips,
        segments=report.record.segments,
        wasted_tokens=report.usage.wasted_tokens,
        engine_s=report.timings.engine_s,
        surviving=surviving(report, ordered),
    )


def saved(raw: Raw, gated: Gated) -> Saved:
    """All tokens that the engine brought count, those that were thrown away among them."""
    tokens = sum(segment.tokens for segment in gated.segments)
    return Saved(
        tokens=len(raw.token_ids) - tokens,
        seconds=raw.engine_s - gated.engine_s,
        token_ratio=len(raw.token_ids) / max(1, tokens),
        time_ratio=raw.engine_s / max(1e-9, gated.engine_s),
    )


def _outcome(ending: Ending) -> str:
    match ending:
        case Answered():
            return "completed"
        case GaveUp():
            return "gave_up"
        case Refused():
            return "refused"
        case _:
            return "engine_failed"


def _detail(ending: Ending) -> str:
    if isinstance(ending, Refused):
        return str(ending.error)
    return getattr(ending, "detail", "")
