"""Bodies that nobody should send, made from examples of every message by changing them."""

import json
import random
from collections.abc import Callable
from typing import Any, Final, cast

# What is put where something else belongs.
ODD: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**400, 1e308, -1e-320, 0.1),
    *("", " ", "x", "\x00", "\x1b[2J\x1b]52;c;aGk=\x07", "\u202eevil\u202c", "\ud800", "\ufeff"),
    *("../../etc/passwd", "file:///etc/passwd", "http://169.254.169.254/", "$(reboot)"),
    *("a" * 70_000, [], {}, [[]], {"": None}, [0] * 2_000, {"$ref": "#"}),
    {str(number): number for number in range(300)},
)
# What JSON has no word for, or should not be read as JSON.
NOT_JSON: Final = (
    *(b"", b" ", b"{", b"[", b'"', b"\x00", b"\xff\xfe", b"\xef\xbb\xbf{}", b"nul", b"{}{}"),
    *(b"NaN", b"Infinity", b'{"type": NaN}', b"1e999", b"[" * 100_000, b'{"a":' * 50_000),
    *(b'{"type":"generation_job","type":"cancel_job"}', b"\xed\xa0\x80", b'"\\ud800"', b"//x"),
    b'{"type":"generation_job","schema_version":1,"id":"a","prompt":"\x1b[31m"}',
)


def changed(body: bytes, draw: random.Random) -> bytes:
    """The body with one to three places of it changed, or broken as bytes."""
    if draw.random() < 0.2:
        return _broken(body, draw)
    value = json.loads(body)
    for _ in range(draw.randint(1, 3)):
        value = _somewhere(value, draw)
    return json.dumps(value).encode()


def _broken(body: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(body))
    how: tuple[Callable[[], bytes], ...] = (
        lambda: body[:place],
        lambda: body[:place] + bytes([draw.randrange(256)]) + body[place + 1 :],
        lambda: body[:place] + body[place:] * 2,
        lambda: draw.choice(NOT_JSON),
        lambda: body.decode().encode("utf-16"),
    )
    return draw.choice(how)()


def _somewhere(value: Any, draw: random.Random) -> Any:
    """A value in which one place, at any depth, is another's."""
    if isinstance(value, dict) and value and draw.random() < 0.8:
        fields = cast("dict[str, Any]", value)
        name = draw.choice(sorted(fields))
        what = draw.random()
        if what < 0.1:
            return {each: fields[each] for each in fields if each != name}
        if what < 0.2:
            return {**fields, draw.choice(("", "\x1b[0m", "type", "schema_version", name * 9)): 1}
        return {**fields, name: _somewhere(fields[name], draw)}
    if isinstance(value, list) and value and draw.random() < 0.8:
        items = cast("list[Any]", value)
        index = draw.randrange(len(items))
        if draw.random() < 0.1:
            return items * draw.choice((0, 2, 500))
        return [*items[:index], _somewhere(items[index], draw), *items[index + 1 :]]
    return draw.choice(ODD)
