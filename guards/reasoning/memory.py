"""What came before in reasoning, and when: exact memories that can be taken back."""

from operator import mul
from typing import Final

# Words of a sentence that is looked at for its form: shorter ones are alike by chance, longer ones
# are seldom said again.
_LEAST_FORM: Final = 2
_MOST_FORM: Final = 16
_PLACES: Final = tuple(pow(1_000_003, place, (1 << 61) - 1) for place in range(1, _MOST_FORM + 1))
_MARKS: Final = " .,!?:;。、，！？：；…"


class Vocabulary:
    """Which words and numbers came within a memory of so many words, or up to half as many less: of
    two generations, the older one is forgotten when the younger has come to half the memory."""

    def __init__(self, memory: int) -> None:
        self._most = max(1, memory // 2)
        self._young: set[str] = set()
        self._old: set[str] = set()
        self._count = 0
        # What each addition added to the young ones, how many there were, and the old ones that it
        # forgot, if it did.
        self._before: list[tuple[set[str], int, set[str] | None]] = []

    def add(self, items: tuple[str, ...]) -> int:
        """How many different ones of them did not come within the memory."""
        count, forgotten = self._count, None
        if count >= self._most:
            forgotten = self._old
            self._old, self._young = self._young, set()
            self._count = 0
        added = set(items) - self._young
        self._young |= added
        self._count += len(items)
        self._before.append((added, count, forgotten))
        return len(added - self._old)

    def forget(self) -> None:
        """Take the last ones back."""
        added, self._count, forgotten = self._before.pop()
        self._young -= added
        if forgotten is not None:
            self._old, self._young = forgotten, self._old


class Forms:
    """Which sentences are of one form, as `forms_of` has it, within a memory of so many tokens, or
    up to as many more: of two generations, the older one is forgotten when the younger is as old as
    the memory. A search says many of one form, a loop hardly any."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._since = 0
        self._young: dict[int, int] = {}
        self._old: dict[int, int] = {}
        # What each addition counted, when the young ones began, and the old ones that it forgot, if
        # it did.
        self._before: list[tuple[list[int], int, dict[int, int] | None]] = []

    def add(self, keys: list[int], position: int, *, new: bool) -> int:
        """How many different ones with this, at a token, has its most frequent form; a `new` one is
        counted."""
        since, forgotten = self._since, None
        if position - since >= self._memory:
            forgotten = self._old
            self._old, self._young = self._young, {}
            self._since = position
        self._before.append((keys if new else [], since, forgotten))
        young, old = self._young, self._old
        most = 0
        for key in keys:
            count = young.get(key, 0) + new
            if new:
                young[key] = count
            most = max(most, count + old.get(key, 0))
        return most

    def forget(self) -> None:
        """Take the last one back."""
        keys, self._since, forgotten = self._before.pop()
        young = self._young
        for key in keys:
            if young[key] == 1:
                del young[key]
            else:
                young[key] -= 1
        if forgotten is not None:
            self._old, self._young = forgotten, self._old


def forms_of(text: str, frame: tuple[str, ...], pieces: int) -> list[int]:
    """The forms of a sentence: its words without numbers and letters; for each of them, the others;
    and where no blanks part words, its ends. Hashes of them: where two are the same by chance, a
    sentence tells less."""
    forms = _without_one(frame)
    if frame:
        forms.append(hash((-1, frame)))
    if pieces > 1:
        forms += _without_one(tuple(text.split()))
        text = text.rstrip(_MARKS)
        if len(text) > 2 * pieces:
            forms += [
                hash((-2, text[:pieces], text[-pieces:])),
                hash((-3, text[: 2 * pieces])),
                hash((-4, text[-2 * pieces :])),
            ]
    return forms


def _without_one(words: tuple[str, ...]) -> list[int]:
    if not _LEAST_FORM <= len(words) <= _MOST_FORM:
        return []
    # The hash is a sum over words and places, of which one is left out each time.
    parts = list(map(mul, map(hash, words), _PLACES))
    total = sum(parts)
    return [total - part for part in parts]


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
