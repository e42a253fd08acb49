"""The table of retries: what another attempt changes, by `retry.toml` or a user's own file."""

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from ..schemas import Flaw
from .instructions import PLACES, places_of
from .table_checks import BadPolicy, known

__all__ = ["RetryLimits", "RetryRow", "RetryTable", "default_retry_table", "read_retry_table"]

OTHER: Final = "other"
_LIMITS: Final = "limits"


class RetryRow(Struct, frozen=True, kw_only=True):
    """How one kind of flaw is answered; `retry.toml` says what each key means."""

    name: str
    flaws: frozenset[Flaw] = frozenset()
    temperature_times: float = 1.0
    temperature_at_least: float = 0.0
    temperature_at_most: float = 2.0
    greedy_temperature: float = 0.3
    top_p_times: float = 1.0
    top_p_at_most: float = 1.0
    top_k_at_most: int = 0  # 0: as it is
    repetition_penalty_by: float = 0.0
    repetition_penalty_at_most: float = 1.3
    frequency_penalty_by: float = 0.0
    min_tokens_at_least: int = 0
    lengthen: float = 0.0
    structured_output: bool = False
    ban_forbidden: bool = False
    avoid_worker: bool = False
    instruction: str = ""
    retries: int | None = None
    detail: str = ""


class RetryLimits(Struct, frozen=True, kw_only=True):
    """What all attempts of a job together may cost."""

    tokens_times: float = 4.0
    tokens: int = 0
    faults: int = 5
    losses: int = 2


class RetryTable(Struct, frozen=True, kw_only=True):
    """How flaws are answered by another attempt."""

    rows: tuple[RetryRow, ...]
    limits: RetryLimits

    def rows_of(self, flaws: Iterable[Flaw]) -> tuple[RetryRow, ...]:
        """The rows that answer the flaws, in the table's order, each once. At least one: without a
        flaw it is the last resort, `other`."""
        wanted = set(flaws)
        named = [row for row in self.rows if row.flaws & wanted]
        answered = frozenset[Flaw]().union(*(row.flaws for row in named))
        if not wanted or wanted - answered:
            return tuple(row for row in self.rows if row in named or row.name == OTHER)
        return tuple(named)


# Least and most of each number.
_COUNTS: Final[dict[str, tuple[int, int]]] = {
    "top_k_at_most": (0, 1_000_000),
    "min_tokens_at_least": (0, 100_000),
    "retries": (0, 10),
    "tokens": (0, 10**9),
    "faults": (0, 10),
    "losses": (0, 10),
}
# No number may take back what another attempt added: what was tried would come again.
_AMOUNTS: Final[dict[str, tuple[float, float]]] = {
    "temperature_times": (0.0, 4.0),
    "temperature_at_least": (0.0, 2.0),
    "temperature_at_most": (0.0, 2.0),
    "greedy_temperature": (0.05, 2.0),
    "top_p_times": (0.1, 1.0),
    "top_p_at_most": (0.1, 1.0),
    "repetition_penalty_by": (0.0, 1.0),
    "repetition_penalty_at_most": (1.0, 2.0),
    "frequency_penalty_by": (0.0, 1.0),
    "lengthen": (0.0, 4.0),
    "tokens_times": (0.0, 1000.0),
}
_FLAGS: Final = ("structured_output", "ban_forbidden", "avoid_worker")
_TEXTS: Final[dict[str, int]] = {"instruction": 300, "detail": 300}  # characters


@cache
def default_retry_table() -> RetryTable:
    """The table that comes with the software."""
    return _table(_own_tables())


def read_retry_table(text: str) -> RetryTable:
    """The default table with a user's file over it, in the form of `retry.toml`.

    A row's key replaces that key of the default row. A flaw that a row of the user's names leaves
    the row it was in; rows that the default has not come after those it has. Raises BadPolicy,
    which names the key and what to write instead.
    """
    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadPolicy(f"not TOML: {error}") from None
    own = _own_tables()
    tables: dict[str, dict[str, Any]] = {name: dict(values) for name, values in own.items()}
    claimed: dict[str, str] = {}
    for name, values in said.items():
        if not isinstance(values, dict):
            raise BadPolicy(f"{name}: must be a table, such as [{name}]")
        values = cast("dict[str, Any]", values)
        if "flaws" not in values:
            # A name that is nearly a default row's is a slip of the pen.
            known(name, own, "row", "", "; a row of your own needs flaws")
        _check(name, values)
        _claim(name, values, tables, claimed)
        tables[name] = tables.get(name, {}) | values
    return _table(tables)


