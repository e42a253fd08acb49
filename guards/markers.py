"""Markers in a row: special tokens spelled out as text.

A lone `<|im_end|>` or `[MASK]` is what a text about models is made of. A dozen of them side by
side, with nothing in between, are what a broken model says through a tokenizer that doesn't know
them as special. Tags of HTML stand side by side too, but they have other names.
"""

from typing import Final

import regex

from .finding import Finding, Flaw, Level
from .gate import Step
from .tail import Tail

_MARKER: Final = (
    r"(?:<\|[\w▁-]{1,40}\|>|<｜[\w▁-]{1,40}｜>"
    r"|</?(?:s|pad|unk|mask|bos|eos|cls|sep|(?:unused|reserved|extra_id|dummy)[\w-]{0,20}"
    r"|(?:start|end)_of_\w{1,20})>"
    r"|\[(?:PAD|UNK|MASK|CLS|SEP|BOS|EOS|multimodal|unused\d{1,5})\])"
)
# The longest marker with a blank: what is looked back on holds as many as are asked for.
_LONGEST: Final = 46


class MarkerGate:
    """Trips on `limit` markers in a row. Memory O(tokens)."""

    name = "markers"

    def __init__(self, limit: int = 12) -> None:
        self._limit = limit
        self._row = regex.compile(rf"(?:{_MARKER} ?){{{limit},}}")
        self._tail = Tail()

    def __repr__(self) -> str:
        return f"<MarkerGate {len(self._tail.pieces)} tokens>"

    def feed(self, step: Step) -> Finding | None:
        """Judge one more token."""
        text = step.text
        self._tail.pieces.append(text)
        if ">" not in text and "]" not in text:
            return None
        tail, first = self._tail.last(self._limit * _LONGEST + len(text))
        if tail.count(">") + tail.count("]") < self._limit:
            return None
        row = self._row.search(tail)
        if row is None:
            return None
        begin = step.offset + len(text) - len(tail)
        return Finding(
            gate=self.name,
            level=Level.TEXT,
            flaw=Flaw.MARKER_RUN,
            tokens=(self._tail.position(first, row.start()), step.position + 1),
            chars=(begin + row.start(), begin + row.end()),
            score=self._limit,
            threshold=self._limit,
            detail="special tokens, spelled out",
        )

    def truncate(self, n_tokens: int) -> None:
        """Forget every step from position `n_tokens` on."""
        del self._tail.pieces[n_tokens:]
