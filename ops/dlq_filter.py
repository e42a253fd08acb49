"""Which dead letters: filters, ages, and ids cut short. Pure."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any, Final

import click
import msgspec
from msgspec import Struct

from ..schemas import Reason
from ..schemas.errors import SluiceError, tame
from .dlq_letter import Head, Letter

# Ids made in the same hours begin alike: fewer characters would hardly ever tell them apart.
LEAST_PREFIX: Final = 6
_LISTED: Final = 10
# Beyond this a time from now on would leave the calendar.
_LONGEST_DAYS: Final = 36_500
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class NoSuchLetter(SluiceError):
    """No dead letter, or more than one, has an id like this."""


class Filter(Struct, frozen=True, kw_only=True):
    """Every part that is set must fit. Of several values of one part, one is enough; `metadata`
    must fit in each. In `reasons`, `gates`, `flaws`, `workers` `*` stands for any characters."""

    reasons: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    flaws: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    lane: str | None = None
    jobs: tuple[str, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    older_than_s: float | None = None
    newer_than_s: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it lets everything through."""
        return self == Filter()

    def fits(self, letter: Letter, now: datetime) -> bool:
        """Whether a letter is meant. One without a time has no age, and fits no bound on it."""
        head = letter.head
        gates, flaws = _found(letter)
        return (
            _any(self.reasons, (head.reason,))
            and _any(self.gates, gates)
            and _any(self.flaws, flaws)
            and _any(self.workers, _workers(letter))
            and (not self.profiles or head.profile in self.profiles)
            and (self.lane is None or head.lane == self.lane)
            and (not self.jobs or head.job_id in self.jobs)
            and all(_says(letter.metadata, key, value) for key, value in self.metadata)
            and self._fits_age(head, now)
        )

    def _fits_age(self, head: Head, now: datetime) -> bool:
        if self.older_than_s is None and self.newer_than_s is None:
            return True
        if head.at is None:
            return False
        age_s = (now - head.at).total_seconds()
        return (self.older_than_s is None or age_s >= self.older_than_s) and (
            self.newer_than_s is None or age_s <= self.newer_than_s
        )


def _any(patterns: Sequence[str], values: Iterable[str]) -> bool:
    if not patterns:
        return True
    return any(fnmatchcase(value, pattern) for value in values for pattern in patterns)


def _found(letter: Letter) -> tuple[set[str], set[str]]:
    """The gates and checks that were not content with any attempt, and what they found. What was
    merely noted does not count."""
    gates, flaws = {letter.head.gate} - {""}, {letter.head.flaw or ""} - {""}
    for attempt in letter.lineage.attempts:
        if attempt.found_by:
            gates.add(attempt.found_by)
        if attempt.flaw is not None:
            flaws.add(attempt.flaw.value)
        for trip in attempt.trips:
            if trip.action != "note":
                gates.add(trip.gate)
                flaws.add(trip.flaw.value)
        for check in attempt.verdict.checks if attempt.verdict is not None else ():
            if check.outcome in ("rejected", "failed"):
                gates.add(check.check)
                if check.flaw is not None:
                    flaws.add(check.flaw.value)
    rounds = letter.scene.execution.rounds if letter.scene is not None else ()
    metrics = {
        finding.metric
        for each in rounds
        if each.assessment is not None
        for finding in each.assessment.findings
    }
    return gates | ({"watchdog"} if metrics else set()), flaws | metrics


def _workers(letter: Letter) -> set[str]:
    scene = {letter.scene.by} if letter.scene is not None else set[str]()
    return {letter.head.worker, *(each.worker for each in letter.lineage.attempts), *scene} - {""}


def _says(metadata: dict[str, Any], key: str, wanted: str) -> bool:
    if key not in metadata:
        return False
    value = metadata[key]
    return (
        value == wanted if isinstance(value, str) else msgspec.json.encode(value) == _json(wanted)
    )


def _json(text: str) -> bytes:
    try:
        return msgspec.json.encode(msgspec.json.decode(text.encode()))
    except msgspec.MsgspecError:
        return text.encode()


