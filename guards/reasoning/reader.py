"""Reads reasoning in sentences, and shows each to judges.

Nothing is judged before a sentence ends, so a token costs a look into a table. A sentence ends
with its mark and a blank behind it, with an ideographic mark, with the line. Where none ends for
long, its clauses count as sentences. What has no words (a row of a matrix, a board, the number of a
list's item) belongs to the sentence behind it, so that a board is one thing and not eight rows.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from msgspec import Struct

from ..gate import Step

# In tokens. Longer ones are read by their clauses; at the latest then they are read; and so long
# may be what has no words.
_LONG: Final = 40
_MOST: Final = 64
_MOST_SYMBOLS: Final = 256
# A clause has at least so many tokens: "so," alone says nothing.
_CLAUSE_TOKENS: Final = 6
# As many texts as the largest vocabularies have tokens.
_MOST_KINDS: Final = 1 << 18
# Tokens between two looks.
EVERY: Final = 8

_BLANK: Final = 1
_STOP: Final = 2
_HARD: Final = 4
_CLAUSE: Final = 8
_WORDS: Final = 16
_LINE: Final = 32
_SYMBOLS: Final = 64
_ENDS: Final = _STOP | _HARD

_UNSPACED: Final = (
    r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Chinese, Japanese
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
)
_IS_HARD: Final = re.compile(r"[\n\r。！？｡։۔।॥؟]|[.!?…]['\"”’»)\]*_]*\s")
_IS_STOP: Final = re.compile(r"[.!?…]['\"”’»)\]*_]*\Z")
_IS_CLAUSE: Final = re.compile(r"[,;:،؛、，；：—–]")
_IS_WORDS: Final = re.compile(rf"[^\W\d_]{{2}}|[{_UNSPACED}]|[^\x00-\u02ff\W\d_]")
_ASCII_ITEM: Final = re.compile(r"[a-z]+|\d+(?:[.,]\d+)*")
# Whatever is no blank, digit or sign is part of a word: marks are, on which \w breaks Hindi.
_ITEM: Final = re.compile(
    rf"\d+(?:[.,]\d+)*|[{_UNSPACED}]+"
    rf"|[^\s\d\x00-\x40\x5b-\x60\x7b-\xbf×÷{_UNSPACED}"
    r"\u2000-\u2bff\u3000-\u303f\uff00-\uff20۔।॥؟،؛]+"
)
_IS_UNSPACED: Final = re.compile(f"[{_UNSPACED}]")
# Characters of a stretch without blanks that are taken for a word: two are one in Chinese; an
# alphabet takes more.
_IDEOGRAPHS: Final = 2
_LETTERS: Final = 4
_FIRST_IDEOGRAPH: Final = "\u3040"
_IS_SYMBOL: Final = re.compile(r"[\d=<>^|()\[\]{}→⇒+*/\\∧∨¬∈]")


class Sentence(Struct, frozen=True, gc=False):
    """One sentence: tokens `start` to `end`; `text` without differences of case and of blanks;
    `items`, its words and numbers in order; how many of them are `fresh`, not having come within
    the memory; whether it has numbers or formulas; and whether it ends its line."""

    start: int
    end: int
    text: str
    items: tuple[str, ...]
    fresh: int
    symbolic: bool
    ends_line: bool

    @property
    def tokens(self) -> int:
        """Its length."""
        return self.end - self.start


class Verdict(Struct, frozen=True, gc=False):
    """What a judge complains about: the tokens from `onset` on should go."""

    onset: int
    score: float
    threshold: float
    detail: str


class Judge(Protocol):
    """Judges sentences one after the other, and can take back the last."""

    def read(self, sentence: Sentence) -> Verdict | None:
        """Judge one more. O(its length)."""
        ...

    def forget(self) -> None:
        """Take the last one back. O(its length)."""
        ...


class _Closed(Struct, frozen=True, gc=False):
    """Sentences that end with one token: at which, where the next begins, and how many."""

    at: int
    end: int
    sentences: int


class Vocabulary:
    """When each word and number came last, counted in words."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._last: dict[str, int] = {}
        self._count = 0
        self._before: list[tuple[dict[str, int], list[int | None], int]] = []

    def add(self, items: tuple[str, ...]) -> int:
        """How many different ones of them did not come within the memory."""
        count = self._count
        now = dict.fromkeys(items, count)
        before = list(map(self._last.get, now))
        oldest = count - self._memory
        fresh = before.count(None)
        if oldest > 0:
            for earlier in before:
                if earlier is not None and earlier < oldest:
                    fresh += 1
        self._last.update(now)
        self._before.append((now, before, count))
        self._count = count + len(items)
        return fresh

    def forget(self) -> None:
        """Take the last ones back."""
        now, before, self._count = self._before.pop()
        for item, earlier in zip(now, before, strict=True):
            if earlier is None:
                del self._last[item]
            else:
                self._last[item] = earlier


