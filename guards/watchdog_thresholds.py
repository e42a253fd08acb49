"""Thresholds of watchdog and breaker: named sets by task type, overridden per deployment and
job."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from ..schemas.limits import MAX_AGENT_ROUNDS, MAX_SAMPLES, MAX_TOOL_CALLS
from .near import unknown

DEFAULT: Final = "default"
_AS_WORDED: Final = "as_worded"
_TYPE: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")


class BadWatchdog(ValueError):
    """Thresholds that can't be used; the message says which and why."""


class Watchdog(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The thresholds of the watchdog and of the breaker; `watchdog.toml` says what each one means.

    The switches, each of which puts a metric right: `results_count`: two calls are the same where
    their results are, too; `changes_renew`: a call that changes state makes those before it askable
    again; `polling_is_legal`: what a tool declares as polling never counts as repeated, nor does a
    wait in between; `noise_is_nothing`: a nonce, a request's id and the like make no other call;
    `near_calls`: calls with the same result may ask the same in other words; `news_clears`: a round
    that brought something new is not going round in circles; `prose_only`: outputs are compared
    without calls; `similarity_needs_same_results`: and only where the results did not change;
    `similarity_looks_back`: with every output in the window, not the last one alone;
    `sliding_minute`: calls of the last sixty seconds, not those of the window by its length;
    `from_admission`: a round begins with its admission by the engine; `size_never_ends`: rounds,
    pace and seconds warn, and neither trip nor count towards it.
    """

    rounds_max: int
    calls_per_minute_max: int
    round_seconds_max: float
    tokens_per_minute_share: float
    repeat_rate_max: float
    repeat_window: int
    repeat_min_calls: int
    similarity_jaccard: float
    similarity_cosine: float
    similarity_window: int
    similarity_min_terms: int
    cycle_period_max: int
    cycle_rounds: int
    cycle_rounds_of_errors: int
    cycle_rounds_reworded: int
    failures_max: int
    errors_max: int
    stale_rounds: int
    stale_times: int
    memory_rounds: int
    news_rounds: int
    near_overlap: float
    near_overlap_telling: float
    repeat_points: int
    similarity_points: int
    rounds_points: int
    token_rate_points: int
    circle_points: int
    call_rate_points: int
    round_seconds_points: int
    warn_score: int
    trip_score: int
    warnings_max: int
    results_count: bool
    changes_renew: bool
    polling_is_legal: bool
    noise_is_nothing: bool
    near_calls: bool
    news_clears: bool
    prose_only: bool
    similarity_needs_same_results: bool
    similarity_looks_back: bool
    sliding_minute: bool
    from_admission: bool
    size_never_ends: bool


_SHARE: Final = (0.0, 1.0)
_POINTS: Final = (0, 100)
_RANGES: Final[dict[str, tuple[float, float]]] = {
    "rounds_max": (1, MAX_AGENT_ROUNDS),
    "calls_per_minute_max": (1, 100_000),
    "round_seconds_max": (0.1, 7 * 24 * 3_600),
    "tokens_per_minute_share": (0.001, 1.0),
    "repeat_rate_max": _SHARE,
    "repeat_window": (2, MAX_TOOL_CALLS * 16),
    "repeat_min_calls": (2, MAX_TOOL_CALLS * 16),
    "similarity_jaccard": _SHARE,
    "similarity_cosine": (-1.0, 1.0),
    "similarity_window": (2, 16),
    "similarity_min_terms": (0, 10_000),
    "cycle_period_max": (1, 8),
    "cycle_rounds": (1, 16),
    "cycle_rounds_of_errors": (1, 16),
    "cycle_rounds_reworded": (1, 16),
    "failures_max": (2, 100),
    "errors_max": (2, 100),
    "stale_rounds": (1, 16),
    "stale_times": (2, 16),
    # Twice the longest period and the most rounds of a cycle fit.
    "memory_rounds": (8, MAX_SAMPLES),
    "news_rounds": (1, MAX_SAMPLES),
    "near_overlap": _SHARE,
    "near_overlap_telling": _SHARE,
    "warn_score": (1, 100),
    "trip_score": (1, 100),
    "warnings_max": (1, 100),
}


def watchdog(
    task_type: str = DEFAULT,
    overrides: Mapping[str, Any] | None = None,
    *,
    deployment: Mapping[str, Mapping[str, Any]] | None = None,
    as_worded: bool = False,
) -> Watchdog:
    """The thresholds of a task type: the default, then the type's own table, each first as in
    `watchdog.toml`, then as the deployment (its tables, from `read_watchdog`) would have it; and
    over all that the overrides of one job. A deployment may add types. `as_worded`: the
    specification without its corrections, beneath the job's overrides. Raises BadWatchdog."""
    own, tables = _own_tables(), deployment or {}
    _known(task_type, task_types(deployment), "task type")
    for table, values in tables.items():
        _check(values, f"task type {table}: ")
    fields: dict[str, Any] = {}
    for table in (DEFAULT, task_type):
        fields |= own.get(table, {})
        fields |= tables.get(table, {})
    if as_worded:
        fields |= own[_AS_WORDED]
    _check(overrides or {}, "")
    fields |= overrides or {}
    if fields["trip_score"] < fields["warn_score"]:
        raise BadWatchdog(
            f"trip_score: must be at least warn_score, {fields['warn_score']}, "
            f"not {fields['trip_score']}"
        )
    return msgspec.convert(fields, Watchdog)


def task_types(deployment: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """The task types there are, those of a deployment's tables among them."""
    own = (name for name in _own_tables() if name != _AS_WORDED)
    return tuple(dict.fromkeys((*own, *(deployment or {}))))


def read_watchdog(text: str) -> dict[str, dict[str, Any]]:
    """The tables of a deployment's own file, in the form of `watchdog.toml`; a new name is a new
    task type. Raises BadWatchdog."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadWatchdog(f"not TOML: {error}") from None
    for name, values in tables.items():
        if not isinstance(values, dict):
            raise BadWatchdog(f"{name}: a task type is a table, such as [{name}]")
        if name == _AS_WORDED:
            raise BadWatchdog(f"{name}: is the specification's own, and no task type")
        if not _TYPE.fullmatch(name):
            raise BadWatchdog(
                f"{name!r}: a task type begins with a small letter, and has small letters, digits, "
                "_ and - alone, 64 at most"
            )
        _check(cast("dict[str, Any]", values), f"task type {name}: ")
    return tables


@cache
def _own_tables() -> dict[str, dict[str, Any]]:
    text = (files(__package__ or "") / "watchdog.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _check(values: Mapping[str, Any], where: str) -> None:
    kinds = Watchdog.__annotations__
    for key, value in values.items():
        _known(key, Watchdog.__struct_fields__, "threshold", where)
        kind = kinds[key]
        if kind is bool:
            if not isinstance(value, bool):
                raise BadWatchdog(f"{where}{key}: must be true or false, not {value!r}")
            continue
        if isinstance(value, bool) or not isinstance(value, int if kind is int else (int, float)):
            number = "a whole number" if kind is int else "a number"
            raise BadWatchdog(f"{where}{key}: must be {number}, not {value!r}")
        least, most = _RANGES.get(key, _POINTS)
        # NaN is in no range.
        if not least <= value <= most:
            raise BadWatchdog(f"{where}{key}: must be from {least:g} to {most:g}, not {value}")


def _known(key: str, names: Iterable[str], kind: str, where: str = "") -> None:
    if (problem := unknown(key, names, kind)) is not None:
        raise BadWatchdog(f"{where}{problem}")
