"""Runs: one character, or one word's token, again and again.

Tokenizers merge runs (64 dashes may be one token), so a run of one character is counted in
characters. People draw lines: what lines are drawn with may run longer, and blanks longer still,
but nobody leaves a hundred lines empty.
"""

from typing import Final

import regex
from msgspec import Struct

from .finding import Finding, Flaw, Level
from .gate import Step

# Rules, table borders, fill-in blanks, progress bars, redaction bars.
_LINES: Final = regex.compile(r"[-=_~*#.·+/\\|\p{Pd}\u2500-\u259F…。・]")
# What nothing looks like when it is encoded: base64 of zeros, hexadecimal zeros and ones.
_FILL: Final = frozenset("A0fF")
_INSIDE: Final = regex.compile(r"(.)\1+", regex.DOTALL)
_WORD_LETTERS: Final = 3
# From here on a run may become one too many, in characters or copies of a word; at the latest from
# half its limit on.
_SUSPICIOUS: Final = 16


class RunRules(Struct, frozen=True, kw_only=True):
    """From which length on a run is none that a writer makes; 0: never. `words` counts tokens of at
    least three letters, the others characters."""

    characters: int = 100
    fill: int = 400
    lines: int = 240
    spaces: int = 1000
    words: int = 20


class _Run(Struct, frozen=True, gc=False):
    """What runs at the end of a step."""

    character: str
    position: int
    offset: int
    end: int
    word: int
    copies: int


_NOTHING: Final = _Run("", 0, 0, 0, -1, 0)


class RunGate:
    """Trips once a run is too long. Memory O(tokens)."""

    name = "runs"

    def __init__(self, rules: RunRules | None = None) -> None:
        self._rules = rules = rules or RunRules()
        lengths = (rules.characters, rules.fill, rules.lines, rules.spaces)
        self._least = min((length for length in lengths if length > 0), default=0)
        self._runs: list[_Run] = []
        self._offsets: list[int] = []

    def __repr__(self) -> str:
        return f"<RunGate {len(self._runs)} tokens, {self._runs[-1] if self._runs else None}>"

    def feed(self, step: Step) -> Finding | None:
        """Judge one more token."""
        text = step.text
        before = self._runs[-1] if self._runs else _NOTHING
        self._offsets.append(step.offset)
        copies = before.copies + 1 if step.token_id == before.word else 1
        if not text:
            self._runs.append(
                _Run(
                    before.character,
                    before.position,
                    before.offset,
                    before.end,
                    step.token_id,
                    copies,
                )
            )
            return None
        last = text[-1]
        end = step.offset + len(text)
        found: Finding | None = None
        if last == before.character and len(text) == text.count(last):
            run = _Run(last, before.position, before.offset, end, step.token_id, copies)
        else:
            start = step.offset + len(text.rstrip(last))
            run = _Run(last, step.position, start, end, step.token_id, copies)
            if self._least:
                found = self._judge_rest(step, before)
        self._runs.append(run)
        length = end - run.offset
        if found is None and self._least and length >= self._least:
            found = self._judge(step, run.character, run.position, run.offset, length)
        if found is None and 0 < self._rules.words <= copies:
            found = self._judge_word(step, copies)
        return found

    def truncate(self, n_tokens: int) -> None:
        """Forget every step from position `n_tokens` on."""
        del self._runs[n_tokens:]
        del self._offsets[n_tokens:]

    def suspected(self) -> int | None:
        """Where a run of 16 and more (or half of what is too long) begins that may become too
        long."""
        if not self._runs:
            return None
        run = self._runs[-1]
        long = run.character and _suspicious(run.end - run.offset, self._limit(run.character))
        place = run.position if long else None
        if _suspicious(run.copies, self._rules.words):
            first = len(self._runs) - run.copies
            place = first if place is None else min(place, first)
        return place

    def _judge_rest(self, step: Step, before: _Run) -> Finding | None:
        """A run that this step ends, and those it holds whole."""
        text = step.text
        if text[0] == before.character:
            more = len(text) - len(text.lstrip(text[0]))
            length = step.offset + more - before.offset
            if length >= self._least and (
                found := self._judge(step, text[0], before.position, before.offset, length)
            ):
                return found
        # Only a piece as long as a run can hide a whole one.
        if len(text) > self._least:
            for inside in _INSIDE.finditer(text):
                start = step.offset + inside.start()
                if found := self._judge(step, inside[1], step.position, start, len(inside[0])):
                    return found
        return None

    def _judge(
        self, step: Step, character: str, position: int, offset: int, length: int
    ) -> Finding | None:
        limit = self._limit(character)
        if not 0 < limit <= length:
            return None
        return Finding(
            gate=self.name,
            level=Level.TEXT,
            flaw=Flaw.CHARACTER_RUN,
            tokens=(position, step.position + 1),
            chars=(offset, offset + length),
            score=length,
            threshold=limit,
            detail=f"U+{ord(character):04X}",
        )

    def _limit(self, character: str) -> int:
        if character.isspace() and character not in "\r\n":
            return self._rules.spaces
        if character in _FILL:
            return self._rules.fill
        return self._rules.lines if _LINES.match(character) else self._rules.characters

    def _judge_word(self, step: Step, copies: int) -> Finding | None:
        text = step.text.strip()
        # A run of one letter is no word.
        if len(text) < _WORD_LETTERS or not text.isalpha() or len(text) == text.count(text[0]):
            return None
        onset = step.position + 1 - copies
        return Finding(
            gate=self.name,
            level=Level.TEXT,
            flaw=Flaw.WORD_RUN,
            tokens=(onset, step.position + 1),
            chars=(self._offsets[onset], step.offset + len(step.text)),
            score=copies,
            threshold=self._rules.words,
            detail="one word's token, again and again",
        )


def _suspicious(length: int, limit: int) -> bool:
    return limit > 0 and length >= min(_SUSPICIOUS, max(limit // 2, 1))
