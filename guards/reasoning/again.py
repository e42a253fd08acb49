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
# Blanks that make a line code.
_CODE: Final = 4
_FENCES: Final = "`~"


class AgainGate:
    """Trips on each tag of reasoning in an answer. Memory O(tokens).

    `start` and `end` are the tags as text, `start_ids` and `end_ids` as tokens; what is empty is
    not looked for. `by_id`: told by their ids alone, else by their text alone. `cut`: the reasoning
    was closed for the model, so at the beginning of the answer a start tag counts behind blanks,
    too, and by its text in any case, and an end tag anywhere but in code: it may well go on to
    think, and close that in its own time.
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
        self._by: list[_ById | _ByText] = []
        if by_id:
            self._by.append(_ById((start_ids, end_ids)))
        if not by_id:
            self._by.append(_ByText((start.strip(), end.strip()), strict=cut))
        elif cut:
            # The tokens themselves may be banned; the letters are not.
            self._by.append(_ByText((start.strip(), ""), strict=True, lines=False))

    def __repr__(self) -> str:
        return f"<AgainGate {self._by!r}>"

    def feed(self, step: Step) -> Finding | None:
        """Judge one more token of the answer."""
        found: _Found | None = None
        for by in self._by:
            found = by.feed(step) or found
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
        for by in self._by:
            by.truncate(n_tokens)

    def suspected(self) -> int | None:
        """Where the first token stands of what may be becoming a tag, or None."""
        places = [by.suspected() for by in self._by]
        return min((place for place in places if place is not None), default=None)


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
    tags: tuple[int, ...] = (0, 1)


class _Line(Struct, frozen=True):
    """The text's state behind a step.

    `begun`: what may become a tag. `fence`: what opened the fence that the text is in, or nothing.
    `ticks`: so many backticks opened the code span that it is in, or none. `run`: backticks at its
    end. Of the line: `part` 0 is its indentation, 1 the run of fence characters that it begins
    with (`mark`), 2 what comes behind; `blank`: only blanks came there; `ticked`: a backtick did.
    `untouched`: nothing but blanks has come at all. `plain`: only a line break or a backtick, or
    the first character of a tag, changes anything. `indent`: blanks that the line begins with.
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
    indent: int = 0


class _ByText:
    """Tags as text at the beginning of a line (unless `lines` is false), a `strict` one also at the
    beginning of the text, and an end tag anywhere but in code."""

    def __init__(self, tags: tuple[str, str], *, strict: bool, lines: bool = True) -> None:
        self._tags = tags
        self._strict = strict
        self._at_lines = lines
        self._anywhere = tags[1][:1] if strict else ""
        self._changes = frozenset(f"\n`{self._anywhere}")
        self._lines: list[_Line] = []
        self._first = _Line(begun=(_Begun(0, 0, ""),))

    def __repr__(self) -> str:
        return f"by text, {len(self._lines)} tokens"

    def feed(self, step: Step) -> _Found | None:
        line = self._lines[-1] if self._lines else self._first
        text = step.text
        if not text or (line.plain and self._changes.isdisjoint(text)):
            self._lines.append(line)
            return None
        found: _Found | None = None
        for at, character in enumerate(text):
            if line.plain and character not in self._changes:
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
        if character == "\n" and fresh and self._at_lines:
            begun = (*begun, _Begun(position, offset + 1, ""))
        elif self._strict and untouched:
            begun = (*begun, _Begun(position, offset + 1, "", (0,)))
        if character == self._anywhere and fresh and not behind.run and behind.indent < _CODE:
            more, tag = self._grown(
                (_Begun(position, offset, "", (1,)),), character, position, offset
            )
            begun, found = (*begun, *more), found or tag
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
            behind.indent,
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
                one = _Begun(position, offset, "", one.tags)  # noqa: PLW2901
            for which in one.tags:
                if text == self._tags[which]:
                    found = found or (which, one.position, one.offset, offset + 1)
            tags = (self._tags[which] for which in one.tags)
            if any(len(text) < len(tag) and tag.startswith(text) for tag in tags):
                kept.append(_Begun(one.position, one.offset, text, one.tags))
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
    ticks, run, indent = line.ticks, line.run, line.indent
    if part == 0 and character.isspace():
        indent += _CODE if character == "\t" else 1
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
    return _Line((), line.fence, ticks, run, part, mark, blank, ticked, indent=indent)


def _span(ticks: int, run: int) -> int:
    """What a run of backticks makes of the code span that the text is in, or of none."""
    if not ticks:
        return run
    return 0 if run == ticks else ticks
