"""What is said again and again: judges of sentences.

All go by one measure: how many tokens bring nothing, where what brings something takes away from
the sum. Twice is not yet again: code is drafted a second time, a task is read once more. So the sum
begins with what comes the third time. What should go begins earlier, with the second copy: a second
sum follows where things began to be said again.

The weights were set on labelled traces in ten languages, each of them well away from where the
result changes; what was measured is in `profiles.toml`.
"""

from typing import Final

from .evidence import Evidence, onset_of
from .marks import signs_of
from .memory import Told
from .reader import Sentence, Verdict

# How much of the sum a token takes away: of a sentence that came once before; of a new one without
# a new word, which may yet be the step of a proof, the more if it has numbers or formulas; and of
# one with a new word or number.
_TOLD_ONCE: Final = 0.25
_NEW_TEXT: Final = 1.0
_NEW_SYMBOLS: Final = 1.0
_NEW_ITEM: Final = 4.0
# So many new words and numbers end all suspicion: no sentence of a loop has them.
_PROGRESS: Final = 2
# What is said again has an end where so many times more is new.
_ONSET: Final = 2.0
# Shorter lines are no paragraphs; the other judges read them.
_PARAGRAPH_ITEMS: Final = 8
# Words of a sequence. With fewer, a truth table in words is made of old ones: it has all values of
# four variables in twelve.
_ORDER: Final = 12
_MOST_ORDER: Final = 4 * _ORDER
# What a new sequence takes away: three quarters of them must be old. And what old ones with numbers
# count: a search goes back, and tries with others what it tried before.
_NGRAMS: Final = 3.0
_SYMBOLS: Final = 0.5
# What a new sentence without a new word counts that opens like others. Little: a puzzle with five
# names and five houses is made of such.
_PARAPHRASE: Final = 0.05
# And what a new word takes away there.
_NEW_IN_OPENING: Final = 2.0


class SentenceJudge:
    """Trips when sentences that came twice before, in whatever order, sum up to `most` tokens."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sum = Evidence()
        self._again = Evidence()

    def read(self, sentence: Sentence) -> Verdict | None:
        """Judge one more."""
        times, back, distance = sentence.told
        length = sentence.size
        self._again.add(length if times else -_ONSET * length, sentence.start)
        if not times and sentence.fresh >= _PROGRESS:
            self._sum.clear(sentence.start)
            return None
        if times:
            weight = -_TOLD_ONCE * length
            if times > 1:
                weight = length * nearness(self._most, sentence.sized(distance)) * sentence.telling
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
        self._sum.forget()
        self._again.forget()


def nearness(most: int, distance: float) -> float:
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
        # The paragraph so far: its sentences, first token, number of words, size, and most telling.
        self._parts: list[str] = []
        self._start = 0
        self._items = 0
        self._size = 0.0
        self._telling = 0.0
        # What it was before each sentence; the longer ones are of a sentence that ended one.
        self._undo: list[tuple[list[str], int, int, float, float] | tuple[int, float, float]] = []

    def read(self, sentence: Sentence) -> Verdict | None:
        """Judge one more sentence; a verdict comes with the last of a paragraph."""
        if not self._parts:
            self._start = sentence.start
        items, size, telling = self._items, self._size, self._telling
        self._parts.append(sentence.text)
        self._items = items + len(sentence.items)
        self._size = size + sentence.size
        self._telling = max(telling, sentence.telling)
        if not sentence.ends_line:
            self._undo.append((items, size, telling))
            return None
        parts, start = self._parts, self._start
        self._undo.append((parts, start, items, size, telling))
        length, most_telling = self._size, self._telling
        self._parts, self._items, self._size, self._telling = [], 0, 0.0, 0.0
        if items + len(sentence.items) < _PARAGRAPH_ITEMS:
            self._told.add("", start)
            times, back, weight = 1, 0, 0.0
        else:
            times, back, distance = self._told.add(" ".join(parts), start)
            weight = (-1.0, 0.0, nearness(self._most, sentence.sized(distance)) * most_telling)[
                times
            ] * length
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
        if len(undo) == 3:
            self._items, self._size, self._telling = undo
            self._parts.pop()
            return
        self._parts, self._start, self._items, self._size, self._telling = undo
        self._parts.pop()
        self._told.forget()
        self._sum.forget()
        self._again.forget()


class NgramJudge:
    """Trips when sequences of twelve words that came twice within the last `window` tokens, less
    three for each new one, sum up to `most` tokens. Where no blanks part the words, it is as many
    pieces as twelve words have. Half of the sequences are looked at, for the sake of time: which,
    their last letter says, so that it is the same ones in each copy."""

    def __init__(self, most: int, window: int) -> None:
        self._most = most
        self._window = window
        # By the hash of a sequence, where it came last, and last but one.
        self._last: dict[int, tuple[int, int]] = {}
        self._before: list[tuple[list[int], list[tuple[int, int] | None], tuple[str, ...]]] = []
        self._ending: tuple[str, ...] = ("",) * _MOST_ORDER
        self._sum = Evidence()
        self._again = Evidence()

    def read(self, sentence: Sentence) -> Verdict | None:
        """Judge one more."""
        ending = self._ending
        signs = sentence.symbolic and sentence.pieces == 1
        words = ending + (signs_of(sentence.text) if signs else sentence.items)
        order = _ORDER * sentence.pieces
        keys = [
            hash(words[at + 1 - order : at + 1])
            for at in range(_MOST_ORDER, len(words))
            if ord(words[at][-1]) & 1
        ]
        start, last = sentence.start, self._last
        before = list(map(last.get, keys))
        self._before.append((keys, before, ending))
        self._ending = words[-_MOST_ORDER:]
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
        number, length = max(len(keys), 1), sentence.size
        self._again.add(length * (told - _NGRAMS * (number - told)) / number, start)
        if sentence.fresh >= _PROGRESS:
            self._sum.clear(start)
            return None
        if sentence.fresh or (sentence.symbolic and told < number):
            weight = -_NGRAMS
        else:
            near = nearness(self._most, sentence.sized(distance) / max(again, 1)) * sentence.telling
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


class OpeningJudge:
    """Trips when sentences that open like others and say nothing new sum up to `most` tokens.

    Two openings are alike if two of their first three words are the same, in the same order. A
    sentence says nothing new if each of its words and numbers came before; it counts in full if it
    came as it is, and for `_PARAPHRASE` if it is put in other words.
    """

    def __init__(self, most: int, window: int) -> None:
        self._most = most
        self._window = window
        self._last: dict[tuple[str, str], tuple[int, int]] = {}
        self._before: list[
            tuple[dict[tuple[str, str], tuple[int, int]], list[tuple[int, int] | None]] | None
        ] = []
        self._sum = Evidence()

    def read(self, sentence: Sentence) -> Verdict | None:
        """Judge one more."""
        start, length = sentence.start, sentence.size
        times, back, distance = sentence.told
        # Those with a new word are let be, however they open.
        if times or not sentence.fresh:
            alike = self._opens_alike(sentence.items, start)
        else:
            alike = False
            self._before.append(None)
        if times:
            weight = -_TOLD_ONCE
            if times > 1:
                weight = nearness(self._most, sentence.sized(distance)) * sentence.telling
        elif sentence.fresh:
            weight = -_NEW_IN_OPENING * sentence.fresh
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
        self._sum.forget()
        undo = self._before.pop()
        if undo is None:
            return
        for pair, earlier in zip(*undo, strict=True):
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
