"""Text of anybody's for a terminal: nothing in it acts, and what is wrong with it is marked."""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

import click

Span = tuple[int, int]
# Before the first bad place, where only a part of a long text is shown.
_LEAD: Final = 200


def plain(text: str) -> str:
    """The text without whatever drives a terminal; lines stay lines."""
    return "".join(_harmless(char) for char in text)


def escaped(data: bytes) -> bytes:
    """JSON with the same values, in which nothing acts on a terminal: such characters can stand in
    its strings alone, and there they may be written as their numbers."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return "".join(map(_numbered, data.decode())).encode()


def _numbered(char: str) -> str:
    if char < "\x7f" or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def one_line(text: str, limit: int) -> str:
    """The text in one line of at most so many characters."""
    line = " ".join(plain(text).split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def _harmless(char: str) -> str:
    if char in "\n\t":
        return char
    category = unicodedata.category(char)
    # Marks that turn the direction of writing are formats too; joiners are part of emoji.
    if category in ("Cc", "Cs", "Zl", "Zp") or (category == "Cf" and char not in "\u200c\u200d"):
        return "\N{REPLACEMENT CHARACTER}"
    return char


def excerpt(text: str, spans: Sequence[Span], limit: int) -> tuple[str, list[Span], bool, bool]:
    """At most so many characters of a text, around its first bad place, with the bad places there;
    and whether something was left out before and after."""
    if len(text) <= limit:
        return text, list(spans), False, False
    start = max(0, spans[0][0] - _LEAD) if spans else 0
    start = min(start, len(text) - limit)
    end = start + limit
    inside = [
        (max(begin, start) - start, min(stop, end) - start)
        for begin, stop in spans
        if begin < end and stop > start
    ]
    return text[start:end], inside, start > 0, end < len(text)


def marked(text: str, spans: Sequence[Span], *, colour: bool, indent: str = "") -> Iterator[str]:
    """Lines of the text with the bad places (half open, in order, apart) in red, or in double
    angle brackets where there is no colour."""
    parts: list[tuple[str, bool]] = []
    at = 0
    for start, end in spans:
        parts += [(text[at:start], False), (text[start:end], True)]
        at = end
    parts.append((text[at:], False))
    whole = "".join(
        _styled(plain(part), colour=colour) if bad else plain(part) for part, bad in parts
    )
    for line in whole.split("\n"):
        yield (indent + line).rstrip()


def _styled(bad: str, *, colour: bool) -> str:
    if not bad:
        return bad
    if not colour:
        return f"⟦{bad}⟧"
    # Line by line: what begins a line anew would lose a style that runs on.
    return "\n".join(
        click.style(line, fg="red", bold=True) if line else "" for line in bad.split("\n")
    )
