"""What came before in reasoning, and when: exact memories that can be taken back."""


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
