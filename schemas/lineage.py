"""Lineage: everything that happened to a job, in one record that travels with it."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from .flaws import Flaw, Level
from .limits import MAX_ATTEMPTS, MAX_SEED, MAX_SEGMENTS, MAX_TRIPS

# What ended a segment. vLLM's own words; `repetition` and `abort` are no success.
FinishReason = Literal["stop", "length", "abort", "repetition"]


# Seconds and tokens of a record, bounded so that sums of them stay numbers that JSON can carry.
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Count = Annotated[int, Meta(ge=0, le=10**9)]
Span = Annotated[tuple[Count, ...], Meta(min_length=2, max_length=2)]
WorkerName = Annotated[str, Meta(max_length=256)]


class SegmentRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request to the engine. An attempt has one, and at least one more for each rollback.

    It went on from `start` accepted tokens. `parameters` is what of the sampling was not as the job
    asked; `fresh_cache`: the prefix cache was not read.
    """

    seed: Annotated[int, Meta(ge=0, le=MAX_SEED)]
    start: Count = 0
    parameters: dict[str, Any] = {}
    fresh_cache: bool = False
    prompt_tokens: Count
    cached_tokens: Count = 0
    tokens: Count = 0
    engine_s: Seconds = 0.0
    finish_reason: FinishReason | None = None


class TripRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a gate found, and what was done about it.

    `tokens` and `chars` are the span found, half open, counted in the text as it stood then;
    `score` passed `threshold`. `action` "note": nothing was done, "rollback": `kept` tokens stayed
    and `wasted` were thrown away, "give_up": the attempt ended.
    """

    segment: Count
    gate: Annotated[str, Meta(max_length=64)]
    level: Level
    flaw: Flaw
    tokens: Span
    chars: Span
    score: float
    threshold: float
    detail: Annotated[str, Meta(max_length=500)] = ""
    action: Literal["note", "rollback", "give_up"]
    kept: Count = 0
    wasted: Count = 0
    banned: Count | None = None


class AttemptRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of the job on one worker."""

    attempt: Annotated[int, Meta(ge=1, le=MAX_ATTEMPTS)]
    worker: WorkerName
    started_at: Annotated[datetime, Meta(tz=True)]
    segments: Annotated[tuple[SegmentRecord, ...], Meta(max_length=MAX_SEGMENTS)] = ()
    trips: Annotated[tuple[TripRecord, ...], Meta(max_length=MAX_TRIPS)] = ()


class Lineage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The attempts so far, oldest first."""

    attempts: Annotated[tuple[AttemptRecord, ...], Meta(max_length=MAX_ATTEMPTS)] = ()

    def with_attempt(self, record: AttemptRecord) -> "Lineage":
        """This lineage with one more attempt at its end."""
        return Lineage(attempts=(*self.attempts, record))
