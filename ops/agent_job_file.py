"""An agent job from a file and flags: what is said, checked field by field."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from ..schemas import SCHEMA_VERSION, AgentJob, Budget, InvalidMessage, Reason, Sampling, new_id
from ..schemas.codec import decode, diagnose, limit_of, tag_of
from ..schemas.reasoning import Reasoning

# Written by the system.
_HIDDEN: Final = ("attempt", "enqueued_at")
_PARTS: Final[dict[str, type[msgspec.Struct]]] = {
    "budget": Budget,
    "sampling": Sampling,
    "reasoning": Reasoning,
}


def agent_job(
    body: bytes | None,
    fields: Mapping[str, Any],
    parts: Mapping[str, Mapping[str, Any]],
    tools: Sequence[str] = (),
) -> AgentJob:
    """The job of a file's `body`, None for an empty one, and over that what the flags say:
    `fields` of the job, fields of its `parts`, and `tools` beside the file's. What both leave out
    is as by default, a new id among it. Raises InvalidMessage, naming the field."""
    said = {} if body is None else _read(body)
    _require_known("$", said, AgentJob, ("type",))
    for name, kind in _PARTS.items():
        if isinstance(part := said.get(name), dict):
            _require_known(f"$.{name}", cast("dict[str, Any]", part), kind)
    head = {"type": tag_of(AgentJob), "schema_version": SCHEMA_VERSION, "id": new_id()}
    filled = {**head, **said, **fields}
    for name, values in parts.items():
        if values and isinstance(there := filled.get(name, {}), dict):
            filled[name] = {**there, **values}
    if tools and isinstance(there := filled.get("tools", []), list):
        filled["tools"] = list(dict.fromkeys([*cast("list[Any]", there), *tools]))
    return decode(msgspec.json.encode(filled), AgentJob)


def _read(body: bytes) -> dict[str, Any]:
    if len(body) > limit_of(AgentJob):
        decode(body, AgentJob)  # says so
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise diagnose(body, error) from error
    except RecursionError as error:
        raise InvalidMessage(Reason.TOO_DEEP, "$", "nested too deeply to be read") from error
    if not isinstance(found, dict):
        raise _invalid("$", 'must be a JSON object, such as {"task": "..."}')
    return cast("dict[str, Any]", found)


def _require_known(
    path: str, said: Mapping[str, Any], kind: type[msgspec.Struct], also: Sequence[str] = ()
) -> None:
    """A consumer passes over what it doesn't know; a typing error here must not be passed over."""
    known = [name for name in kind.__struct_fields__ if name not in _HIDDEN]
    for name in said:
        if name in _HIDDEN and kind is AgentJob:
            raise _invalid(f"{path}.{name}", "is written by the system; leave it out")
        if name not in known and name not in also:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise _invalid(f"{path}.{name}", f"is no field of an agent job{hint}")


def _invalid(field: str, detail: str) -> InvalidMessage:
    return InvalidMessage(Reason.INVALID_FIELD, field, detail)
