"""What is said again and again: judges of sentences.

All go by one measure: how many tokens in a row bring nothing, where what brings something takes
away from the sum. Twice is not yet again: code is drafted a second time, a task is read once more.
So what came once before counts neither way, and the sum begins with what comes the third time. What
should go begins earlier, with the second copy: a second sum follows where things began to be said
again.
"""

from typing import Final

from .evidence import Evidence, onset_of
from .reader import Sentence, Verdict

# How much of the sum is taken away by a token of a sentence with no new word, which yet is new: for
# it may be a step of a proof; and by one with a new word or number.
_TOLD_ONCE: Final = 0.25
_NEW_TEXT: Final = 0.5
_NEW_SYMBOLS: Final = 1.0
_NEW_ITEM: Final = 4.0
# New words and numbers that end all suspicion. No loop has them.
_PROGRESS: Final = 2
# A passage that is said again ends where so much more is new than is said again.
_ONSET: Final = 2.0
_PARAGRAPH_ITEMS: Final = 8


class Told:
    """Where each text came, the last two times, in tokens."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._last: dict[str, tuple[int, int]] = {}
        self._before: list[tuple[str, tuple[int, int] | None]] = []

    def add(self, text: str, position: int) -> tuple[int, int, int]:
        """How often it came within the memory before: 0, 1, or 2 for more; and for 2 how far back
        the last is, and how far the last but one."""
        earlier = self._last.get(text)
        self._before.append((text, earlier))
        if earlier is None:
            self._last[text] = (-1, position)
            return 0, 0, 0
        oldest = position - self._memory
        self._last[text] = (earlier[1], position)
        if earlier[0] >= max(oldest, 0):
            return 2, position - earlier[1], position - earlier[0]
        return int(earlier[1] >= oldest), 0, 0

    def forget(self) -> None:
        """Take the last one back."""
        text, earlier = self._before.pop()
        if earlier is None:
            del self._last[text]
        else:
            self._last[text] = earlier


class SentenceJudge:
    """Trips when sentences that came twice before, in whatever order, sum up to `most` tokens."""

    def __init__(self, most: int, memory: int) -> None:
        self._most = most
        self._told = Told(memory)
        self._sum = Evidence()
        self._again = Evidence()

    def read(self, sentence: Sentence) -> Verdict | None:
        """Judge one more."""
        times, back, distance = self._told.add(sentence.text, sentence.start)
        length = sentence.tokens
        self._again.add(length if times else -_ONSET * length, sentence.start)
        if not times and sentence.fresh >= _PROGRESS:
            self._sum.clear(sentence.start)
            return None
        if times:
            weight = length * (nearness(self._most, distance) if times > 1 else -_TOLD_ONCE)
        elif sentence.fresh:
            weight = -_NEW_ITEM * length
        else:
            weight = -(_NEW_SYMBOLS if sentence.symbolic else _NEW_TEXT) * length
        score = self._sum.add(weight, sentence.start, sentence.start - back if back else None)
        if weight <= 0 or score < self._most:
            return None
        return Verdict(
            onset=onset_of(self._sum, self._again),
            score=score,
            threshold=self._most,
            detail="sentences came for the third time and more",
        )

    def forget(self) -> None:
        """Take the last one back."""
        self._told.forget()
        self._sum.forget()
        self._again.forget()


def nearness(most: int, distance: int) -> float:
    """How much something counts whose last copy but one is so far back. Up to two units of `most`
    in full; beyond it less, so that of longer units, too, a whole third copy is what it takes. A
    search that goes back says the same as long ago, but not all of it."""
    return min(1.0, 2.0 * most / distance) if distance else 1.0


class ParagraphJudge:
    """Trips when lines of some length that came twice before sum up to `most` tokens."""

    def __init__(self, most: int, memory: int) -> None:
        self._most = most
        self._told = Told(memory)
        self._sum = Evidence()
        self._again = Evidence()
        # What each sentence changed: the paragraph so far before it, and whether it ended one.
        self._parts: list[str] = []
        self._start = 0
        self._items = 0
        self._undo: list[tuple[list[str], int, int] | tuple[int]] = []

    def read(self, sentence: Sentence) -> Verdict | None:
        """Judge one more sentence; a verdict comes with the last of a paragraph."""
        if not self._parts:
            self._start = sentence.start
        items = self._items
        self._parts.append(sentence.text)
        self._items = items + len(sentence.items)
        if not sentence.ends_line:
            self._undo.append((items,))
            return None
        parts, start = self._parts, self._start
        self._undo.append((parts, start, items))
        self._parts, self._items = [], 0
        length = sentence.end - start
        if items + len(sentence.items) < _PARAGRAPH_ITEMS:
            self._told.add("", start)
            times, back, weight = 1, 0, 0.0
        else:
            times, back, _ = self._told.add(" ".join(parts), start)
            weight = (-1.0 * length, 0.0, 1.0 * length)[times]
        self._again.add(length * (1 if times else -_ONSET), start)
        score = self._sum.add(weight, start, start - back if back else None)
        if weight <= 0 or score < self._most:
            return None
        return Verdict(
            onset=onset_of(self._sum, self._again),
            score=score,
            threshold=self._most,
            detail="paragraphs came for the third time and more",
        )

    def forget(self) -> None:
        """Take the last sentence back."""
        undo = self._undo.pop()
        if len(undo) == 1:
            (self._items,) = undo
            self._parts.pop()
            return
        self._parts, self._start, self._items = undo
        self._parts.pop()
        self._told.forget()
        self._sum.forget()
        self._again.forget()


class NgramJudge:
    """Trips when sequences of three words that came twice within the last `window` tokens, less
    three for each new one, sum up to `most` tokens."""

    def __init__(self, most: int, window: int) -> None:
        self._most = most
        self._window = window
        self._last: dict[tuple[str, str, str], tuple[int, int]] = {}
        self._before: list[
            tuple[tuple[tuple[str, str, str], ...], list[tuple[int, int] | None], tuple[str, ...]]
        ] = []
        self._ending: tuple[str, ...] = ("", "")
        self._sum = Evidence()
        self._again = Evidence()

    def read(self, sentence: Sentence) -> Verdict | None:
        """Judge one more."""
        ending = self._ending
        words = ending + sentence.items
        keys = tuple(zip(words, words[1:], words[2:], strict=False))
        start, last = sentence.start, self._last
        before = list(map(last.get, keys))
        self._before.append((keys, before, ending))
        self._ending = words[-2:]
        first, oldest = (-1, start), max(0, start - self._window)
        told = again = distance = 0
        reference: int | None = None
        for key, earlier in zip(keys, before, strict=True):
            if earlier is None:
                last[key] = first
                continue
            last_but_one, latest = earlier
            last[key] = (latest, start)
            if latest >= oldest:
                told += 1
                if last_but_one >= oldest:
                    again += 1
                    distance += start - last_but_one
                    reference = latest
        number, length = max(len(keys), 1), sentence.tokens
        self._again.add(length * (told - _NGRAMS * (number - told)) / number, start)
        if sentence.fresh >= _PROGRESS:
            self._sum.clear(start)
            return None
        if sentence.fresh or (sentence.symbolic and told < number):
            weight = -_NGRAMS
        else:
            near = nearness(self._most, distance // max(again, 1))
            if sentence.symbolic:
                near *= _SYMBOLS
            weight = (again * near - _NGRAMS * (number - told)) / number
        score = self._sum.add(weight * length, start, reference if weight > 0 else None)
        if weight <= 0 or score < self._most:
            return None
        return Verdict(
            onset=onset_of(self._sum, self._again),
            score=score,
            threshold=self._most,
            detail="the same words came in the same order for the third time and more",
        )

    def forget(self) -> None:
        """Take the last one back."""
        keys, before, self._ending = self._before.pop()
        for key, earlier in zip(keys, before, strict=True):
            if earlier is None:
                self._last.pop(key, None)
            else:
                self._last[key] = earlier
        self._sum.forget()
        self._again.forget()


# What a new sequence takes away: three quarters of them must be old. And what old ones with numbers
# count: a search goes back, and tries with others what it tried before.
_NGRAMS: Final = 3.0
_SYMBOLS: Final = 0.5


class OpeningJudge:
    """Trips when sentences that open like others and say nothing new sum up to `most` tokens.

    Two openings are alike if two of their first three words are the same, in the same order. A
    sentence says nothing new if each of its words and numbers came before; it counts in full if it
    came as it is, and for `_PARAPHRASE` if it is put in other words.
    """

    def __init__(self, most: int, memory: int, window: int) -> None:
        self._most = most
        self._told = Told(memory)
        self._window = window
        self._last: dict[tuple[str, str], tuple[int, int]] = {}
        self._before: list[
            tuple[dict[tuple[str, str], tuple[int, int]], list[tuple[int, int] | None]]
        ] = []
        self._sum = Evidence()

    def read(self, sentence: Sentence) -> Verdict | None:
        """Judge one more."""
        start, length = sentence.start, sentence.tokens
        times, back, distance = self._told.add(sentence.text, start)
        alike = self._opens_alike(sentence.items, start)
        if times:
            weight = nearness(self._most, distance) if times > 1 else -_TOLD_ONCE
        elif sentence.fresh:
            weight = -2.0 * sentence.fresh
        elif sentence.symbolic:
            weight = -1.0
        elif alike:
            weight = _PARAPHRASE
        else:
            weight = -_PARAPHRASE
        score = self._sum.add(weight * length, start, start - back if back else None)
        if weight <= 0 or score < self._most:
            return None
        return Verdict(
            onset=self._sum.reach,
            score=score,
            threshold=self._most,
            detail="sentences open alike and say nothing new",
        )

    def forget(self) -> None:
        """Take the last one back."""
        self._told.forget()
        self._sum.forget()
        now, before = self._before.pop()
        for pair, earlier in zip(now, before, strict=True):
            if earlier is None:
                del self._last[pair]
            else:
                self._last[pair] = earlier

    def _opens_alike(self, items: tuple[str, ...], start: int) -> bool:
        """Whether two sentences within the window opened like this."""
        one, two, three = items[:3] if len(items) > 2 else (*items, "", "", "")[:3]
        last = self._last
        now: dict[tuple[str, str], tuple[int, int]] = {}
        before: list[tuple[int, int] | None] = []
        oldest = max(0, start - self._window)
        alike = False
        for pair in {(one, two): 0, (one, three): 0, (two, three): 0}:
            earlier = last.get(pair)
            before.append(earlier)
            now[pair] = (-1 if earlier is None else earlier[1], start)
            if earlier is not None and earlier[0] >= oldest:
                alike = True
        last.update(now)
        self._before.append((now, before))
        return alike


_PARAPHRASE: Final = 0.5
