"""Thinking that starts again in the answer, and a second end of it: exactly one block is legal.

Where the tags are tokens of their own they are told by their ids, at once and anywhere: the same
string typed as ordinary text has other ids, and an answer may talk about it. Where they are plain
text only a tag at the very beginning of a line counts, outside of fences and backticks: that is how
a model writes one that it means, and how nobody writes about one without showing it as code.
"""

from typing import Final

from msgspec import Struct

from ..finding import Finding, Flaw, Level
from ..gate import Step

_FENCE: Final = 3
_FENCES: Final = "`~"


class AgainGate:
    """Trips on each tag of reasoning in an answer. Memory O(tokens).

    `start` and `end` are the tags as text, `start_ids` and `end_ids` as tokens; what is empty is
    not looked for. `by_id`: told by their ids alone, else by their text alone. `cut`: the reasoning
    was cut before, so at the beginning of the answer a start tag counts behind blanks, too.
    """

    name = "reasoning"

    def __init__(
        self,
        start: str,
        end: str,
        start_ids: tuple[int, ...],
        end_ids: tuple[int, ...],
        *,
        by_id: bool,
        cut: bool,
    ) -> None:
        self._by: _ById | _ByText
        if by_id:
            self._by = _ById((start_ids, end_ids))
        else:
            self._by = _ByText((start.strip(), end.strip()), strict=cut)

    def __repr__(self) -> str:
        return f"<AgainGate {self._by!r}>"

    def feed(self, step: Step) -> Finding | None:
        """Judge one more token of the answer."""
        found = self._by.feed(step)
        if found is None:
            return None
        tag, position, offset, end = found
        return Finding(
            gate=self.name,
            level=Level.REASONING,
            flaw=Flaw.REASONING_END_AGAIN if tag else Flaw.REASONING_AGAIN,
            tokens=(position, step.position + 1),
            chars=(offset, end),
            score=1,
            threshold=1,
            detail="a second end tag in the answer" if tag else "a start tag in the answer",
        )

    def truncate(self, n_tokens: int) -> None:
        """Forget every step from position `n_tokens` on."""
        self._by.truncate(n_tokens)

    def suspected(self) -> int | None:
        """Where the first token stands of what may be becoming a tag, or None."""
        return self._by.suspected()


# Which tag (0: the start, 1: the end), its first token, its first character and the one behind it.
_Found = tuple[int, int, int, int]


