"""The policy table: which finding is answered by what, by `policy.toml` or a user's own file."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from ..guards.finding import Finding
from ..schemas import Flaw, Level
from .actions import Changes
from .table_checks import BadPolicy, check_dead_ends, check_row, known

__all__ = ["BadPolicy", "Row", "Rung", "Table", "default_table", "read_table"]


class Rung(Struct, frozen=True, kw_only=True):
    """One step of a ladder; `policy.toml` says what each key means."""

    at: Literal["onset", "end", "prompt"]
    back: int = 0
    checkpoints: int = 0
    share: float = 1.0
    tries: int = 1
    fresh_cache: bool = False
    changes: Changes = Changes()


class Row(Struct, frozen=True, kw_only=True):
    """How one kind of finding is answered: a ladder, and when it begins and ends."""

    name: str
    level: Level | None = None
    flaws: frozenset[Flaw] = frozenset()
    place: Literal["near", "attempt"] = "near"
    reach: int = 0
    findings: int = 1
    within: int = 0
    apart: int = 1
    then: Literal["give_up", "note"] = "give_up"
    engine_fault: bool = False
    detail: str = ""
    rungs: tuple[Rung, ...] = ()


class Table(Struct, frozen=True, kw_only=True):
    """How findings are answered."""

    rows: tuple[Row, ...]

    def row(self, finding: Finding) -> Row:
        """The row of the finding's flaw, else that of its level."""
        of_level: Row | None = None
        for row in self.rows:
            if finding.flaw in row.flaws:
                return row
            if row.level == finding.level:
                of_level = row
        if of_level is None:
            raise LookupError(f"no row for {finding.flaw} on level {finding.level}")
        return of_level


@cache
def default_table() -> Table:
    """The table that comes with the software: the severities of the gates."""
    return _table(_own_tables())


def read_table(text: str) -> Table:
    """The default table with a user's file over it, in the form of `policy.toml`.

    A row's key replaces that key of the default row; `rungs` are replaced as a whole. A flaw or
    level that a row of the user's names leaves the row it was in. Raises BadPolicy, which names the
    key and what to write instead.
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
        if not values.keys() & {"flaws", "level"}:
            # A name that is nearly a default row's is a slip of the pen.
            known(name, own, "row", "", "; a row of your own needs flaws")
        check_row(name, values)
        _claim(name, values, tables, claimed)
        tables[name] = tables.get(name, {}) | values
    return _table(tables)


def _claim(
    name: str,
    values: Mapping[str, Any],
    tables: dict[str, dict[str, Any]],
    claimed: dict[str, str],
) -> None:
    """Take the row's flaws and level out of the rows that had them."""
    for flaw in values.get("flaws", ()):
        if claimed.setdefault(flaw, name) != name:
            raise BadPolicy(f"{name}.flaws: {flaw} is in {claimed[flaw]}, too; name it once")
    level = values.get("level")
    if level is not None and claimed.setdefault(f"level {level}", name) != name:
        raise BadPolicy(f"{name}.level: {level} is that of {claimed[f'level {level}']}, too")
    for other, row in tables.items():
        if other == name:
            continue
        if "flaws" in row:
            row["flaws"] = [flaw for flaw in row["flaws"] if flaw not in values.get("flaws", ())]
        if level is not None and row.get("level") == level:
            del row["level"]


def _table(tables: Mapping[str, Mapping[str, Any]]) -> Table:
    for name, values in tables.items():
        check_row(name, values)
    missing = set(Level) - {values.get("level") for values in tables.values()}
    if missing:
        raise BadPolicy(f"no row has level {min(missing)}; give one row level = {min(missing)}")
    check_dead_ends(tables)
    return Table(rows=tuple(_row(name, values) for name, values in tables.items()))


def _row(name: str, values: Mapping[str, Any]) -> Row:
    rungs = [_nested(rung) for rung in values.get("rungs", ())]
    row = msgspec.convert({**values, "name": name, "rungs": rungs}, Row)
    least = (row.findings - 1) * row.apart
    if row.findings > 1 and row.within <= least:
        raise BadPolicy(
            f"{name}.within: {row.findings} findings at least {row.apart} tokens apart never lie "
            f"within {row.within}; must be above {least}"
        )
    return row


def _nested(rung: Mapping[str, Any]) -> dict[str, Any]:
    """A rung as its Struct has it, the changes in a table of their own."""
    own = {key: value for key, value in rung.items() if key in Rung.__struct_fields__}
    return {**own, "changes": {key: rung[key] for key in rung.keys() - own.keys()}}


@cache
def _own_tables() -> dict[str, dict[str, Any]]:
    text = (files(__package__ or "") / "policy.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