def _claim(
    name: str,
    values: Mapping[str, Any],
    tables: Mapping[str, dict[str, Any]],
    claimed: dict[str, str],
) -> None:
    """Take the row's flaws out of the rows that had them."""
    for flaw in values.get("flaws", ()):
        if claimed.setdefault(flaw, name) != name:
            raise BadPolicy(f"{name}.flaws: {flaw} is in {claimed[flaw]}, too; name it once")
    for other, row in tables.items():
        if other != name and "flaws" in row:
            row["flaws"] = [flaw for flaw in row["flaws"] if flaw not in values.get("flaws", ())]


def _table(tables: Mapping[str, Mapping[str, Any]]) -> RetryTable:
    for name, values in tables.items():
        _check(name, values)
    return RetryTable(
        rows=tuple(_row(name, row) for name, row in tables.items() if name != _LIMITS),
        limits=msgspec.convert(tables[_LIMITS], RetryLimits),
    )


def _row(name: str, values: Mapping[str, Any]) -> RetryRow:
    row = msgspec.convert({**values, "name": name}, RetryRow)
    if row.temperature_at_least > row.temperature_at_most:
        raise BadPolicy(
            f"{name}.temperature_at_least: {row.temperature_at_least:g} is more than "
            f"temperature_at_most {row.temperature_at_most:g}"
        )
    return row


def _check(name: str, values: Mapping[str, Any]) -> None:
    if name == _LIMITS:
        keys, kind = RetryLimits.__struct_fields__, "limit"
    else:
        keys = tuple(key for key in RetryRow.__struct_fields__ if key != "name")
        kind = "key of a row"
    for key, value in values.items():
        known(key, keys, kind, f"{name}.")
        if key == "flaws":
            _check_flaws(name, value)
        else:
            _check_value(f"{name}.{key}", key, value)


def _check_flaws(name: str, value: object) -> None:
    if name == OTHER:
        raise BadPolicy(f"{name}.flaws: {name} answers what no row names; leave flaws out")
    if not isinstance(value, list):
        raise BadPolicy(f"{name}.flaws: must be a list, not {value!r}")
    for flaw in cast("list[Any]", value):
        known(str(flaw), [str(each) for each in Flaw], "flaw", f"{name}.flaws: ")


def _check_value(where: str, key: str, value: Any) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if key in _FLAGS:
        if not isinstance(value, bool):
            raise BadPolicy(f"{where}: must be true or false, not {value!r}")
    elif key in _TEXTS:
        _check_text(where, value, _TEXTS[key])
        for place in places_of(str(value)) if key == "instruction" else ():
            known(place, PLACES, "place in an instruction", f"{where}: ")
    elif key in _COUNTS:
        least, most = _COUNTS[key]
        if not number or not isinstance(value, int) or not least <= value <= most:
            raise BadPolicy(
                f"{where}: must be a whole number from {least} to {most}, not {value!r}"
            )
    else:
        low, high = _AMOUNTS[key]
        if not number or not low <= value <= high:
            raise BadPolicy(f"{where}: must be a number from {low:g} to {high:g}, not {value!r}")


def _check_text(where: str, value: Any, most: int) -> None:
    if not isinstance(value, str) or len(value) > most:
        raise BadPolicy(f"{where}: must be text of at most {most} characters")
    strange = next((one for one in value if not one.isprintable()), None)
    if strange is not None:
        raise BadPolicy(f"{where}: must be printable, not U+{ord(strange):04X}")


@cache
def _own_tables() -> dict[str, dict[str, Any]]:
    text = (files(__package__ or "") / "retry.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
