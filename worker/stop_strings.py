"""Stop strings over a text that comes in pieces, and is taken back in pieces."""

from collections.abc import Sequence
from typing import NamedTuple


class Stopped(NamedTuple):
    """How many characters at the end of a text must go, and how many of them are the stop
    string: there may be more behind it."""

    characters: int
    length: int


class StopStrings:
    """Finds the first stop string to be completed. By vLLM's rule: one that is completed by the
    first `min_tokens` tokens doesn't count; of two completed by the same token, the one that ends
    first does, then the one named first. O(longest stop string) a token."""

    def __init__(self, strings: Sequence[str], min_tokens: int = 0) -> None:
        self._strings = tuple(strings)
        self._min_tokens = min_tokens
        self.longest = max(map(len, self._strings), default=0)

    def completed(self, text: str, new: int, tokens: int) -> Stopped | None:
        """What must go at the end of `text`; None where no stop string is completed. `new`
        characters came with the last of `tokens` tokens; of what came before, `text` must have
        `longest` - 1 characters at least, if there are as many."""
        if not self._strings or not new or tokens <= self._min_tokens:
            return None
        best: tuple[int, int] | None = None
        for string in self._strings:
            start = text.find(string, max(0, len(text) - new - len(string) + 1))
            if start >= 0 and (best is None or start + len(string) < best[0]):
                best = start + len(string), start
        return None if best is None else Stopped(len(text) - best[1], best[0] - best[1])
