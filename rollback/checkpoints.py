"""Checkpoints: places in the accepted tokens that a rollback can go back to."""

from bisect import bisect_right
from typing import Final

from msgspec import Struct

from ..schemas import Sampling

_SHORT: Final = 64  # tokens
_LONG: Final = 512
_VERY_LONG: Final = 4096


class Checkpoint(Struct, frozen=True, kw_only=True):
    """The state after `tokens` accepted tokens and `characters` of text: the parameters that the
    running segment had, and the path of seeds that led here (one for each segment so far)."""

    tokens: int
    characters: int
    parameters: Sampling
    seed_path: tuple[int, ...]


class CheckpointStack:
    """One checkpoint every `interval` tokens, where the text is whole; the prompt always is one.

    The law of gates holds here, too: after `truncate(k)` the stack is as it was when the token
    number k had been offered, whatever came after it.

    Parameters and seed paths are shared, never copied. Besides the checkpoints there is one byte a
    token, which says whether the text was whole behind it, so that `cut` can answer for places
    between checkpoints.
    """

    def __init__(
        self, interval: int, parameters: Sampling, seed_path: tuple[int, ...] = ()
    ) -> None:
        """`parameters` and `seed_path`: the first segment's. ValueError for an interval below 1."""
        if interval < 1:
            raise ValueError(f"a checkpoint every {interval} tokens: must be at least 1")
        self.interval = interval
        start = Checkpoint(tokens=0, characters=0, parameters=parameters, seed_path=seed_path)
        self._stack = [start]
        self._places = [0]
        self._whole = bytearray(b"\x01")

    def __len__(self) -> int:
        return len(self._stack)

    def __repr__(self) -> str:
        return f"<CheckpointStack {len(self)} over {self.tokens} tokens, every {self.interval}>"

    @property
    def tokens(self) -> int:
        """How many tokens were offered and not forgotten."""
        return len(self._whole) - 1

    def offer(
        self,
        tokens: int,
        characters: int,
        parameters: Sampling,
        seed_path: tuple[int, ...],
        whole: bool,
    ) -> None:
        """Say that a token was accepted, with the counts after it; for each one, in order. `whole`:
        no half character is pending. O(1). ValueError where a token was left out or given twice."""
        if tokens != len(self._whole):
            raise ValueError(f"token {tokens} offered after {self.tokens}: each one, in order")
        self._whole.append(whole)
        if whole and tokens - self._places[-1] >= self.interval:
            self._places.append(tokens)
            self._stack.append(
                Checkpoint(
                    tokens=tokens,
                    characters=characters,
                    parameters=parameters,
                    seed_path=seed_path,
                )
            )

    def at_or_before(self, tokens: int) -> Checkpoint:
        """The last checkpoint with at most so many tokens; the prompt where there is no other."""
        return self._stack[max(bisect_right(self._places, tokens) - 1, 0)]

    def before(self, checkpoint: Checkpoint) -> Checkpoint:
        """The one below a checkpoint; below the prompt there is only the prompt."""
        return self.at_or_before(checkpoint.tokens - 1)

    def cut(self, tokens: int) -> int:
        """Where to cut so that at most `tokens` stay and no half character is left behind: the
        nearest whole place at or before. At most 3 tokens lower, a character's missing part, unless
        tokens that are no text at all stand there. 0 always is whole."""
        return self._whole.rindex(1, 0, min(max(tokens, 0), self.tokens) + 1)

    def truncate(self, tokens: int) -> None:
        """Forget every token and checkpoint behind the first `tokens`. O(what is forgotten)."""
        keep = max(tokens, 0)
        while self._places[-1] > keep:
            self._places.pop()
            self._stack.pop()
        del self._whole[keep + 1 :]


def checkpoint_interval(expected_tokens: int, configured: int = 0) -> int:
    """Tokens between checkpoints: `configured` if set, else 3, 5, 8 or 10 by the expected length.

    A short answer has few places to go back to, so they lie close; in a long one a few tokens more
    to generate again are nothing.
    """
    if configured > 0:
        return configured
    if expected_tokens <= _SHORT:
        return 3
    if expected_tokens <= _LONG:
        return 5
    return 8 if expected_tokens <= _VERY_LONG else 10
