"""Profiles: named sets of thresholds, overridden per deployment and per job."""

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

_BASE: Final = "base"


class BadProfile(ValueError):
    """Thresholds that can't be used; the message says which and why."""


class Profile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The thresholds of every gate; `profiles.toml` says what each one means."""

    silent_tokens: int
    character_window: int
    control_characters: int
    private_use_characters: int
    unassigned_characters: int
    replacement_characters: int
    mojibake: int
    mojibake_window: int
    allowed_characters: str
    denied_characters: str
    character_run: int
    line_run: int
    space_run: int
    word_run: int
    marker_run: int
    loop_period: int
    loop_copies: int
    loop_tokens: int
    loop_characters: int
    long_loop_period: int
    long_loop_copies: int
    long_loop_tokens: int


# Where 0 would not mean "off" but nonsense.
_AT_LEAST_ONE: Final = ("character_window", "mojibake_window", "loop_period", "long_loop_period")
# Gates look back so far, or find so many; beyond this, time and memory are no longer small.
_AT_MOST: Final = 100_000


def profile(
    name: str,
    overrides: Mapping[str, Any] | None = None,
    *,
    deployment: Mapping[str, Mapping[str, Any]] | None = None,
) -> Profile:
    """The profile with a name: the base, then the profile's own table, each first as in
    `profiles.toml`, then as the deployment (its tables, from `read_tables`) would have it; and over
    all that the overrides of one job. Raises BadProfile."""
    own = _own_tables()
    _known(name, profile_names(), "profile")
    tables = deployment or {}
    for table, values in tables.items():
        _known(table, own, "profile")
        _check(values, f"profile {table}: ")
    fields: dict[str, Any] = {}
    for table in (_BASE, name):
        fields |= own[table]
        fields |= tables.get(table, {})
    said = overrides or {}
    _check(said, "")
    fields |= said
    return msgspec.convert(fields, Profile)


def profile_names() -> tuple[str, ...]:
    """The profiles there are."""
    return tuple(name for name in _own_tables() if name != _BASE)


def read_tables(text: str) -> dict[str, dict[str, Any]]:
    """The tables of a deployment's own file, in the form of `profiles.toml`. Raises BadProfile."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadProfile(f"not TOML: {error}") from None
    for name, values in tables.items():
        _known(name, _own_tables(), "profile")
        if not isinstance(values, dict):
            raise BadProfile(f"{name}: a profile is a table, such as [{name}]")
        _check(cast("dict[str, Any]", values), f"profile {name}: ")
    return tables


@cache
def _own_tables() -> dict[str, dict[str, Any]]:
    text = (files(__package__ or "") / "profiles.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _check(values: Mapping[str, Any], where: str) -> None:
    for key, value in values.items():
        _known(key, Profile.__struct_fields__, "threshold", where)
        if isinstance(_own_tables()[_BASE][key], str):
            if not isinstance(value, str):
                raise BadProfile(f"{where}{key}: must be text, not {value!r}")
            continue
        least = 1 if key in _AT_LEAST_ONE else 0
        if not isinstance(value, int) or isinstance(value, bool):
            raise BadProfile(f"{where}{key}: must be a whole number, not {value!r}")
        if not least <= value <= _AT_MOST:
            raise BadProfile(f"{where}{key}: must be from {least} to {_AT_MOST}, not {value}")


def _known(key: str, names: Any, kind: str, where: str = "") -> None:
    known = list(names)
    if key not in known:
        near = get_close_matches(key, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
        raise BadProfile(f"{where}{key} is no {kind}; {hint}")
