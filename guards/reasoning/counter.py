"""Loops that count: the same sentences, with a number that goes on rising."""

import re
from typing import Final

from .evidence import Evidence
from .marks import frame_of
from .reader import Sentence, Verdict

# Longer numbers are taken in parts: to turn them into integers costs more than O(n).
_NUMBER: Final = re.compile(r"\d{1,18}")
# Of fewer words is a row of a tally ("00431: yes"), which tells less.
_WORDS: Final = 2
_ROW: Final = 0.25
# So does one where several numbers move: they may be worked out from each other.
_SEVERAL: Final = 0.5
# Beside sentences that count, one of so many words that came twice counts, too.
_REPEAT: Final = 1.0
_SPOKEN: Final = 3
# Where a text came, and with which numbers.
_Told = tuple[int, tuple[int, ...]]


class CounterJudge:
    """Trips when sentences that came at least twice within the memory, but for numbers that moved
    by the same step both times, sum up to `most` tokens. One with numbers that stayed adds nothing;
    one without any that came twice adds to what is there; any other takes its length away. Numbers
    that move unevenly are worked out: they end all suspicion."""

    def __init__(self, most: int, memory: int) -> None:
        self._most = most
        self._memory = memory
        # By the text without its numbers, where it came last and last but one, and with which.
        self._last: dict[str, tuple[_Told, _Told | None]] = {}
        self._before: list[tuple[str, tuple[_Told, _Told | None] | None] | None] = []
        self._sum = Evidence()

    def read(self, sentence: Sentence) -> Verdict | None:
        """Judge one more."""
        start = sentence.start
        numbers = tuple(map(int, _NUMBER.findall(sentence.text))) if sentence.symbolic else ()
        back = 0
        if numbers:
            weight, back = self._moved(_NUMBER.sub("0", sentence.text), numbers, start)
            if weight is None:
                self._sum.clear(start)
                return None
            if weight > 0 and len(frame_of(sentence.items)) < _WORDS:
                weight = _ROW
        else:
            weight = self._repeated(sentence)
            self._before.append(None)
        score = self._sum.add(weight * sentence.size, start, start - back if back else None)
        if weight <= 0 or score < self._most:
            return None
        return Verdict(
            onset=self._sum.reach,
            score=score,
            threshold=self._most,
            detail="sentences came for the third time and more, with a number that counts",
        )

    def forget(self) -> None:
        """Take the last one back."""
        self._sum.forget()
        undo = self._before.pop()
        if undo is None:
            return
        form, earlier = undo
        if earlier is None:
            del self._last[form]
        else:
            self._last[form] = earlier

    def _repeated(self, sentence: Sentence) -> float:
        if sentence.told[0] < 2:
            return -1.0
        spoken = not sentence.symbolic and len(sentence.items) >= _SPOKEN * sentence.pieces
        return _REPEAT if spoken and self._sum.score else 0.0

    def _moved(self, form: str, numbers: tuple[int, ...], start: int) -> tuple[float | None, int]:
        """What it tells how the numbers of a form moved, None if unevenly; and, if they did evenly,
        how far back the last is."""
        earlier = self._last.get(form)
        self._before.append((form, earlier))
        self._last[form] = ((start, numbers), earlier[0] if earlier else None)
        if earlier is None:
            return -1.0, 0
        (last, two), last_but_one = earlier
        if last_but_one is None or start - last_but_one[0] > self._memory:
            return -1.0, 0
        one = last_but_one[1]
        steps = [b - a for a, b in zip(two, numbers, strict=True)]
        if steps != [b - a for a, b in zip(one, two, strict=True)]:
            return None, 0
        moved = [step for step in steps if step]
        if not moved:
            return 0.0, 0
        if len(set(moved)) > 1:
            return None, 0
        return (1.0 if len(moved) == 1 else _SEVERAL), start - last
