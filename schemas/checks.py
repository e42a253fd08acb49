"""Checks that types alone can't say: finite numbers, clean text, bounded free-form JSON."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from .errors import InvalidMessage
from .limits import MAX_NESTING
from .reasons import Reason


def _invalid(field: str, detail: str, reason: Reason = Reason.INVALID_FIELD) -> InvalidMessage:
    return InvalidMessage(reason, field, detail)


def require_finite(**numbers: float) -> None:
    """Raise InvalidMessage for NaN and infinities: JSON has no word for them."""
    for name, value in numbers.items():
        if not math.isfinite(value):
            raise _invalid(name, f"must be a finite number, not {value}")


def require_clean(name: str, texts: Iterable[str]) -> None:
    """Raise InvalidMessage for NUL (databases refuse it) and lone surrogates (not UTF-8)."""
    for text in texts:
        if "\x00" in text:
            raise _invalid(name, "must not contain the character U+0000")
        if (at := lone_surrogate(text)) is not None:
            raise _invalid(name, f"has half a surrogate pair at character {at}")


def lone_surrogate(text: str) -> int | None:
    """Where the first lone surrogate stands, in characters, or None. C speed for clean text."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None


def walk(value: Any, path: str, depth: int = 0) -> Iterator[tuple[str, Any, int]]:
    """Every node of a JSON-like value with its path and depth, parents first, bounded in depth."""
    yield path, value, depth
    if depth > MAX_NESTING:
        return
    if isinstance(value, dict):
        for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from walk(item, f"{path}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            yield from walk(item, f"{path}[{index}]", depth + 1)


def require_json(name: str, value: dict[str, Any], *, max_bytes: int) -> None:
    """Raise InvalidMessage unless `value` is plain JSON: finite, shallow, and small enough."""
    for path, node, depth in walk(value, name):
        if depth > MAX_NESTING:
            raise _invalid(path, f"nested deeper than {MAX_NESTING} levels", Reason.TOO_DEEP)
        match node:
            case float():
                require_finite(**{path: node})
            case str() if (at := lone_surrogate(node)) is not None:
                raise _invalid(path, f"has half a surrogate pair at character {at}")
            case dict() if not all(isinstance(key, str) for key in node):  # pyright: ignore[reportUnknownVariableType]
                raise _invalid(path, "every key must be a string")
            case _:
                pass
    try:
        size = len(msgspec.json.encode(value))
    except (TypeError, UnicodeEncodeError, OverflowError) as error:
        raise _invalid(name, f"is not JSON: {error}") from error
    if size > max_bytes:
        raise _invalid(name, f"takes {size:,} bytes, the limit is {max_bytes:,}", Reason.TOO_LARGE)
