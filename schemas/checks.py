"""Checks that types alone can't say: finite numbers, clean text, bounded free-form JSON."""

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import msgspec

from .errors import InvalidMessage
from .limits import MAX_NESTING
from .reasons import Reason

# Of a key in a path, in characters.
_MAX_KEY_SHOWN = 60


def _invalid(field: str, detail: str, reason: Reason = Reason.INVALID_FIELD) -> InvalidMessage:
    return InvalidMessage(reason, field, detail)


def require_type(name: str, value: object, kind: Any, said: str) -> None:
    """Raise InvalidMessage where a value built in Python is not what it should be."""
    if not isinstance(value, kind):
        raise _invalid(name, f"must be {said}, not {type(value).__name__}", Reason.WRONG_TYPE)


def checked(check: Callable[[Any], None]) -> Callable[[Any], None]:
    """A `__post_init__` that meets values of any type: Python checks none in a constructor."""

    @functools.wraps(check)
    def careful(self: Any) -> None:
        try:
            check(self)
        except (TypeError, AttributeError, OverflowError) as error:
            raise _invalid(
                "", f"has a value of the wrong type: {error}", Reason.WRONG_TYPE
            ) from None

    return careful


def require_finite(**numbers: float) -> None:
    """Raise InvalidMessage for NaN and infinities: JSON has no word for them."""
    for name, value in numbers.items():
        # Python doesn't check types; whoever builds a message there should be told here.
        require_type(name, value, int | float, "a number")
        if not math.isfinite(value):
            raise _invalid(name, f"must be a finite number, not {value}")


def require_clean(name: str, texts: Iterable[str]) -> None:
    """Raise InvalidMessage for NUL (databases refuse it) and lone surrogates (not UTF-8)."""
    for text in texts:
        require_type(name, text, str, "text")
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


class Place:
    """Where a node stands: its key or index, and the place around it. The path is put together only
    where somebody asks for it: a value made to hurt has many nodes under long keys."""

    __slots__ = ("_around", "_key", "depth")

    def __init__(self, key: Any, around: "Place | None" = None) -> None:
        self._key = key
        self._around = around
        self.depth: int = around.depth + 1 if around is not None else 0

    def __str__(self) -> str:
        if self._around is None:
            return str(self._key)
        key = self._key
        step = f"[{key}]" if isinstance(key, int) else f".{str(key)[:_MAX_KEY_SHOWN]}"
        return f"{self._around}{step}"


def walk(value: Any, path: str) -> Iterator[tuple[Place, Any]]:
    """Every node of a JSON-like value with its place, parents first, bounded in depth.

    A loop and no recursion: it meets values made to hurt, on an event loop.
    """
    stack: list[tuple[Place, Any]] = [(Place(path), value)]
    while stack:
        place, node = step = stack.pop()
        yield step
        if place.depth > MAX_NESTING:
            continue
        if isinstance(node, dict):
            items = list(cast("dict[Any, Any]", node).items())
        elif isinstance(node, list | tuple):
            items = list(enumerate(cast("list[Any]", node)))
        else:
            continue
        stack.extend((Place(key, place), item) for key, item in reversed(items))


def require_json(name: str, value: dict[str, Any], *, max_bytes: int) -> None:
    """Raise InvalidMessage unless `value` is plain JSON: finite, shallow, and small enough."""
    require_type(name, value, dict, "a dict")
    try:
        size = len(msgspec.json.encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        # The walk knows better where and why.
        _require_plain(name, value)
        raise _invalid(name, f"is not JSON: {error}") from error
    # The size comes first: it is cheap to tell, and bounds the walk.
    if size > max_bytes:
        raise _invalid(name, f"takes {size:,} bytes, the limit is {max_bytes:,}", Reason.TOO_LARGE)
    _require_plain(name, value)


def _require_plain(name: str, value: dict[str, Any]) -> None:
    for place, node in walk(value, name):
        if place.depth > MAX_NESTING:
            raise _invalid(str(place), f"nested deeper than {MAX_NESTING} levels", Reason.TOO_DEEP)
        match node:
            case float() if not math.isfinite(node):
                raise _invalid(str(place), f"must be a finite number, not {node}")
            case str() if (at := lone_surrogate(node)) is not None:
                raise _invalid(str(place), f"has half a surrogate pair at character {at}")
            case dict():
                _require_keys(place, cast("dict[Any, Any]", node))
            case None | bool() | int() | float() | str() | list() | tuple():
                pass
            case _:
                detail = f"is of type {type(node).__name__}, for which JSON has no word"
                raise _invalid(str(place), detail, Reason.WRONG_TYPE)


def _require_keys(place: Place, node: dict[Any, Any]) -> None:
    for key in node:
        if not isinstance(key, str):
            raise _invalid(str(place), "every key must be a string", Reason.WRONG_TYPE)
        if (at := lone_surrogate(key)) is not None:
            raise _invalid(str(place), f"has a key with half a surrogate pair at character {at}")