class _ById:
    """Tags as sequences of ids."""

    def __init__(self, tags: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
        self._tags = tags
        self._lasts = frozenset(tag[-1] for tag in tags if tag)
        self._longest = max(map(len, tags))
        self._ids: list[int] = []
        self._offsets: list[int] = []

    def __repr__(self) -> str:
        return f"by id, {len(self._ids)} tokens"

    def feed(self, step: Step) -> _Found | None:
        ids = self._ids
        ids.append(step.token_id)
        self._offsets.append(step.offset)
        if step.token_id not in self._lasts:
            return None
        for which, tag in enumerate(self._tags):
            if tag and tuple(ids[-len(tag) :]) == tag:
                begin = len(ids) - len(tag)
                return which, begin, self._offsets[begin], step.offset + len(step.text)
        return None

    def truncate(self, n_tokens: int) -> None:
        del self._ids[n_tokens:]
        del self._offsets[n_tokens:]

    def suspected(self) -> int | None:
        tail = tuple(self._ids[-(self._longest - 1) :]) if self._longest > 1 else ()
        for begin in range(len(tail)):
            rest = tail[begin:]
            if any(len(rest) < len(tag) and tag[: len(rest)] == rest for tag in self._tags):
                return len(self._ids) - len(rest)
        return None


class _Begun(Struct, frozen=True, gc=False):
    """What may become a tag: its first token and character, and what of it is there."""

    position: int
    offset: int
    text: str
    only_start: bool


class _Line(Struct, frozen=True):
    """The text's state behind a step.

    `begun`: what may become a tag. `fence`: what opened the fence that the text is in, or nothing.
    `ticks`: so many backticks opened the code span that it is in, or none. `run`: backticks at its
    end. Of the line: `part` 0 is its indentation, 1 the run of fence characters that it begins
    with (`mark`), 2 what comes behind; `blank`: only blanks came there; `ticked`: a backtick did.
    `untouched`: nothing but blanks has come at all. `plain`: only a line break or a backtick
    changes anything.
    """

    begun: tuple[_Begun, ...] = ()
    fence: str = ""
    ticks: int = 0
    run: int = 0
    part: int = 0
    mark: str = ""
    blank: bool = True
    ticked: bool = False
    untouched: bool = True
    plain: bool = False


class _ByText:
    """Tags as text at the beginning of a line."""

    def __init__(self, tags: tuple[str, str], *, strict: bool) -> None:
        self._tags = tags
        self._strict = strict
        self._lines: list[_Line] = []
        self._first = _Line(begun=(_Begun(0, 0, "", only_start=False),))

    def __repr__(self) -> str:
        return f"by text, {len(self._lines)} tokens"

    def feed(self, step: Step) -> _Found | None:
        line = self._lines[-1] if self._lines else self._first
        text = step.text
        if not text or (line.plain and "\n" not in text and "`" not in text):
            self._lines.append(line)
            return None
        found: _Found | None = None
        for at, character in enumerate(text):
            if line.plain and character not in "\n`":
                continue
            line, tag = self._next(line, character, step.position, step.offset + at)
            found = found or tag
        self._lines.append(line)
        return found

    def truncate(self, n_tokens: int) -> None:
        del self._lines[n_tokens:]

    def suspected(self) -> int | None:
        if not self._lines or not (begun := self._lines[-1].begun):
            return None
        return min((one.position for one in begun if one.text), default=None)

    def _next(
        self, line: _Line, character: str, position: int, offset: int
    ) -> tuple[_Line, _Found | None]:
        begun, found = self._grown(line.begun, character, position, offset)
        behind = _newline(line) if character == "\n" else _within(line, character)
        untouched = line.untouched and character.isspace()
        fresh = not behind.fence and not behind.ticks
        if character == "\n" and fresh:
            begun = (*begun, _Begun(position, offset + 1, "", only_start=False))
        elif self._strict and untouched:
            begun = (*begun, _Begun(position, offset + 1, "", only_start=True))
        line = _Line(
            begun,
            behind.fence,
            behind.ticks,
            behind.run,
            behind.part,
            behind.mark,
            behind.blank,
            behind.ticked,
            untouched,
            behind.part == 2 and not begun and not behind.run and not behind.blank,
        )
        return line, found

    def _grown(
        self, begun: tuple[_Begun, ...], character: str, position: int, offset: int
    ) -> tuple[tuple[_Begun, ...], _Found | None]:
        """Those that go on with this character, and the tag that it completes."""
        if not begun:
            return begun, None
        kept: list[_Begun] = []
        found: _Found | None = None
        for one in begun:
            text = one.text + character
            if not one.text:
                one = _Begun(position, offset, "", one.only_start)  # noqa: PLW2901
            for which, tag in enumerate(self._tags[:1] if one.only_start else self._tags):
                if text == tag:
                    found = found or (which, one.position, one.offset, offset + 1)
            if any(
                len(text) < len(tag) and tag.startswith(text)
                for tag in (self._tags[:1] if one.only_start else self._tags)
            ):
                kept.append(_Begun(one.position, one.offset, text, one.only_start))
        return tuple(kept), found


def _newline(line: _Line) -> _Line:
    """The state behind the line's end: what the line was is known now."""
    fence, ticks = line.fence, line.ticks
    if line.run and not fence:
        ticks = _span(ticks, line.run)
    if len(line.mark) >= _FENCE:
        if not fence:
            if line.mark[0] == "~" or not line.ticked:
                fence, ticks = line.mark, 0
        elif line.mark[0] == fence[0] and len(line.mark) >= len(fence) and line.blank:
            fence = ""
    if line.part == 0:
        # A blank line ends the paragraph, and with it what a stray backtick opened.
        ticks = 0
    return _Line(fence=fence, ticks=ticks)


def _within(line: _Line, character: str) -> _Line:
    part, mark, blank, ticked = line.part, line.mark, line.blank, line.ticked
    ticks, run = line.ticks, line.run
    if part == 0 and not character.isspace():
        part = 1 if character in _FENCES else 2
        mark = character if part == 1 else ""
    elif part == 1:
        if character == mark[0]:
            mark += character
        else:
            part = 2
    if part == 2:
        blank = blank and character.isspace()
        ticked = ticked or character == "`"
    if character == "`":
        run += 1
    elif run:
        if not line.fence:
            ticks = _span(ticks, run)
        run = 0
    return _Line((), line.fence, ticks, run, part, mark, blank, ticked)


def _span(ticks: int, run: int) -> int:
    """What a run of backticks makes of the code span that the text is in, or of none."""
    if not ticks:
        return run
    return 0 if run == ticks else ticks
