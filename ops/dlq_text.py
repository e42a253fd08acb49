"""Text of anybody's, cut to what matters, with what is wrong with it marked."""

from collections.abc import Iterator, Sequence
from typing import Final

import click

from .plain_text import plain

Span = tuple[int, int]
# Before the first bad place, where only a part of a long text is shown.
_LEAD: Final = 200


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
