"""Lineage: everything that happened to a job, in one record that travels with it."""

from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from .flaws import Flaw, Level
from .limits import (
    MAX_ATTEMPT_NUMBER,
    MAX_FAULTS,
    MAX_INSTRUCTION_CHARS,
    MAX_KEPT_TEXT,
    MAX_LINEAGE_BYTES,
    MAX_RECORDS,
    MAX_SEED,
    MAX_SEGMENTS,
    MAX_TRIPS,
)
from .measures import Count, Name, Quote, Seconds, Sentence, Span, WorkerName
from .reasoning import ReasoningRecord
from .timestamps import Timestamp
from .usage import Usage
from .verdicts import Verdict

# Of a lineage that is too large: how many records of a kind are kept at either end, and how much
# text, in characters.
_ENDS: Final = 10
_SHORT_TEXT: Final = 2_000
R = TypeVar("R")

# What ended a segment. vLLM's own words; `repetition` and `abort` are no success.
FinishReason = Literal["stop", "length", "abort", "repetition"]
Channel = Literal["content", "reasoning"]


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

    `tokens` and `chars` are the span found, half open, counted in the text of the `channel` as it
    stood then, and `quote` is what stood there, cut short; `score` passed `threshold`. `action`
    "note": nothing was done, "rollback": `kept` tokens stayed and `wasted` were thrown away, "cut":
    so it was with the reasoning, which was closed there, "give_up": the attempt ended.
    """

    segment: Count
    gate: Annotated[str, Meta(max_length=64)]
    level: Level
    flaw: Flaw
    tokens: Span
    chars: Span
    score: float
    threshold: float
    detail: Sentence = ""
    quote: Quote = ""
    channel: Channel = "content"
    action: Literal["note", "rollback", "cut", "give_up"]
    kept: Count = 0
    wasted: Count = 0
    banned: Count | None = None


class AttemptRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of the job on one worker, and what became of its text.

    `parameters` is what of the job's own sampling a retry had changed, `instruction` what it said
    to the model besides. `flaw`, found by the gate or check `found_by`, is why the text was not
    accepted; then `text` holds the beginning of it, and `text_chars` how long it was. `shortened`:
    details were left out for their size. `handed_tokens`: so many of its tokens were written by
    workers that handed it back; the rest is `worker`'s.
    """

    attempt: Annotated[int, Meta(ge=1, le=MAX_ATTEMPT_NUMBER)]
    worker: WorkerName
    model: Name = ""
    engine: Name = ""
    started_at: Timestamp
    ended_at: Timestamp | None = None
    parameters: dict[str, Any] = {}
    instruction: Annotated[str, Meta(max_length=MAX_INSTRUCTION_CHARS)] = ""
    segments: Annotated[tuple[SegmentRecord, ...], Meta(max_length=MAX_SEGMENTS)] = ()
    trips: Annotated[tuple[TripRecord, ...], Meta(max_length=MAX_TRIPS)] = ()
    reasoning: ReasoningRecord | None = None
    usage: Usage = Usage()
    handed_tokens: Count = 0
    finish_reason: FinishReason | None = None
    flaw: Flaw | None = None
    found_by: Annotated[str, Meta(max_length=64)] = ""
    detail: Sentence = ""
    verdict: Verdict | None = None
    text: Annotated[str, Meta(max_length=MAX_KEPT_TEXT)] = ""
    text_chars: Count = 0
    shortened: bool = False


class FaultRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The engine failed under an attempt, which is made again after `wait_s` seconds. `lost`: all
    of the engine was gone, or stuck, or out of memory, and whatever ran on it ended with it."""

    attempt: Annotated[int, Meta(ge=1, le=MAX_ATTEMPT_NUMBER)]
    worker: WorkerName
    at: Timestamp
    detail: Sentence = ""
    wait_s: Seconds = 0.0
    lost: bool = False


class HandoverRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A worker handed an attempt back before it was done, with `tokens` that the next one need not
    generate."""

    attempt: Annotated[int, Meta(ge=1, le=MAX_ATTEMPT_NUMBER)]
    worker: WorkerName
    at: Timestamp
    tokens: Count = 0
    detail: Sentence = ""


class Lineage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened to a job so far, oldest first: attempts, and what spent none: faults, and
    handing back."""

    attempts: Annotated[tuple[AttemptRecord, ...], Meta(max_length=MAX_RECORDS)] = ()
    faults: Annotated[tuple[FaultRecord, ...], Meta(max_length=MAX_FAULTS)] = ()
    handovers: Annotated[tuple[HandoverRecord, ...], Meta(max_length=MAX_RECORDS)] = ()

    def with_attempt(self, record: AttemptRecord) -> "Lineage":
        """This lineage with one more attempt at its end, within its limits."""
        attempts = (*self.attempts, record)[-MAX_RECORDS:]
        return fitted(msgspec.structs.replace(self, attempts=attempts))

    def with_fault(self, record: FaultRecord) -> "Lineage":
        """This lineage with one more fault at its end, the oldest gone where there are too many."""
        return msgspec.structs.replace(self, faults=(*self.faults, record)[-MAX_FAULTS:])

    def with_handover(self, record: HandoverRecord) -> "Lineage":
        """This lineage with one more of them at its end, the oldest gone where there are too
        many."""
        handovers = (*self.handovers, record)[-MAX_RECORDS:]
        return msgspec.structs.replace(self, handovers=handovers)

    def losses(self, attempt: int) -> int:
        """How often an engine was lost under an attempt."""
        return sum(fault.lost for fault in self.faults if fault.attempt == attempt)

    def usage(self) -> Usage:
        """The tokens of all attempts."""
        return Usage.total(attempt.usage for attempt in self.attempts)


def fitted(lineage: Lineage, max_bytes: int = MAX_LINEAGE_BYTES) -> Lineage:
    """The lineage in at most so many bytes of JSON. Where it is larger, the oldest attempts lose
    their details first, and the newest loses them last. O(bytes) for each attempt shortened."""
    for shorten in (_without_middle, _bare):
        for index in range(len(lineage.attempts)):
            if len(msgspec.json.encode(lineage)) <= max_bytes:
                return lineage
            attempts = list(lineage.attempts)
            attempts[index] = shorten(attempts[index])
            lineage = msgspec.structs.replace(lineage, attempts=tuple(attempts))
    return lineage


def _without_middle(record: AttemptRecord) -> AttemptRecord:
    """The first and last of what there are many of, and the beginning of the text."""
    return msgspec.structs.replace(
        record,
        segments=_ends(record.segments),
        trips=_ends(record.trips),
        text=record.text[:_SHORT_TEXT],
        reasoning=_with_text(record.reasoning, _SHORT_TEXT),
        shortened=True,
    )


def _with_text(record: ReasoningRecord | None, chars: int) -> ReasoningRecord | None:
    if record is None:
        return None
    return msgspec.structs.replace(record, text=record.text[:chars])


def _ends(records: tuple[R, ...]) -> tuple[R, ...]:
    return records if len(records) <= 2 * _ENDS else (*records[:_ENDS], *records[-_ENDS:])


def _bare(record: AttemptRecord) -> AttemptRecord:
    """When, where and how it ended; nothing of what was said or found."""
    return msgspec.structs.replace(
        record,
        segments=(),
        trips=(),
        parameters={},
        verdict=None,
        text="",
        reasoning=_with_text(record.reasoning, 0),
        shortened=True,
    )
