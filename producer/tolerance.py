"""Property values that the AMQP library can't decode must not tear down the connection.

pamqp raises on a timestamp in microseconds, on names that are not UTF-8 and on headers nested some
hundred levels deep, and aiormq then closes the connection: every job running on it goes back, and
the same message comes again, until the delivery limit buries it and perhaps others with it. None of
these values decide anything here, so what can't be read is replaced. The decoders are looked up in
a table, and there they are changed.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from pamqp import decode

Decoder = Callable[[bytes], tuple[int, Any]]

_NO_TIME: Final = datetime.fromtimestamp(0, UTC)
_FAULTS: Final = (ValueError, OverflowError, OSError, RecursionError)


def install() -> None:
    """Make this process read every message's properties. Harmless twice."""
    for name, unread in _UNREAD.items():
        original: Decoder = decode.METHODS[name]
        if getattr(original, "is_tolerant", False):
            continue
        decode.METHODS[name] = _tolerant(original, unread)


def _tolerant(original: Decoder, unread: Decoder) -> Decoder:
    def tolerant(value: bytes) -> tuple[int, Any]:
        try:
            return original(value)
        except _FAULTS:
            return unread(value)

    tolerant.is_tolerant = True  # pyright: ignore[reportFunctionMemberAccess]
    return tolerant


def _timestamp(_value: bytes) -> tuple[int, Any]:
    return 8, _NO_TIME


def _short_string(value: bytes) -> tuple[int, Any]:
    end = 1 + value[0]
    return end, value[1:end].decode(errors="replace")


def _table(value: bytes) -> tuple[int, Any]:
    return 4 + int.from_bytes(value[:4], "big"), {}


# What stands in for a value that can't be read, and how many bytes it took.
_UNREAD: Final[dict[str, Decoder]] = {
    "timestamp": _timestamp,
    "shortstr": _short_string,
    "table": _table,
}
