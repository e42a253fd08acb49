"""Sound messages with hostile text at every place that takes it."""

import json
from collections.abc import Iterator
from typing import Any, cast

from sluicegate.schemas import InvalidMessage, decode
from sluicegate.schemas.codec import Message

# A screen cleared, a clipboard written, a title, a bell, a line overwritten, a word turned round,
# a line of one's own, an eight-bit CSI, a line separator, an invisible tag.
ACTING = (
    "\x1b[2J\x1b]52;c;aGk=\x07\x1b]0;t\x1b\\\r\b\x7f\x9b31m\x85\u202edlrow\u202c\u2066\u200e"
    "\u2028\u2029\ufeff\U000e0041\n12:00:00 ERROR   forged"
)


def poisoned(body: bytes, kind: type[Message]) -> Message:
    """The message with `ACTING` in every text that may hold it, keys of free tables among them."""
    value = json.loads(body)
    for place in list(_places(value)):
        if place:
            _poison(value, place, body, kind)
    return decode(json.dumps(value).encode(), kind)


def _poison(value: Any, place: tuple[Any, ...], body: bytes, kind: type[Message]) -> None:
    inner = value
    for step in place[:-1]:
        inner = inner[step]
    before = inner[place[-1]]
    if isinstance(before, str):
        inner[place[-1]] = before + ACTING
    elif isinstance(before, dict):
        inner[place[-1]] = {**cast("dict[str, Any]", before), ACTING: ACTING}
    else:
        return
    if not _is_sound(value, kind):
        inner[place[-1]] = before


def _is_sound(value: Any, kind: type[Message]) -> bool:
    try:
        decode(json.dumps(value).encode(), kind)
    except InvalidMessage:
        return False
    return True


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Inner ones first, so that they are still there when their turn comes."""
    if isinstance(value, dict):
        for key, each in cast("dict[str, Any]", value).items():
            yield from _places(each, (*at, key))
    elif isinstance(value, list):
        for index, each in enumerate(cast("list[Any]", value)):
            yield from _places(each, (*at, index))
    yield at
