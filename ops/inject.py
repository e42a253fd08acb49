"""A fault put into the real engine, with the gates off and with the gates on."""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Final

from msgspec import Struct

from ..guards.mojibake import pictures
from ..rollback import attempt_seed
from ..schemas import GenerationJob, Sampling, SegmentRecord, TripRecord
from ..worker.endings import Answered, Ending, GaveUp, Refused, Report
from ..worker.engine import Engine, Segment
from ..worker.release import Release
from ..worker.session import GenerationSession
from .faults import Fault, Order, Orders

Say = Callable[[str], None]

PROMPT: Final = "Explain in a few sentences how a rainbow forms."
# Calm, and long enough for a loop to be recognised. An end of the text waits for the fault.
_MAX_TOKENS: Final = 160
_AFTER: Final = 4
# Of a passage in another script, so many characters in the answer are no accident.
_PASSAGE_CHARACTERS: Final = 4


class Raw(Struct, frozen=True, kw_only=True):
    """What any user of the plain engine gets. `onset` is the first struck token, `span` the struck
    text in characters, half open; without a struck token both stand at the end."""

    text: str
    token_ids: tuple[int, ...]
    onset: int
    span: tuple[int, int]


class Gated(Struct, frozen=True, kw_only=True):
    """What a client gets. `surviving`: how many struck tokens are still in it."""

    text: str
    outcome: str
    detail: str
    trips: tuple[TripRecord, ...]
    segments: tuple[SegmentRecord, ...]
    wasted_tokens: int
    engine_s: float
    surviving: int


class Injection(Struct, frozen=True, kw_only=True):
    """Both runs, with a fault of at most `length` tokens. `found_after_tokens`: how many tokens
    from the fault's first one to its finding, both included; None where it was not found. `clean`:
    the text was accepted and nothing of the fault is in it."""

    kind: Fault
    seed: int
    at: int
    raw: Raw
    gated: Gated
    length: int
    found_after_tokens: int | None
    clean: bool

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


async def inject(
    engine: Engine, orders: Orders, ordered: Order, job: GenerationJob, say: Say
) -> Injection:
    """Run the job with the fault twice, alone on an open engine that asks `orders`."""
    raw_id = f"{job.id}.raw"
    orders.place(raw_id, ordered)
    orders.place(job.id, ordered)
    say("generating on the plain engine")
    raw = await run_raw(engine, ordered, job, raw_id)
    say(f"{len(raw.token_ids)} tokens; once more, with the gates on")
    report = await run_gated(engine, job)
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
    )


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
    async with aclosing(engine.stream(segment)) as pieces:
        async for piece in pieces:
            ends_text = piece.finish_reason == "stop"
            tokens += piece.token_ids[:-1] if ends_text else piece.token_ids
    detokenizer = engine.detokenizer(prompt)
    offsets = [0]
    text = ""
    for token in tokens:
        text += detokenizer.step(token)
        offsets.append(len(text))
    first = min(ordered.at, len(tokens))
    last = min(ordered.at + ordered.length, len(tokens))
    return Raw(
        text=text,
        token_ids=tuple(tokens),
        onset=first,
        span=(offsets[first], offsets[last]),
    )


async def run_gated(engine: Engine, job: GenerationJob, release: Release | None = None) -> Report:
    """As a worker does it."""
    session = GenerationSession(job, engine, worker="inject", nonce="0", release=release)
    return session.report(await session.run(), None)


def gated_of(report: Report, ordered: Order) -> Gated:
    """The run's record, as far as it is shown."""
    return Gated(
        text=report.text,
        outcome=_outcome(report.ending),
        detail=_detail(report.ending),
        trips=report.record.trips,
        segments=report.record.segments,
        wasted_tokens=report.usage.wasted_tokens,
        engine_s=report.timings.engine_s,
        surviving=surviving(report, ordered),
    )


def found_after(trips: Sequence[TripRecord], ordered: Order) -> int | None:
    """Counted from the fault's first token to the last one of the first finding that covers any of
    it. What was found before it struck is some other trouble."""
    return next(
        (trip.tokens[1] - ordered.at for trip in trips if trip.tokens[1] > ordered.at), None
    )


def surviving(report: Report, ordered: Order) -> int:
    """How many struck tokens are in the text: those of the segments that were struck, as far as no
    later rollback took them away."""
    struck: list[tuple[int, int]] = []
    rollbacks = [trip for trip in report.record.trips if trip.action == "rollback"]
    for number, segment in enumerate(report.record.segments):
        end = segment.start + segment.tokens
        if end > ordered.at and (ordered.persistent or not struck):
            first = max(ordered.at, segment.start)
            keeps = [trip.kept for trip in rollbacks if trip.segment >= number]
            # What ends a text, or a request, is no part of the text.
            text_end = end - (segment.finish_reason == "stop")
            struck.append((first, min([text_end, first + ordered.length, *keeps])))
    return sum(max(0, last - first) for first, last in struck)


def is_clean(report: Report, ordered: Order) -> bool:
    """Accepted, no struck token in it, and nothing in it that looks like the fault."""
    if not isinstance(report.ending, Answered) or surviving(report, ordered):
        return False
    match ordered.kind:
        case Fault.MOJIBAKE:
            return not pictures(report.text)
        case Fault.LANGUAGE:
            return ordered.text.strip()[:_PASSAGE_CHARACTERS] not in report.text
        case Fault.LOOP:
            # Any text may have the phrase once; two in a row are the loop.
            return ordered.text.strip() + ordered.text not in report.text
        case _:
            return True


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
