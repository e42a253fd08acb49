"""From the lines of a file to jobs: filled in and checked, each fault with its line and field."""

import difflib
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, cast

import msgspec

from ..schemas.codec import decode, diagnose, tag_of
from ..schemas.errors import InvalidMessage
from ..schemas.ids import content_id
from ..schemas.jobs import ChatMessage, GenerationJob
from ..schemas.limits import MAX_JOB_BYTES
from ..schemas.reasoning import Reasoning
from ..schemas.reasons import Reason
from ..schemas.sampling import Sampling, StructuredOutput
from ..schemas.version import SCHEMA_VERSION

# Written by the system as a job travels.
SYSTEM_FIELDS: Final = ("attempt", "enqueued_at", "lineage", "reply_to")


class ParsedLines(NamedTuple):
    """The jobs in order, or what is wrong with the lines."""

    jobs: list[GenerationJob]
    problems: list[str]


def parse_lines(
    lines: Iterable[bytes],
    *,
    defaults: dict[str, Any],
    sampling: dict[str, Any],
    reasoning: dict[str, Any] | None = None,
) -> ParsedLines:
    """Read JSON Lines. `defaults`, `sampling` and `reasoning` fill in what a line leaves out.

    So are `type`, `schema_version` and `id`: the id comes from the content, and from how often the
    same content came before, so that the same file gives the same ids. Blank lines are skipped.
    """
    jobs: list[GenerationJob] = []
    problems: list[str] = []
    parts = {"sampling": sampling, "reasoning": reasoning or {}}
    seen_at: dict[str, int] = {}
    copies: Counter[bytes] = Counter()
    for number, line in enumerate(lines, 1):
        text = (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).strip()
        if not text:
            continue
        try:
            fields = _filled(text, defaults, parts)
            if "id" not in fields:
                content = msgspec.json.encode(fields, order="sorted")
                copies[content] += 1
                fields["id"] = content_id(content, str(copies[content]).encode())
            job = decode(msgspec.json.encode(fields), GenerationJob)
        except InvalidMessage as error:
            problems.append(f"line {number}: {error.field}: {error.detail}")
            continue
        if (earlier := seen_at.setdefault(job.id, number)) != number:
            problems.append(f"line {number}: $.id: {job.id!r} is the id of line {earlier} too")
            continue
        jobs.append(job)
    return ParsedLines(jobs, problems)


def _filled(
    text: bytes, defaults: dict[str, Any], parts: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    if len(text) > MAX_JOB_BYTES:
        decode(text, GenerationJob)  # says so
    try:
        line = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise diagnose(text, error) from error
    except RecursionError as error:
        raise InvalidMessage(Reason.TOO_DEEP, "$", "nested too deeply to be read") from error
    if not isinstance(line, dict):
        raise _invalid("$", 'a line must be a JSON object, such as {"prompt": "..."}')
    said = cast("dict[str, Any]", line)
    _require_known(said)
    fields = {"type": tag_of(GenerationJob), "schema_version": SCHEMA_VERSION, **defaults, **said}
    for name, values in parts.items():
        if values and isinstance(said.get(name, {}), dict):
            fields[name] = {**values, **said.get(name, {})}
    return fields


def _require_known(line: dict[str, Any]) -> None:
    """A consumer passes over what it doesn't know; a typing error here must not be passed over."""
    _require_fields("$", line, GenerationJob, hidden=SYSTEM_FIELDS)
    sampling = line.get("sampling")
    if isinstance(sampling, dict):
        known = cast("dict[str, Any]", sampling)
        _require_fields("$.sampling", known, Sampling)
        if isinstance(structured := known.get("structured_output"), dict):
            _require_fields(
                "$.sampling.structured_output", cast("dict[str, Any]", structured), StructuredOutput
            )
    if isinstance(reasoning := line.get("reasoning"), dict):
        _require_fields("$.reasoning", cast("dict[str, Any]", reasoning), Reasoning)
    if isinstance(messages := line.get("messages"), list):
        for index, message in enumerate(cast("list[Any]", messages)):
            if isinstance(message, dict):
                _require_fields(
                    f"$.messages[{index}]", cast("dict[str, Any]", message), ChatMessage
                )


def _require_fields(
    path: str, fields: dict[str, Any], kind: type[msgspec.Struct], hidden: tuple[str, ...] = ()
) -> None:
    known = [name for name in kind.__struct_fields__ if name not in hidden]
    for name in fields:
        if name in hidden:
            raise _invalid(f"{path}.{name}", "is written by the system; leave it out")
        if name not in known and not (kind is GenerationJob and name == "type"):
            near = difflib.get_close_matches(name, known, n=1)
            if kind is GenerationJob and not near:
                inner = difflib.get_close_matches(name, Sampling.__struct_fields__, n=1)
                near = [f"sampling.{found}" for found in inner]
            hint = f"; did you mean {near[0]}?" if near else ""
            raise _invalid(f"{path}.{name}", f"is no field of a job{hint}")


def _invalid(field: str, detail: str) -> InvalidMessage:
    return InvalidMessage(Reason.INVALID_FIELD, field, detail)
