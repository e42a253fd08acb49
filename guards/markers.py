"""Markers in a row: special tokens spelled out as text.

A lone `<|im_end|>` or `[MASK]` is what a text about models is made of. A dozen of them side by
side, with nothing in between, are what a broken model says through a tokenizer that doesn't know
them as special. Tags of HTML stand side by side too, but they have other names.
"""

from typing import Final

import regex
from msgspec import Struct

from .finding import Finding, Flaw, Level
from .gate import Step

_NAMES: Final = (
    r"(?:<\|[\w▁-]{1,40}\|>|<｜[\w▁-]{1,40}｜>"
    r"|</?(?:s|pad|unk|mask|bos|eos|cls|sep|(?:unused|reserved|extra_id|dummy)[\w-]{0,20}"
    r"|(?:start|end)_of_\w{1,20})>"
    r"|\[(?:PAD|UNK|MASK|CLS|SEP|BOS|EOS|multimodal|unused\d{1,5})\])"
)
# What a marker begins with stands nowhere else in one, so markers never overlap.
_MARKER: Final = regex.compile(_NAMES)
_BEGINS: Final = "<["
# What may stand behind a marker while the row goes on, if more is to come.
_NEXT: Final = regex.compile(f" ?{_NAMES}")
# Two side by side may become a row.
_SUSPICIOUS: Final = 2


class _Row(Struct, frozen=True, gc=False):
    """The row of markers that the text ends in: how many are whole, the token and character of its
    beginning, and what stands behind the last whole one, which may become the next."""

    count: int
    position: int
    offset: int
    rest: str


_NOTHING: Final = _Row(0, 0, 0, "")


class MarkerGate:
    """Trips on `limit` markers in a row. O(1) a token, and next to nothing where there is no
    marker. Memory O(tokens)."""

    name = "markers"

    def __init__(self, limit: int = 12) -> None:
        self._limit = limit
        self._rows: list[_Row] = []

    def __repr__(self) -> str:
        return f"<MarkerGate {len(self._rows)} tokens>"

    def feed(self, step: Step) -> Finding | None:
        """Judge one more token."""
        row = self._rows[-1] if self._rows else _NOTHING
        text = step.text
        if not text or (row is _NOTHING and "<" not in text and "[" not in text):
            self._rows.append(row)
            return None
        return self._follow(row, step)

    def truncate(self, n_tokens: int) -> None:
        """Forget every step from position `n_tokens` on."""
        del self._rows[n_tokens:]

    def suspected(self) -> int | None:
        """Where a row of two and more begins that the text ends in; a marker that is begun
        counts."""
        row = self._rows[-1] if self._rows else _NOTHING
        begun = bool(row.rest.strip(" "))
        return row.position if row.count + begun >= _SUSPICIOUS else None

    def _follow(self, row: _Row, step: Step) -> Finding | None:
        text = row.rest + step.text
        begin = step.offset - len(row.rest)
        count, position, offset = row.count, row.position, row.offset
        end = 0
        found: Finding | None = None
        for marker in _MARKER.finditer(text):
            if count and text[end : marker.start()] in ("", " "):
                count += 1
            else:
                if count or marker.start() >= len(row.rest):
                    position, offset = step.position, begin + marker.start()
                count = 1
            end = marker.end()
            if count >= self._limit and (found is None or found.chars[0] == offset):
                found = self._finding(step, (position, offset), begin + end, count)
        rest = text[end:]
        if not count or not _NEXT.fullmatch(rest, partial=True):
            # No row, or no longer: but one may begin here.
            last = max(map(rest.rfind, _BEGINS))
            if last < 0 or not _MARKER.fullmatch(rest, last, partial=True):
                self._rows.append(_NOTHING)
                return found
            rest = rest[last:]
            start = begin + len(text) - len(rest)
            # Unless it is the marker that was begun before, and is still not whole.
            if count or start >= step.offset:
                position, offset = step.position, start
            count = 0
        self._rows.append(_Row(count, position, offset, rest))
        return found

    def _finding(self, step: Step, onset: tuple[int, int], end: int, count: int) -> Finding:
        return Finding(
            gate=self.name,
            level=Level.TEXT,
            flaw=Flaw.MARKER_RUN,
            tokens=(onset[0], step.position + 1),
            chars=(onset[1], end),
            score=count,
            threshold=self._limit,
            detail="special tokens, spelled out",
        )
