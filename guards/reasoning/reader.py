"""Reads reasoning in sentences, and shows each to judges.

Nothing is judged before a sentence ends, so a token costs a look into a table. A sentence ends
with its mark and a blank behind it, with an ideographic mark, with the line. Where none ends for
long, its clauses count as sentences. What has no words (a row of a matrix, a board, the number of a
list's item) belongs to the sentence behind it, so that a board is one thing and not eight rows.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from msgspec import Struct

from ..gate import Step
from .marks import (
    BLANK,
    CLAUSE,
    ENDS,
    HARD,
    IS_WORDS,
    KINDS,
    LETTER,
    LINE,
    RUN,
    SILENT,
    STOP,
    SYMBOLS,
    WORDS,
    frame_of,
    items_of,
    pieces_of_word,
    size_of,
)
from .memory import Forms, Told, Vocabulary, forms_of

# In tokens. A sentence that does not end for so long is read by its clauses; and so long may be
# what has no words.
_MOST: Final = 128
_MOST_SYMBOLS: Final = 256
# A clause has at least so many tokens: "so," alone says nothing.
_CLAUSE_TOKENS: Final = 6
# How much it tells that a sentence came before. A word or a number alone may be the outcome of one
# of many trials; what has the form of the last sentence with numbers or formulas, the step of a
# machine: of 80 traces of automata a weight of 0.2 still cut 3, 0.1 none.
_TELLING_WORDS: Final = 3
_WORD: Final = 0.25
# So many different sentences of one form may be steps of a search, whichever comes again, the more
# so with numbers or formulas. At 0 loops of such sentences in changing order were never found; with
# 0.25 without numbers 3 of 180 were missed, but 41 of 2,426 searches and automata cut; with 0.1 it
# is 13 and 11, with 0.06 27 and 7.
_FAMILY: Final = 2
_SEARCH: Final = 0.1
_SEARCH_SYMBOLS: Final = 0.07
_STEP: Final = 0.1
# Tokens between two looks.
EVERY: Final = 8


class Sentence(Struct, frozen=True, gc=False):
    """One sentence: tokens `start` to `end`; its `size`, in tokens of a tokenizer that knows the
    language, if those are fewer; `text` without differences of case and of blanks; `items`, its
    words and numbers in order, of which `pieces` are a word; how many are `fresh`, not having come
    within the memory; whether it has numbers or formulas; whether it ends its line; `telling`, how
    much it tells if it came before, from little for the step of a search to 1; and how often it was
    `told`, as `Told` has it."""

    start: int
    end: int
    size: float
    text: str
    items: tuple[str, ...]
    pieces: int
    fresh: int
    symbolic: bool
    ends_line: bool
    telling: float
    told: tuple[int, int, int]

    def sized(self, tokens: int) -> float:
        """What so many tokens around it are, in those that `size` counts."""
        return tokens * self.size / (self.end - self.start)


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


class Reader:
    """Reads `steps`, to which they are added, and gives the first verdict with the place of its
    judge. They are looked at `EVERY` at a time, for that costs less. Memory O(tokens)."""

    def __init__(self, judges: Sequence[Judge], memory: int) -> None:
        self._judges = tuple(judges)
        self._vocabulary = Vocabulary(memory)
        self._told = Told(memory)
        self._forms = Forms(memory)
        self.steps: list[Step] = []
        self._closed: list[_Closed] = []
        # The form of the last sentence with numbers or formulas, by sentence.
        self._frames: list[tuple[str, ...]] = [()]
        self._begin(0)

    def look(self, seen: int) -> tuple[int, Verdict] | None:
        """Read the steps from position `seen` on."""
        found = None
        steps, kinds, known = self.steps, self._kinds, KINDS
        for position in range(seen, len(steps)):
            kind = known[steps[position].text]
            if not (self._ended or kind & ENDS or position >= self._due):
                kinds |= kind
                continue
            self._kinds = kinds
            found = self._step(position, kind) or found
            kinds = self._kinds
        self._kinds = kinds
        return found

    def _step(self, position: int, kind: int) -> tuple[int, Verdict] | None:
        """Read a token with which a sentence may end."""
        found = None
        if self._ended and kind & BLANK and not kind & LINE:
            found = self._close(position, position, kind)
        if not kind & SILENT:
            self._ended = bool(kind & STOP)
        self._kinds |= kind
        if kind & HARD:
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
                self._frames.pop()
                self._told.forget()
                self._forms.forget()
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
        if end - self._start < _MOST_SYMBOLS and not self._has_words(end):
            return None
        return self._read([end], at, bool(kind & LINE))

    def _has_words(self, end: int) -> bool:
        """Whether what is pending up to `end` has a word, in one token or in several."""
        if self._kinds & WORDS:
            return True
        if not self._kinds & LETTER:
            return False
        text = "".join([step.text for step in self.steps[self._start : end]])
        return IS_WORDS.search(text) is not None

    def _break_off(self, at: int) -> tuple[int, Verdict] | None:
        """Read the clauses of what is pending, for no sentence ends; all of it if it has none. What
        has no words is given more time."""
        if at + 1 - self._start < _MOST_SYMBOLS and not self._has_words(at + 1):
            self._due += _MOST
            return None
        ends = [*self._clauses(at + 1)] or [at + 1]
        found = self._read(ends, at, ends_line=False)
        for step in self.steps[ends[-1] : at + 1]:
            self._kinds |= KINDS[step.text]
            if not KINDS[step.text] & SILENT:
                self._ended = bool(KINDS[step.text] & STOP)
        return found

    def _clauses(self, end: int) -> Iterator[int]:
        """Where clauses end before `end`: with their marks; with blanks, where words have none."""
        start, kinds = self._start, 0
        blanks = self._kinds & RUN
        for position in range(start, end):
            kind = KINDS[self.steps[position].text]
            enough = kinds & LETTER and position - start >= _CLAUSE_TOKENS
            if enough and blanks and kind & BLANK:
                # A blank belongs to the word behind it.
                yield position
                start, kinds = position, 0
            kinds |= kind
            if kind & CLAUSE and kinds & LETTER and position + 1 - start >= _CLAUSE_TOKENS:
                yield position + 1
                start, kinds = position + 1, 0

    def _read(self, ends: list[int], at: int, ends_line: bool) -> tuple[int, Verdict] | None:
        found = None
        start = self._start
        for end in ends:
            texts = [step.text for step in self.steps[start:end]]
            symbolic = bool(self._kinds & SYMBOLS)
            if symbolic and len(ends) > 1:
                symbolic = any(KINDS[text] & SYMBOLS for text in texts)
            text = " ".join("".join(texts).casefold().split())
            items = items_of(text)
            fresh = self._vocabulary.add(items)
            last = ends_line and end == ends[-1]
            told = self._told.add(text, start)
            pieces = pieces_of_word(text)
            frame = frame_of(items)
            alike = self._forms.add(forms_of(text, frame, pieces), start, new=not told[0])
            telling = self._telling(
                2 * len(items) // (pieces + 1), frame if symbolic else None, alike
            )
            size = min(end - start, size_of(text))
            sentence = Sentence(
                *(start, end, size, text, items, pieces),
                *(fresh, symbolic, last, telling, told),
            )
            for place, judge in enumerate(self._judges):
                verdict = judge.read(sentence)
                if verdict is not None and found is None:
                    found = (place, verdict)
            start = end
        self._closed.append(_Closed(at, start, len(ends)))
        self._begin(start)
        return found

    def _telling(self, words: int, frame: tuple[str, ...] | None, alike: int) -> float:
        last = self._frames[-1]
        self._frames.append(last if frame is None else frame)
        if alike >= _FAMILY:
            return _SEARCH if frame is None else _SEARCH_SYMBOLS
        if words < _TELLING_WORDS:
            return _WORD
        return _STEP if frame == last else 1.0
