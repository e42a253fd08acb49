"""Text by the columns that it takes on a terminal."""

import unicodedata
from collections.abc import Iterator

from .plain_text import plain


def columns(text: str) -> int:
    """How many columns a line takes: of wide characters two each, of marks none."""
    return sum(map(_columns, text))


def fit(text: str, width: int) -> str:
    """The text on one line of at most so many columns, harmless, and with an ellipsis where it was
    cut."""
    line = " ".join(plain(text).split())
    if columns(line) <= width:
        return line
    cut = ""
    left = width - 1
    for char in line:
        left -= _columns(char)
        if left < 0:
            break
        cut += char
    return f"{cut.rstrip()}…"


def wrapped(text: str, width: int, *, most: int) -> Iterator[str]:
    """The text in lines of at most so many columns, `most` of them; the last tells of more. Lines
    stay lines; what is empty goes."""
    lines = [line for part in plain(text).splitlines() for line in _wrapped(part, width)]
    yield from lines[:most]
    if len(lines) > most:
        yield f"… {len(lines) - most} more line{'' if len(lines) - most == 1 else 's'}"


def _wrapped(line: str, width: int) -> Iterator[str]:
    now, used = "", 0
    for word in (piece for whole in line.split() for piece in _pieces(whole, width)):
        size = columns(word)
        if now and used + 1 + size > width:
            yield now
            now, used = "", 0
        now, used = (f"{now} {word}", used + 1 + size) if now else (word, size)
    if now:
        yield now


def _pieces(word: str, width: int) -> Iterator[str]:
    """A word in pieces that fit, where it is longer than a line; one character at least each."""
    start = used = 0
    for at, char in enumerate(word):
        size = _columns(char)
        if at > start and used + size > width:
            yield word[start:at]
            start, used = at, 0
        used += size
    yield word[start:]


def _columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