class Duration(click.ParamType[float]):
    """`90s`, `30m`, `2h`, `3d`, `1w`; a bare number is seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Seconds, or click's own error about the flag."""
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)([smhdw]?)", str(value))
        if found is None:
            self.fail(f"{value!r} is no duration: say 90s, 30m, 2h, 3d or 1w.", param, ctx)
        seconds = float(found[1]) * _UNITS[found[2] or "s"]
        if seconds > _LONGEST_DAYS * _UNITS["d"]:
            self.fail(f"{value!r} is too long: at most {_LONGEST_DAYS}d.", param, ctx)
        return seconds


class KeyValue(click.ParamType[tuple[str, str]]):
    """`name=value`."""

    name = "name=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Both, or click's own error about the flag."""
        if isinstance(value, tuple):
            return value  # pyright: ignore[reportUnknownVariableType]  a default of ours
        key, equals, said = str(value).partition("=")
        if not key or not equals:
            self.fail(f"{value!r} is not of the form NAME=VALUE.", param, ctx)
        return key, said


def age(at: datetime | None, now: datetime) -> str:
    """How long ago, in the largest unit that there is at least one of."""
    if at is None:
        return "?"
    seconds = max(0.0, (now - at) / timedelta(seconds=1))
    for unit in ("d", "h", "m"):
        if seconds >= _UNITS[unit]:
            return f"{seconds / _UNITS[unit]:.0f}{unit}"
    return f"{seconds:.0f}s"


def utc_now() -> datetime:
    """Now, with an offset."""
    return datetime.now(UTC)


class Wanted:
    """Ids of letters or jobs, whole or cut short, and the heads that they may mean.

    Feed it every head, then ask for what they mean. Keeps the heads that match alone, and of copies
    the newest. A whole id always wins, and may be as short as it likes; that of a job means its
    newest letter.
    """

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids = tuple(dict.fromkeys(ids))
        self._matches: dict[str, dict[str, Head]] = {each: {} for each in self._ids}

    def feed(self, head: Head) -> bool:
        """Whether the letter may be meant."""
        hit = False
        for each in self._ids:
            if each in (head.id, head.job_id) or (
                len(each) >= LEAST_PREFIX
                and (head.id.startswith(each) or (head.job_id or "").startswith(each))
            ):
                known = self._matches[each].get(head.key)
                if known is None or head.age_key > known.age_key:
                    self._matches[each][head.key] = head
                hit = True
        return hit

    def meant(self) -> list[str]:
        """The keys of the letters meant, one for each that was asked for.

        Raises NoSuchLetter, naming what would be meant too where an id is not enough.
        """
        return list(dict.fromkeys(self._one(each) for each in self._ids))

    def _one(self, asked: str) -> str:
        matches = self._matches[asked].values()
        if not matches and len(asked) < LEAST_PREFIX:
            raise NoSuchLetter(
                f"{asked!r} is no whole id, and too short for a part of one: at least "
                f"{LEAST_PREFIX} of its characters"
            )
        if not matches:
            raise NoSuchLetter(f"no dead letter, and no job in one, has an id like {asked!r}")
        found = (
            [head for head in matches if head.id == asked]
            or _newest([head for head in matches if head.job_id == asked])
            or list(matches)
        )
        if len(found) == 1:
            return found[0].key
        shown = "".join(
            f"\n  {tame(head.id)}  job {tame(head.job_id or '?')}  {head.reason}"
            for head in found[:_LISTED]
        )
        more = f"\n  and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        raise NoSuchLetter(f"{asked!r} may mean {len(found)} dead letters:{shown}{more}")


def _newest(of_a_job: list[Head]) -> list[Head]:
    """The letter that a job's whole id means: the newest that tells of the job itself, and not of
    its result, which found nobody to take it."""
    telling = [head for head in of_a_job if head.reason != Reason.RESULT_UNROUTABLE] or of_a_job
    return [max(telling, key=lambda head: head.age_key)] if telling else []
