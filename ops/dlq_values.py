"""Values of a job for a terminal, in one line."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from .plain_text import one_line

_SHOWN: Final = 120


def changed(part: msgspec.Struct, usual: msgspec.Struct) -> str:
    """What is not as usual, of two structs of one kind."""
    names = part.__struct_fields__
    given = {name: getattr(part, name) for name in names}
    return values({name: given[name] for name in names if given[name] != getattr(usual, name)})


def values(given: Mapping[str, Any]) -> str:
    """Names and values."""
    said = (
        f"{name}={one_line(value if isinstance(value, str) else as_json(value), _SHOWN)}"
        for name, value in given.items()
    )
    return one_line(", ".join(said), 5 * _SHOWN)


def as_json(value: Any) -> str:
    """A value as JSON has it."""
    return msgspec.json.encode(value).decode()
