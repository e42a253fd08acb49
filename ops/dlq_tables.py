"""Lists and counts of dead letters, for a terminal and for a program."""

import heapq
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from .console import table
from .dlq_filter import age
from .dlq_letter import Head
from .dlq_text import one_line

_BAR: Final = 40
_HOURS_SHOWN: Final = 48
_SHOWN: Final = 15
_NOBODY: Final = "(none)"


class Newest:
    """The newest of many heads, no more of them than the limit; 0 is no limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._heap: list[tuple[tuple[float, int], Head]] = []
        self.seen = 0

    def feed(self, head: Head) -> None:
        """One more."""
        self.seen += 1
        item = (head.age_key, head)
        if self._limit and len(self._heap) >= self._limit:
            heapq.heappushpop(self._heap, item)
        else:
            heapq.heappush(self._heap, item)

    def heads(self) -> list[Head]:
        """Newest first."""
        return [head for _, head in sorted(self._heap, key=lambda item: item[0], reverse=True)]


def as_data(head: Head) -> dict[str, Any]:
    """A head for a program."""
    return {name: value for name, value in msgspec.structs.asdict(head).items() if name != "key"}


def listed(heads: list[Head], now: datetime) -> Iterator[str]:
    """Lines of a table."""
    yield from table(
        [
            ("ID", "AGE", "REASON", "FOUND", "ATTEMPTS", "PROFILE", "WORKER", "JOB"),
            *(_row(head, now) for head in heads),
        ]
    )


def _row(head: Head, now: datetime) -> tuple[str, ...]:
    found = head.flaw or "-"
    if head.gate:
        found = f"{head.gate}: {found}" if head.gate != found else found
    return (
        one_line(head.id, 40),
        age(head.at, now),
        head.reason,
        one_line(found, 40),
        str(head.attempts),
        head.profile or "-",
        one_line(head.worker or "-", 24),
        one_line(head.job_id or f"? {head.sentence}", 60),
    )


class Counts(Struct, frozen=True):
    """How many letters there are of what."""

    total: int
    bytes: int
    oldest: datetime | None
    newest: datetime | None
    reasons: dict[str, int]
    gates: dict[str, int]
    flaws: dict[str, int]
    workers: dict[str, int]
    profiles: dict[str, int]
    hours: dict[str, int]


class Tally:
    """Counts heads, and keeps none."""

    def __init__(self) -> None:
        self._total = self._bytes = 0
        self._oldest: datetime | None = None
        self._newest: datetime | None = None
        self._by: dict[str, Counter[str]] = {
            name: Counter()
            for name in ("reasons", "gates", "flaws", "workers", "profiles", "hours")
        }

    def feed(self, head: Head) -> None:
        """One more."""
        self._total += 1
        self._bytes += head.bytes
        named = {
            "reasons": head.reason,
            "gates": head.gate or _NOBODY,
            "flaws": head.flaw or _NOBODY,
            "workers": head.worker or _NOBODY,
            "profiles": head.profile or _NOBODY,
        }
        for kind, name in named.items():
            self._by[kind][name] += 1
        if head.at is None:
            return
        self._by["hours"][f"{head.at.astimezone():%Y-%m-%d %H:00}"] += 1
        self._oldest = min(self._oldest or head.at, head.at)
        self._newest = max(self._newest or head.at, head.at)

    def counts(self) -> Counts:
        """By number, the largest first; hours in their order."""
        sorted_by = {name: dict(counter.most_common()) for name, counter in self._by.items()}
        sorted_by["hours"] = dict(sorted(self._by["hours"].items()))
        return Counts(self._total, self._bytes, self._oldest, self._newest, **sorted_by)


def counted(counts: Counts, now: datetime) -> Iterator[str]:
    """Lines with a bar for each number."""
    size = f"{counts.bytes / 1024 / 1024:.1f} MiB"
    yield f"{counts.total} dead letters, {size}"
    if not counts.total:
        return
    yield f"the oldest {age(counts.oldest, now)} ago, the newest {age(counts.newest, now)} ago"
    for title, numbers in (
        ("by reason", counts.reasons),
        ("by gate or check", counts.gates),
        ("by what it found", counts.flaws),
        ("by worker", counts.workers),
        ("by profile", counts.profiles),
    ):
        yield ""
        yield title
        yield from _bars(dict(list(numbers.items())[:_SHOWN]))
        if len(numbers) > _SHOWN:
            rest = sum(list(numbers.values())[_SHOWN:])
            yield f"  and {len(numbers) - _SHOWN} more, with {rest}"
    yield ""
    yield "by hour"
    hours = dict(list(counts.hours.items())[-_HOURS_SHOWN:])
    if len(counts.hours) > len(hours):
        yield f"  before: {sum(counts.hours.values()) - sum(hours.values())}"
    yield from _bars(hours)


def _bars(numbers: dict[str, int]) -> Iterator[str]:
    most = max(numbers.values(), default=0)
    yield from table(
        (
            (one_line(name, 48), str(number).rjust(7), "█" * max(1, round(_BAR * number / most)))
            for name, number in numbers.items()
        ),
        indent="  ",
    )
