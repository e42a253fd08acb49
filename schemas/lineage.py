"""Lineage: everything that happened to a job, in one record that travels with it."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from .limits import MAX_ATTEMPTS, MAX_SEED, MAX_SEGMENTS

# What ended a segment. vLLM's own words; `repetition` and `abort` are no success.
FinishReason = Literal["stop", "length", "abort", "repetition"]


# Seconds and tokens of a record, bounded so that sums of them stay numbers that JSON can carry.
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Count = Annotated[int, Meta(ge=0, le=10**9)]
WorkerName = Annotated[str, Meta(max_length=256)]


class SegmentRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request to the engine. An attempt has one, and one more for each rollback."""

    seed: Annotated[int, Meta(ge=0, le=MAX_SEED)]
    prompt_tokens: Count
    cached_tokens: Count = 0
    tokens: Count = 0
    engine_s: Seconds = 0.0
    finish_reason: FinishReason | None = None


class AttemptRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of the job on one worker."""

    attempt: Annotated[int, Meta(ge=1, le=MAX_ATTEMPTS)]
    worker: WorkerName
    started_at: Annotated[datetime, Meta(tz=True)]
    segments: Annotated[tuple[SegmentRecord, ...], Meta(max_length=MAX_SEGMENTS)] = ()


class Lineage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The attempts so far, oldest first."""

    attempts: Annotated[tuple[AttemptRecord, ...], Meta(max_length=MAX_ATTEMPTS)] = ()

    def with_attempt(self, record: AttemptRecord) -> "Lineage":
        """This lineage with one more attempt at its end."""
        return Lineage(attempts=(*self.attempts, record))
