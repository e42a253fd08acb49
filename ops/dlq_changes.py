"""What is to be different in a job that is sent back: `sampling.temperature=0.3`, say. Pure."""

import difflib
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeVar, cast

import msgspec
from msgspec import Struct

from ..guards.profiles import BadProfile, profile, profile_names
from ..schemas import (
    AgentJob,
    Budget,
    GenerationJob,
    InvalidMessage,
    Lane,
    Reason,
    Reasoning,
    Rules,
    Sampling,
)
from ..schemas.limits import MAX_OUTPUT_TOKENS

# Fields of an agent job that are changed as they are, and no table of values; kept under this name.
PLAIN: Final = ""
_PLAIN_FIELDS: Final = ("task_type", "format", "tools")
_FREE: Final = ("gates", "watchdog")
_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "sampling": Sampling.__struct_fields__,
    "rules": Rules.__struct_fields__,
    "reasoning": Reasoning.__struct_fields__,
    "budget": Budget.__struct_fields__,
}
_OF_AGENTS: Final = (PLAIN, "budget", "watchdog")
Part = TypeVar("Part", Sampling, Rules, Reasoning, Budget, AgentJob)


class Changes(Struct, frozen=True, kw_only=True):
    """What is to be different. `sets`: values of `sampling`, `rules`, `reasoning`, `gates`,
    `budget` and `watchdog` by their names; fields of an agent job itself under `PLAIN`."""

    sets: dict[str, dict[str, Any]] = {}
    profile: str | None = None
    lane: Lane | None = None
    max_attempts: int | None = None
    checks: Literal["off", "observe", "block"] | None = None
    no_deadline: bool = False
    deadline_in_s: float | None = None

    @property
    def asks_anew(self) -> bool:
        """Whether a text that is there already is no answer to what is asked now."""
        kept = Changes(no_deadline=self.no_deadline, deadline_in_s=self.deadline_in_s)
        return self != kept

    @property
    def of_agents(self) -> list[str]:
        """What of it only an agent job has."""
        return [name for table in _OF_AGENTS for name in said_sets(table, self.sets.get(table, {}))]

    @property
    def of_texts(self) -> list[str]:
        """What of it an agent job does not have."""
        given = {"max_attempts": self.max_attempts, "checks": self.checks}
        return [
            *said_sets("rules", self.sets.get("rules", {})),
            *(name for name, value in given.items() if value is not None),
        ]

    def deadline(self, job: GenerationJob | AgentJob, now: datetime) -> datetime | None:
        """The deadline that the job gets."""
        if self.deadline_in_s is not None:
            return now + timedelta(seconds=self.deadline_in_s)
        return None if self.no_deadline else job.deadline


def said_sets(table: str, values: Iterable[str]) -> list[str]:
    """The names of values as they are typed."""
    return [f"{table}.{name}" if table else name for name in values]


def parse_sets(said: Iterable[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    """`sampling.temperature=0.3` and the like. Values are JSON, or text where they are none.

    Raises InvalidMessage for a name that there is not, naming the nearest.
    """
    sets: dict[str, dict[str, Any]] = {}
    for key, text in said:
        table, _, name = (PLAIN, "", key) if key in _PLAIN_FIELDS else key.partition(".")
        _require_known(key, table, name)
        sets.setdefault(table, {})[name] = _value(text)
    # Say now what no job can have. The rest is told of each, when it is put into the job.
    merged(Sampling(max_tokens=MAX_OUTPUT_TOKENS), sets.get("sampling", {}), "sampling")
    merged(Rules(), sets.get("rules", {}), "rules")
    merged(Reasoning(), sets.get("reasoning", {}), "reasoning")
    merged(Budget(), sets.get("budget", {}), "budget")
    merged(AgentJob(task="any"), sets.get(PLAIN, {}), "agent job")
    require_gates(profile_names()[0], without_null(sets.get("gates", {})))
    return sets


def _require_known(key: str, table: str, name: str) -> None:
    if table == PLAIN and name in _PLAIN_FIELDS:
        return
    if (table not in _FIELDS and table not in _FREE) or not name:
        tables = ", ".join(f"{each}.<name>" for each in (*_FIELDS, *_FREE))
        plain = ", ".join(_PLAIN_FIELDS)
        raise InvalidMessage(Reason.INVALID_FIELD, key, f"say one of {tables}, {plain}")
    if table in _FIELDS and name not in _FIELDS[table]:
        near = difflib.get_close_matches(name, _FIELDS[table], n=1)
        hint = f"; did you mean {table}.{near[0]}?" if near else ""
        raise InvalidMessage(Reason.INVALID_FIELD, key, f"there is no such field{hint}")


def without_null(values: dict[str, Any]) -> dict[str, Any]:
    """The values but for those that are null."""
    return {name: value for name, value in values.items() if value is not None}


def require_gates(name: str, gates: dict[str, Any]) -> None:
    """Raises InvalidMessage for a profile or thresholds that a worker would not take."""
    try:
        profile(name, gates)
    except BadProfile as error:
        raise InvalidMessage(Reason.INVALID_FIELD, "gates", str(error)) from error


def merged(part: Part, values: dict[str, Any], table: str) -> Part:
    """The part with these values in it, as JSON has them: keys are text. null is the default.
    Raises InvalidMessage."""
    if not values:
        return part
    whole = cast("dict[str, Any]", msgspec.to_builtins(part, str_keys=True)) | values
    try:
        return msgspec.convert(without_null(whole), type(part), str_keys=True)
    except msgspec.ValidationError as error:
        cause = error.__cause__
        detail = str(cause) if isinstance(cause, InvalidMessage) else str(error)
        raise InvalidMessage(Reason.INVALID_FIELD, table, detail) from error


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text.encode())
    except msgspec.MsgspecError:
        return text
