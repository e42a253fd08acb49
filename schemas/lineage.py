"""Lineage: everything that happened to a job, in one record that travels with it."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

# What ended a segment. vLLM's own words; `repetition` and `abort` are no success.
FinishReason = Literal["stop", "length", "abort", "repetition"]


class SegmentRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request to the engine. An attempt has one, and one more for each rollback."""

    seed: int
    prompt_tokens: int
    cached_tokens: int = 0
    tokens: int = 0
    engine_s: float = 0.0
    finish_reason: FinishReason | None = None


class AttemptRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of the job on one worker."""

    attempt: int
    worker: str
    started_at: datetime
    segments: tuple[SegmentRecord, ...] = ()


class Lineage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The attempts so far, oldest first."""

    attempts: tuple[AttemptRecord, ...] = ()

    def with_attempt(self, record: AttemptRecord) -> "Lineage":
        """This lineage with one more attempt at its end."""
        return Lineage(attempts=(*self.attempts, record))
