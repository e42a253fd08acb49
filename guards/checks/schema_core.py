"""JSON Schema, judged by `jsonschema-rs` with nothing fetched: as a function, and as a program.

The program is for schemas whose cost nobody can tell beforehand: it reads `[schema, value]` from
standard input and writes what `mismatch` says, and whoever started it can end it. It is run by its
path, so it imports nothing of ours.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

# What jsonschema-rs says where a pattern took too many steps: no word about the value.
_GAVE_UP: Final = "Error executing regex"
_KNOWN_DIALECTS: Final = ("http://json-schema.org/", "https://json-schema.org/")
_MEMORY: Final = 1 << 30  # bytes
_MESSAGE: Final = 300  # characters
# Of the program's answer.
Mismatch = tuple[str, list[Any]]


class BadSchema(ValueError):
    """A schema that no text can be held against; the message says why."""


def mismatch(schema: dict[str, Any], value: Any) -> Mismatch | None:
    """What is wrong with the value, and the keys and indexes that lead there; None: it fits.

    Formats are not judged, as in JSON Schema 2020-12. Raises BadSchema.
    """
    error = next(_errors(schema, value), None)
    if error is None:
        return None
    if error.message.startswith(_GAVE_UP):
        raise BadSchema(f"a pattern in the schema takes too long: {error.message[:_MESSAGE]}")
    return _said(error), list(error.instance_path)


def _said(error: Any) -> str:
    message = str(error.message)
    if len(message) <= _MESSAGE:
        return message
    # It begins with the value, which may be large; what is asked of it stands at the end.
    return f"{message[: _MESSAGE // 2]} … {message[-_MESSAGE // 2 :]}"


def _errors(schema: dict[str, Any], value: Any) -> Iterator[Any]:
    import jsonschema_rs  # noqa: PLC0415 - of the extra `checks`

    dialect = str(schema.get("$schema", _KNOWN_DIALECTS[0])).startswith(_KNOWN_DIALECTS)
    make: Callable[..., Any] = (
        jsonschema_rs.validator_for if dialect else jsonschema_rs.Draft202012Validator
    )
    try:
        # Patterns in linear time where the schema's allow it; those that look around or back don't.
        try:
            options = jsonschema_rs.RegexOptions()
            validator = make(
                schema, retriever=_refuse, pattern_options=options, validate_formats=False
            )
        except jsonschema_rs.ValidationError:
            validator = make(schema, retriever=_refuse, validate_formats=False)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise BadSchema(f"the schema is no JSON Schema: {_first_line(error)}") from None
    return iter(validator.iter_errors(value))


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is not part of the schema, and nothing is fetched")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:_MESSAGE]


def main() -> None:
    """Answer `[schema, value]` with `{"mismatch": …}` or `{"bad": …}`."""
    with suppress(ImportError, ValueError, OSError):
        import resource  # noqa: PLC0415 - not on every system

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    schema, value = json.load(sys.stdin)
    try:
        answer: dict[str, Any] = {"mismatch": mismatch(schema, value)}
    except BadSchema as error:
        answer = {"bad": str(error)}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
