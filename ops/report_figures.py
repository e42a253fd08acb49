"""Results and dead letters, one by one, into the figures of a report. Pure, in memory that grows by
a few bytes a job: what tells jobs and attempts apart that come twice."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from ..schemas import AttemptRecord, GenerationResult, Level, Lineage
from ..schemas.results import Failed, Partial, Rejected
from .dlq_export import prompt_of
from .dlq_letter import Letter
from .report_sketch import Sketch, Timeline
from .report_texts import BadText, TakenBack, Wasted, Worst, labelled_text, texts_of

QUANTILES: Final = (0.5, 0.95, 0.99)
LATENCIES: Final = ("queue", "first token", "engine", "end to end")
MOST_NAMES: Final = 500
_OTHERS: Final = "(others)"
_NOBODY: Final = "(none)"


class Latency(Struct, frozen=True):
    """Seconds. `name`: from publishing to delivery, from admission to the first token, from
    admission to the last, from publishing to the result."""

    name: str
    count: int
    p50: float
    p95: float
    p99: float
    most: float


class Column(Struct, frozen=True):
    """Counts in one step of time."""

    at: datetime
    counts: dict[str, int]


class Trips(Struct, frozen=True):
    """How often something was found, and what was done about it."""

    level: str
    flaw: str
    action: str
    count: int


class Figures(Struct, frozen=True, kw_only=True):
    """Everything that a report says of results and dead letters. `hidden`: letters without their
    texts, since these were redacted, or encrypted and not opened."""

    results: int
    letters: int
    hidden: int = 0
    lines: int
    undated: int
    first: datetime | None
    last: datetime | None
    outcomes: dict[str, int]
    width_s: int
    columns: list[Column]
    dead_width_s: int
    dead_columns: list[Column]
    latencies: list[Latency]
    trips: list[Trips]
    rollbacks: int
    made_tokens: int
    wasted_tokens: int
    reasoning_cuts: int
    retries: dict[str, int]
    attempts: dict[str, int]
    dead_reasons: dict[str, int]
    dead_flaws: dict[str, int]
    dead_workers: dict[str, int]
    dead_profiles: dict[str, int]
    worst: list[BadText]
    taken_back: list[TakenBack]


class Span(Struct, frozen=True):
    """A time span; None is open."""

    since: datetime | None = None
    until: datetime | None = None

    def holds(self, at: datetime | None) -> bool:
        """Whether a time is in it. What has no time is in the open one alone."""
        if at is None:
            return self.since is None and self.until is None
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


class Seen:
    """Whether something came before, by eight bytes of each."""

    def __init__(self) -> None:
        self._keys: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, *parts: object) -> bool:
        """Whether it is new."""
        text = "\0".join(map(str, parts)).encode(errors="surrogatepass")
        key = hashlib.blake2b(text, digest_size=8).digest()
        new = key not in self._keys
        self._keys.add(key)
        return new


class Gathering:
    """Feed it results first: of a job that has both, the letter then adds what is new alone."""

    def __init__(self, span: Span, worst: int) -> None:
        self._span = span
        self._results = self._undated = self._lines = self._hidden = 0
        self._letters, self._jobs, self._attempts_seen = Seen(), Seen(), Seen()
        self._times, self._deaths = Timeline(), Timeline()
        self._first: datetime | None = None
        self._last: datetime | None = None
        self._latencies = {name: Sketch() for name in LATENCIES}
        self._by: dict[str, Counter[Any]] = {
            name: Counter()
            for name in (
                "outcomes",
                "trips",
                "retries",
                "attempts",
                "reasons",
                "flaws",
                "workers",
                "profiles",
            )
        }
        self._made = self._wasted = self._rollbacks = self._cuts = 0
        self._worst, self._places = Worst(worst), Wasted(worst)

    def result(self, result: GenerationResult) -> None:
        """A result; one that came before counts once."""
        if not self._span.holds(result.finished_at):
            return
        if not self._jobs.add(result.job_id):
            return
        self._results += 1
        outcome = str(result.outcome.__struct_config__.tag)
        self._by["outcomes"][outcome] += 1
        self._when(self._times, result.finished_at, outcome)
        self._by["attempts"][result.attempt] += 1
        self._time(result)
        reason = (
            result.outcome.reason.value
            if isinstance(result.outcome, Rejected | Failed | Partial)
            else outcome
        )
        self._lineage(result.lineage, result.job_id, reason, "")

    def letter(self, letter: Letter) -> None:
        """A dead letter, whole; a copy counts once."""
        head = letter.head
        if not self._span.holds(head.at):
            self._undated += head.at is None
            return
        if not self._letters.add(head.key):
            return
        self._dead(head.reason, head.flaw or "", head.worker, head.profile or "")
        if head.at is not None:
            reason = head.reason if head.reason in self._by["reasons"] else _OTHERS
            self._when(self._deaths, head.at, reason)
        job_id = head.job_id or head.id
        if self._jobs.add(job_id) and head.attempts:
            self._by["attempts"][head.attempts] += 1
        self._hidden += bool(letter.hidden)
        prompt = prompt_of(letter.job) if letter.job is not None else ""
        self._lineage(letter.lineage, job_id, head.reason, prompt, hidden=bool(letter.hidden))

    def line(self, line: dict[str, Any]) -> bool:
        """A text of an export that is not --raw. False where there is none in it."""
        text = labelled_text(line)
        if text is None:
            return False
        if not self._span.holds(None):
            self._undated += 1
            return True
        self._lines += 1
        profile = line.get("profile")
        if self._letters.add("line", text.job_id):
            self._dead(
                text.reason, text.kind, text.worker, profile if isinstance(profile, str) else ""
            )
        if self._attempts_seen.add(text.job_id, text.attempt, text.channel):
            self._worst.add(text)
        return True

    def figures(self) -> Figures:
        """All of it, so far."""
        by = self._by
        return Figures(
            results=self._results,
            letters=len(self._letters),
            hidden=self._hidden,
            lines=self._lines,
            undated=self._undated,
            first=self._first,
            last=self._last,
            outcomes=_sorted(by["outcomes"]),
            width_s=self._times.width_s,
            columns=[Column(at, counts) for at, counts in self._times.columns()],
            dead_width_s=self._deaths.width_s,
            dead_columns=[Column(at, counts) for at, counts in self._deaths.columns()],
            latencies=[made for name in LATENCIES if (made := self._latency(name)) is not None],
            trips=[
                Trips(level, flaw, action, count)
                for (level, flaw, action), count in by["trips"].most_common()
            ],
            rollbacks=self._rollbacks,
            made_tokens=self._made,
            wasted_tokens=self._wasted,
            reasoning_cuts=self._cuts,
            retries=_sorted(by["retries"]),
            attempts={str(number): count for number, count in sorted(by["attempts"].items())},
            dead_reasons=_sorted(by["reasons"]),
            dead_flaws=_sorted(by["flaws"]),
            dead_workers=_sorted(by["workers"]),
            dead_profiles=_sorted(by["profiles"]),
            worst=self._worst.texts(),
            taken_back=self._places.places(),
        )

    def _dead(self, reason: str, flaw: str, worker: str, profile: str) -> None:
        for name, value in (
            ("reasons", reason),
            ("flaws", flaw),
            ("workers", worker),
            ("profiles", profile),
        ):
            _count(self._by[name], value or _NOBODY)

    def _when(self, times: Timeline, at: datetime, name: str) -> None:
        times.add(at, name)
        self._first = min(self._first or at, at)
        self._last = max(self._last or at, at)

    def _time(self, result: GenerationResult) -> None:
        timings = result.timings
        if timings.first_token_s is not None:
            self._latencies["first token"].add(timings.first_token_s)
        if timings.engine_s:
            self._latencies["engine"].add(timings.engine_s)
        if timings.queued_s is None:
            return
        if result.attempt == 1:  # later it holds the attempts before, too
            self._latencies["queue"].add(timings.queued_s)
        if result.lineage.attempts:
            ran = result.finished_at - result.lineage.attempts[-1].started_at
            self._latencies["end to end"].add(
                timings.queued_s + max(0.0, ran / timedelta(seconds=1))
            )

    def _latency(self, name: str) -> Latency | None:
        sketch = self._latencies[name]
        values = [sketch.quantile(share) for share in QUANTILES]
        if None in values:
            return None
        p50, p95, p99 = (value or 0.0 for value in values)
        return Latency(name, sketch.count, p50, p95, p99, sketch.most)

    def _lineage(
        self, lineage: Lineage, job_id: str, reason: str, prompt: str, *, hidden: bool = False
    ) -> None:
        last = len(lineage.attempts) - 1
        for fault in lineage.faults:
            if self._attempts_seen.add("fault", job_id, fault.at):
                self._by["retries"]["engine_fault"] += 1
        for place, record in enumerate(lineage.attempts):
            if not self._attempts_seen.add(job_id, record.attempt, record.started_at):
                continue
            if place < last:
                why = record.flaw.value if record.flaw is not None else record.found_by
                _count(self._by["retries"], why or "engine_fault")
            self._made += record.usage.completion_tokens
            self._wasted += record.usage.wasted_tokens
            self._tripped(record, job_id, hidden=hidden)
            if hidden:  # its spans are of a text that is not there
                continue
            for text in texts_of(record, job_id=job_id, reason=reason, prompt=prompt):
                self._worst.add(text)

    def _tripped(self, record: AttemptRecord, job_id: str, *, hidden: bool) -> None:
        for trip in record.trips:
            level = Level(trip.level).name.lower()
            self._by["trips"][(level, trip.flaw.value, trip.action)] += 1
            self._rollbacks += trip.action == "rollback"
            self._cuts += trip.action == "cut"
            if trip.action in ("rollback", "cut") and trip.quote and not hidden:
                self._places.add(
                    TakenBack(
                        job_id=job_id,
                        attempt=record.attempt,
                        by=f"{trip.gate} (level {int(trip.level)})",
                        flaw=trip.flaw.value,
                        action=trip.action,
                        wasted=trip.wasted,
                        quote=trip.quote,
                    )
                )


def _count(counter: Counter[Any], name: str) -> None:
    counter[name if name in counter or len(counter) < MOST_NAMES else _OTHERS] += 1


def _sorted(counter: Counter[Any]) -> dict[str, int]:
    return {str(name): count for name, count in _by_number(counter.items())}


def _by_number(items: Iterable[tuple[Any, int]]) -> list[tuple[Any, int]]:
    return sorted(items, key=lambda item: (-item[1], str(item[0])))
