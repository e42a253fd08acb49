"""Parts of a text that the gates on text must not judge, such as the arguments of a call.

They are JSON by a schema: what looks like a loop, or like no words, is what was asked for there.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

import msgspec
import regex

from .finding import Finding
from .gate import Gate, Step

Spans = Sequence[tuple[str, str]]


class Following(Gate, Protocol):
    """A gate that knows of a possible fault before it trips, as a pipeline does."""

    def suspected(self) -> int | None:
        """The position of the first token of what it follows, or None."""
        ...


class Scan(NamedTuple):
    """Where a text stands: what opened the span that it is in, "" outside of one; as much of its
    end as may yet become what opens or closes one; and how often it went in or out."""

    opener: str = ""
    tail: str = ""
    turns: int = 0


class SpanReader:
    """Follows a text into spans and out of them, however it is cut into pieces. Of two marks the
    one that ends first counts, of two that end together the longer. A span ends with any of the
    marks that its opener is paired with; one that never closes goes to the end of the text."""

    def __init__(self, spans: Spans) -> None:
        """`spans`: pairs of what opens one and what closes it, none of them empty."""
        closers: dict[str, list[str]] = {}
        for opener, closer in spans:
            closers.setdefault(opener, []).append(closer)
        self._marks = {"": _Marks(closers)} | {one: _Marks(ends) for one, ends in closers.items()}

    def read(self, scan: Scan, text: str) -> Scan:
        """Where it stands behind `text`. O(length of the text, and of the longest mark)."""
        opener, tail, turns = scan
        tail += text
        at = 0
        while (mark := self._marks[opener].pattern.search(tail, at)) is not None:
            opener = "" if opener else mark[0]
            at = mark.end()
            turns += 1
        at = max(at, len(tail) - self._marks[opener].longest + 1)
        return Scan(opener, tail[at:], turns)

    def split(self, text: str) -> list[str]:
        """A whole text, from outside a span to inside of one and out again, the marks left away:
        of an even number of pieces the last is of a span that does not close."""
        pieces: list[str] = []
        opener, at = "", 0
        while (mark := self._marks[opener].pattern.search(text, at)) is not None:
            pieces.append(text[at : mark.start()])
            opener = "" if opener else mark[0]
            at = mark.end()
        return [*pieces, text[at:]]

    def outside(self, text: str) -> list[str]:
        """What of a whole text stands outside of spans; the last piece is empty where the text ends
        inside of one."""
        pieces = self.split(text)
        return [*pieces[::2], *([] if len(pieces) % 2 else [""])]


class _Marks:
    def __init__(self, marks: Collection[str]) -> None:
        # One that has another in it, before its end, is never the first to end.
        own = {mark for mark in marks if not any(other in mark[:-1] for other in marks)}
        self.longest: int = max(map(len, own))
        ordered = sorted(own, key=lambda mark: (-len(mark), mark))
        self.pattern = regex.compile("|".join(map(regex.escape, ordered)))


class _Stretch(NamedTuple):
    """Text between two spans, judged as a text of its own: what stands before and behind a span is
    no repetition. `start` in tokens, `offset` in characters, `turns` as of the scan."""

    gates: Following
    turns: int
    start: int
    offset: int


class ExemptGate:
    """Feeds the gates that `make` gives with what stands outside of spans. The token that completes
    a mark is judged by none."""

    name = "exempt"

    def __init__(self, spans: Spans, make: Callable[[], Following]) -> None:
        self._reader = SpanReader(spans)
        self._make = make
        self._scans: list[Scan] = []
        self._stretches: list[_Stretch] = []
        # Of the last stretch.
        self._fed = 0

    def __repr__(self) -> str:
        return f"<ExemptGate {len(self._scans)} tokens, {len(self._stretches)} stretches>"

    def feed(self, step: Step) -> Finding | None:
        """Judge one more token, where it is outside."""
        before = self._scans[-1] if self._scans else Scan()
        after = self._reader.read(before, step.text)
        self._scans.append(after)
        if after.opener or after.turns != before.turns:
            return None
        if not self._stretches or self._stretches[-1].turns != after.turns:
            self._stretches.append(_Stretch(self._make(), after.turns, step.position, step.offset))
            self._fed = 0
        gates, _, start, offset = self._stretches[-1]
        self._fed += 1
        own = msgspec.structs.replace(
            step, position=step.position - start, offset=step.offset - offset
        )
        finding = gates.feed(own)
        if finding is None:
            return None
        return msgspec.structs.replace(
            finding,
            tokens=(finding.tokens[0] + start, finding.tokens[1] + start),
            chars=(finding.chars[0] + offset, finding.chars[1] + offset),
        )

    def truncate(self, n_tokens: int) -> None:
        """Forget every step from position `n_tokens` on."""
        del self._scans[n_tokens:]
        last = self._stretches[-1] if self._stretches else None
        while self._stretches and self._stretches[-1].start >= n_tokens:
            self._stretches.pop()
        if not self._stretches:
            self._fed = 0
            return
        left = self._stretches[-1]
        if left is not last:
            # A stretch that is over has judged every token up to the one that ended it.
            self._fed = self._length(left)
        self._fed = min(self._fed, n_tokens - left.start)
        left.gates.truncate(self._fed)

    def suspected(self) -> int | None:
        """The first position that some gate follows as a possible fault, or None. What it followed
        when a span began it won't complain about."""
        if not self._stretches or self._scans[-1].turns != self._stretches[-1].turns:
            return None
        gates, _, start, _ = self._stretches[-1]
        place = gates.suspected()
        return None if place is None else place + start

    def _length(self, stretch: _Stretch) -> int:
        """How many tokens of what is left are in it."""
        scans = self._scans
        end = stretch.start
        while end < len(scans) and scans[end].turns == stretch.turns:
            end += 1
        return end - stretch.start
