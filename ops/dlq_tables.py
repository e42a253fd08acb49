"""Lists and counts of dead letters, for a terminal and for a program."""

import heapq
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from .console import table
from .dlq_deaths import local
from .dlq_filter import age
from .dlq_letter import Head
from .plain_text import one_line

_BAR: Final = 40
_HOURS_SHOWN: Final = 48
_SHOWN: Final = 15
_NOBODY: Final = "(none)"
# Before the sentence that stands in the column of jobs, where no job is known.
_NO_JOB: Final = "? "
_LEAST_SENTENCE: Final = 12


class Newest:
    """The newest of many letters, no more of them than the limit; 0 is no limit. Copies are one
    letter, as new as the newest of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: dict[str, Head] = {}
        # By age; also of heads that are no longer kept, or in favour of a newer copy.
        self._heap: list[tuple[tuple[float, int], str]] = []
        self._copies: Counter[str] = Counter()

    @property
    def seen(self) -> int:
        """How many letters there were."""
        return len(self._copies)

    @property
    def more(self) -> int:
        """How many copies besides."""
        return self._copies.total() - len(self._copies)

    def copies(self, head: Head) -> int:
        """How many there are of a letter."""
        return self._copies[head.key]

    def feed(self, head: Head) -> None:
        """One more."""
        self._copies[head.key] += 1
        known = self._kept.get(head.key)
        if known is not None and known.age_key >= head.age_key:
            return
        self._kept[head.key] = head
        heapq.heappush(self._heap, (head.age_key, head.key))
        while self._limit and len(self._kept) > self._limit:
            age_key, key = heapq.heappop(self._heap)
            if key in self._kept and self._kept[key].age_key == age_key:
                del self._kept[key]

    def heads(self) -> list[Head]:
        """Newest first."""
        return sorted(self._kept.values(), key=lambda head: head.age_key, reverse=True)


def as_data(head: Head) -> dict[str, Any]:
    """A head for a program."""
    return {name: value for name, value in msgspec.structs.asdict(head).items() if name != "key"}


def listed(
    heads: list[Head],
    now: datetime,
    *,
    width: int = 120,
    copies: Callable[[Head], int] = lambda _: 1,
) -> Iterator[str]:
    """Lines of a table. What stands for a job that is not known is cut to the width."""
    several = any(copies(head) > 1 for head in heads)
    rows = [
        ("ID", "AGE", "REASON", "FOUND", "ATTEMPTS", "PROFILE", "WORKER", "JOB"),
        *(_row(head, now) for head in heads),
    ]
    if several:
        told = ["COPIES", *(str(copies(head)) for head in heads)]
        rows = [(*row[:2], count, *row[2:]) for row, count in zip(rows, told, strict=True)]
    taken = sum(2 + max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1])
    room = max(_LEAST_SENTENCE, width - taken)
    yield from table(
        (*row[:-1], one_line(row[-1], room) if row[-1].startswith(_NO_JOB) else row[-1])
        for row in rows
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
        str(head.attempts) if head.rounds is None else f"agent, {head.rounds} rounds",
        head.profile or "-",
        one_line(head.worker or "-", 24),
        one_line(head.job_id or f"{_NO_JOB}{head.sentence}", 60),
    )


class Counts(Struct, frozen=True):
    """How many letters there are of what; `copies` of the same ones come on top of `total`."""

    total: int
    copies: int
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
    """Counts letters, copies once, and keeps none but for what tells copies."""

    def __init__(self) -> None:
        self._keys: set[bytes] = set()
        self._total = self._copies = self._bytes = 0
        self._oldest: datetime | None = None
        self._newest: datetime | None = None
        self._by: dict[str, Counter[str]] = {
            name: Counter()
            for name in ("reasons", "gates", "flaws", "workers", "profiles", "hours")
        }

    def feed(self, head: Head) -> None:
        """One more."""
        self._bytes += head.bytes
        key = uuid.UUID(head.key).bytes
        if key in self._keys:
            self._copies += 1
            return
        self._keys.add(key)
        self._total += 1
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
        self._by["hours"][local(head.at, "%Y-%m-%d %H:00")] += 1
        self._oldest = min(self._oldest or head.at, head.at)
        self._newest = max(self._newest or head.at, head.at)

    def counts(self) -> Counts:
        """By number, the largest first; hours in their order."""
        sorted_by = {name: dict(counter.most_common()) for name, counter in self._by.items()}
        sorted_by["hours"] = dict(sorted(self._by["hours"].items()))
        return Counts(
            self._total, self._copies, self._bytes, self._oldest, self._newest, **sorted_by
        )


def counted(counts: Counts, now: datetime) -> Iterator[str]:
    """Lines with a bar for each number."""
    size = f"{counts.bytes / 1024 / 1024:.1f} MiB"
    more = f" (and {counts.copies} more copies of them)" if counts.copies else ""
    yield f"{counts.total} dead letters{more}, {size}"
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
