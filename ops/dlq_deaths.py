"""What the broker wrote into the headers of a message that it moved to the dead letters itself."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, cast

from msgspec import Struct

from ..schemas.errors import tame
from .dlq_advice import BROKER_REASONS


class Death(Struct, frozen=True, kw_only=True):
    """One entry of the header `x-death`: why the broker moved a message, from where, how often."""

    reason: str
    queue: str
    count: int = 1
    at: datetime | None = None
    routing_keys: tuple[str, ...] = ()


def deaths_of(headers: Mapping[str, Any]) -> Iterator[Death]:
    """What the broker wrote about its own dead-lettering, newest first. A client can write
    anything into a header, so nothing is taken on trust."""
    entries = headers.get("x-death")
    found = False
    for entry in cast("list[Any]", entries) if isinstance(entries, list) else []:
        if not isinstance(entry, dict):
            continue
        fields = cast("dict[str, Any]", entry)
        if isinstance(reason := fields.get("reason"), str) and reason in BROKER_REASONS:
            found = True
            count, at, keys = fields.get("count"), fields.get("time"), fields.get("routing-keys")
            yield Death(
                reason=reason,
                queue=_words(fields.get("queue")),
                count=count if isinstance(count, int) else 1,
                at=aware(at) if isinstance(at, datetime) else None,
                routing_keys=tuple(_words(key) for key in cast("list[Any]", keys))
                if isinstance(keys, list)
                else (),
            )
    first = headers.get("x-first-death-reason")
    if not found and isinstance(first, str) and first in BROKER_REASONS:
        yield Death(reason=first, queue=_words(headers.get("x-first-death-queue")))


def _words(value: object) -> str:
    return tame(value, 255) if isinstance(value, str) else ""


def local(at: datetime, form: str) -> str:
    """A time in the zone of whoever looks; in its own at the ends of the calendar, where there is
    no other zone to be had."""
    try:
        return f"{at.astimezone():{form}}"
    except (OverflowError, ValueError, OSError):
        return f"{at:{form}%z}"


def aware(at: datetime | None) -> datetime | None:
    """AMQP's timestamps come without an offset, and are UTC."""
    return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at
