"""The worst texts of many, a few of each kind, and what gates took back. Pure; bounded memory."""

import heapq
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..schemas import AttemptRecord, TripRecord
from ..schemas.lineage import Channel
from .dlq_letter import bad_spans, failed_text
from .dlq_text import Span, excerpt

SHOWN_CHARS: Final = 2_000
_FINDINGS: Final = 12
_OF_A_KIND: Final = 3
_KINDS: Final = 128
_PROMPT_CHARS: Final = 400
# Names and ids in an export are anybody's, and many of them are kept.
_WORD_CHARS: Final = 400


class Finding(Struct, frozen=True, kw_only=True):
    """What a gate or a check found in a text, and what was done."""

    by: str
    flaw: str
    action: str
    score: float | None
    threshold: float | None
    detail: str
    quote: str


class BadText(Struct, frozen=True, kw_only=True):
    """A text that was not accepted, or the part of it around its bad places (`spans`, half open, in
    characters of `text`). `share`: how much of the whole is bad."""

    job_id: str
    attempt: int
    kind: str
    found_by: str
    reason: str
    worker: str
    at: datetime | None
    channel: Channel
    prompt: str
    text: str
    spans: tuple[Span, ...]
    cut_before: bool
    cut_after: bool
    chars: int
    share: float
    findings: tuple[Finding, ...]


class TakenBack(Struct, frozen=True, kw_only=True):
    """A place that a gate had taken back while the text was generated."""

    job_id: str
    attempt: int
    by: str
    flaw: str
    action: str
    wasted: int
    quote: str


class Worst:
    """Keeps the texts with the largest bad share: `most` of them, and of one kind a few."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heaps: dict[str, list[tuple[float, int, BadText]]] = {}
        self._number = 0

    def add(self, text: BadText) -> None:
        """One more."""
        if text.kind not in self._heaps and len(self._heaps) >= _KINDS:
            return
        heap = self._heaps.setdefault(text.kind, [])
        self._number += 1
        # Of equals the first stays.
        heapq.heappush(heap, (text.share, -self._number, text))
        if len(heap) > max(_OF_A_KIND, self._most):
            heapq.heappop(heap)

    def texts(self) -> list[BadText]:
        """The worst first; a few of each kind before there are more of any."""
        rounds = [
            (place // _OF_A_KIND, -share, -number, text)
            for heap in self._heaps.values()
            for place, (share, number, text) in enumerate(sorted(heap, reverse=True))
        ]
        rounds.sort(key=lambda each: each[:3])
        return [text for *_, text in rounds[: self._most]]


class Wasted:
    """Keeps the places that cost the most tokens."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[int, int, TakenBack]] = []
        self._number = 0

    def add(self, place: TakenBack) -> None:
        """One more."""
        self._number += 1
        heapq.heappush(self._heap, (place.wasted, -self._number, place))
        if len(self._heap) > self._most:
            heapq.heappop(self._heap)

    def places(self) -> list[TakenBack]:
        """The dearest first."""
        return [place for *_, place in sorted(self._heap, reverse=True)]


def texts_of(record: AttemptRecord, *, job_id: str, reason: str, prompt: str) -> Iterator[BadText]:
    """What of an attempt's texts was kept and not accepted: the answer, the reasoning."""
    thought = record.reasoning.text if record.reasoning is not None else ""
    flaw = record.reasoning.flaw if record.reasoning is not None else None
    if answer := failed_text(record):
        kind = record.flaw.value if record.flaw is not None else record.found_by or reason
        yield _bad(record, "content", answer, kind, job_id, reason, prompt)
    if thought and (bad_spans(record, "reasoning") or flaw is not None):
        kind = flaw.value if flaw is not None else reason
        yield _bad(record, "reasoning", thought, kind, job_id, reason, prompt)


def _bad(
    record: AttemptRecord,
    channel: Channel,
    text: str,
    kind: str,
    job_id: str,
    reason: str,
    prompt: str,
) -> BadText:
    spans = bad_spans(record, channel)
    shown, inside, before, after = excerpt(text, spans, SHOWN_CHARS)
    chars = max(len(text), record.text_chars) if channel == "content" else len(text)
    return BadText(
        job_id=job_id,
        attempt=record.attempt,
        kind=kind,
        found_by=record.found_by,
        reason=reason,
        worker=record.worker,
        at=record.ended_at or record.started_at,
        channel=channel,
        prompt=prompt[:_PROMPT_CHARS],
        text=shown,
        spans=tuple(inside),
        cut_before=before,
        cut_after=after or chars > len(text),
        chars=chars,
        share=_share(spans, chars),
        findings=tuple(_findings(record, channel))[:_FINDINGS],
    )


def labelled_text(line: dict[str, Any]) -> BadText | None:
    """A line that `sluice dlq export` wrote; None where it has no text. Reads what it knows and
    trusts none of it."""
    text = line.get("text")
    if not isinstance(text, str) or not text:
        return None
    spans = _spans_of(line, len(text))
    shown, inside, before, after = excerpt(text, spans, SHOWN_CHARS)
    chars = max(len(text), _count(line.get("text_chars")))
    kind = _word(line, "class")
    return BadText(
        job_id=_word(line, "job_id") or _word(line, "id"),
        attempt=_count(line.get("attempt")),
        kind=kind,
        found_by=_word(line, "found_by"),
        reason=_word(line, "reason"),
        worker=_word(line, "worker"),
        at=None,
        channel="reasoning" if kind.startswith("reasoning_") else "content",
        prompt=_word(line, "prompt")[:_PROMPT_CHARS],
        text=shown,
        spans=tuple(inside),
        cut_before=before,
        cut_after=after or chars > len(text),
        chars=chars,
        share=_share(spans, chars),
        findings=(),
    )


def _spans_of(line: dict[str, Any], chars: int) -> list[Span]:
    """`spans` as they were exported; of an older export the rest of the text from `onset` on."""
    found: list[Span] = []
    at = 0
    try:
        given = msgspec.convert(line.get("spans", []), list[tuple[int, int]])
    except msgspec.ValidationError:
        given = []
    for start, end in given:
        if at <= start < end <= chars:
            found.append((start, end))
            at = end
    onset = line.get("onset")
    if not found and type(onset) is int and 0 <= onset < chars:
        found.append((onset, chars))
    return found


def _word(line: dict[str, Any], name: str) -> str:
    value = line.get(name)
    return value[:_WORD_CHARS] if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value <= 10**9 else 0


def _share(spans: list[Span], chars: int) -> float:
    return sum(end - start for start, end in spans) / chars if chars else 0.0


def _findings(record: AttemptRecord, channel: Channel) -> Iterator[Finding]:
    for trip in record.trips:
        if trip.channel == channel:
            yield _of_trip(trip)
    if record.verdict is None or channel != "content":
        return
    for check in record.verdict.checks:
        if check.outcome not in ("rejected", "failed"):
            continue
        yield Finding(
            by=check.check,
            flaw=check.flaw.value if check.flaw is not None else "",
            action=check.outcome,
            score=check.score,
            threshold=check.threshold,
            detail=check.detail,
            quote=check.evidence[0].quote if check.evidence else "",
        )


def _of_trip(trip: TripRecord) -> Finding:
    return Finding(
        by=f"{trip.gate} (level {int(trip.level)})",
        flaw=trip.flaw.value,
        action=trip.action.replace("_", " "),
        score=trip.score,
        threshold=trip.threshold,
        detail=trip.detail,
        quote=trip.quote,
    )