class Reader:
    """Reads `steps`, to which they are added, and gives the first verdict with the place of its
    judge. They are looked at `EVERY` at a time, for that costs less. Memory O(tokens)."""

    def __init__(self, judges: Sequence[Judge], memory: int) -> None:
        self._judges = tuple(judges)
        self._vocabulary = Vocabulary(memory)
        self.steps: list[Step] = []
        self._closed: list[_Closed] = []
        self._begin(0)

    def look(self, seen: int) -> tuple[int, Verdict] | None:
        """Read the steps from position `seen` on."""
        found = None
        steps, kinds, known = self.steps, self._kinds, _KINDS
        for position in range(seen, len(steps)):
            text = steps[position].text
            kind = known[text]
            if not (self._ended or kind & _ENDS or position >= self._due):
                kinds |= kind
                continue
            self._kinds = kinds
            found = self._step(position, text, kind) or found
            kinds = self._kinds
        self._kinds = kinds
        return found

    def _step(self, position: int, text: str, kind: int) -> tuple[int, Verdict] | None:
        """Read a token with which a sentence may end."""
        found = None
        if self._ended and kind & _BLANK and not kind & _LINE:
            found = self._close(position, position, kind)
        if text:
            self._ended = bool(kind & _STOP)
        self._kinds |= kind
        if kind & _HARD:
            found = self._close(position + 1, position, kind) or found
        elif position >= self._due:
            found = self._break_off(position) or found
        return found

    def truncate(self, n_tokens: int) -> None:
        """Forget every step from position `n_tokens` on."""
        closed = self._closed
        looked_at = min(n_tokens, len(self.steps)) // EVERY * EVERY
        while closed and closed[-1].at >= looked_at:
            for _ in range(closed.pop().sentences):
                self._vocabulary.forget()
                for judge in self._judges:
                    judge.forget()
        self._begin(closed[-1].end if closed else 0)
        pending = self.steps[looked_at:n_tokens]
        del self.steps[looked_at:]
        self.look(self._start)
        self.steps += pending

    def _begin(self, start: int) -> None:
        self._start = start
        self._due = start + _MOST - 1
        self._kinds = 0
        self._ended = False

    def _close(self, end: int, at: int, kind: int) -> tuple[int, Verdict] | None:
        """Read what is pending up to `end`, if it has any words."""
        start = self._start
        if not self._kinds & _WORDS and end - start < _MOST_SYMBOLS:
            return None
        ends = [*self._clauses(end)] if end - start > _LONG else []
        if not ends or ends[-1] != end:
            ends.append(end)
        return self._read(ends, at, bool(kind & _LINE))

    def _break_off(self, at: int) -> tuple[int, Verdict] | None:
        """Read the clauses of what is pending, for no sentence ends; all of it if it has none. What
        has no words is given more time."""
        if not self._kinds & _WORDS and at + 1 - self._start < _MOST_SYMBOLS:
            self._due += _MOST
            return None
        ends = [*self._clauses(at + 1)] or [at + 1]
        found = self._read(ends, at, ends_line=False)
        for step in self.steps[ends[-1] : at + 1]:
            self._kinds |= _KINDS[step.text]
            if step.text:
                self._ended = bool(_KINDS[step.text] & _STOP)
        return found

    def _clauses(self, end: int) -> Iterator[int]:
        """Where clauses end before `end`."""
        start, kinds = self._start, 0
        for position in range(start, end):
            kind = _KINDS[self.steps[position].text]
            kinds |= kind
            if kind & _CLAUSE and kinds & _WORDS and position + 1 - start >= _CLAUSE_TOKENS:
                yield position + 1
                start, kinds = position + 1, 0

    def _read(self, ends: list[int], at: int, ends_line: bool) -> tuple[int, Verdict] | None:
        found = None
        start = self._start
        for end in ends:
            texts = [step.text for step in self.steps[start:end]]
            symbolic = bool(self._kinds & _SYMBOLS)
            if symbolic and len(ends) > 1:
                symbolic = any(_KINDS[text] & _SYMBOLS for text in texts)
            text = " ".join("".join(texts).casefold().split())
            items = items_of(text)
            fresh = self._vocabulary.add(items)
            last = ends_line and end == ends[-1]
            sentence = Sentence(start, end, text, items, fresh, symbolic, last)
            for place, judge in enumerate(self._judges):
                verdict = judge.read(sentence)
                if verdict is not None and found is None:
                    found = (place, verdict)
            start = end
        self._closed.append(_Closed(at, start, len(ends)))
        self._begin(start)
        return found


def items_of(text: str) -> tuple[str, ...]:
    """Words and numbers. Where no blanks part the words, overlapping pieces of the length of a word
    are taken for them."""
    if text.isascii():
        return tuple(_ASCII_ITEM.findall(text))
    items: list[str] = _ITEM.findall(text)
    if _IS_UNSPACED.search(text) is None:
        return tuple(items)
    made: list[str] = []
    for item in items:
        if _IS_UNSPACED.match(item):
            length = _IDEOGRAPHS if item >= _FIRST_IDEOGRAPH else _LETTERS
            made += [item[at : at + length] for at in range(max(1, len(item) - length + 1))]
        else:
            made.append(item)
    return tuple(made)


def kind_of(text: str) -> int:
    """What a token's text has that matters for where sentences end, as bits."""
    kind = 0
    if text[:1].isspace():
        kind |= _BLANK
    if _IS_HARD.search(text):
        kind |= _HARD
    elif _IS_STOP.search(text):
        kind |= _STOP
    if _IS_CLAUSE.search(text):
        kind |= _CLAUSE
    if _IS_WORDS.search(text):
        kind |= _WORDS
    if "\n" in text or "\r" in text:
        kind |= _LINE
    if _IS_SYMBOL.search(text):
        kind |= _SYMBOLS
    return kind


class _Kinds(dict[str, int]):
    """Kinds of texts seen before: a look costs half of what a cache with an order does."""

    def __missing__(self, text: str) -> int:
        if len(self) >= _MOST_KINDS:
            self.clear()
        self[text] = kind = kind_of(text)
        return kind


_KINDS: Final = _Kinds()
