"""The accepted tokens of an attempt and the text they make. One detokenizer rules it all."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable

from ..guards.gate import Step
from .engine import Detokenizer
from .stop_strings import StopStrings


class Transcript:
    """Grows token by token and can be cut back. Memory O(tokens); a cut costs O(tokens kept), for
    a detokenizer can't be turned back, only fed anew."""

    def __init__(
        self,
        fresh: Callable[[], Detokenizer],
        stop: StopStrings,
        *,
        stop_ids: tuple[int, ...] = (),
        lead: str = "",
    ) -> None:
        """`stop_ids`: a sequence of tokens that ends the text as a stop string does. `lead`: what
        stands before the first token, of one that is half something else."""
        self._fresh = fresh
        self._detokenizer = fresh()
        self._stop = stop
        self._stop_ids = stop_ids
        self._lead = lead
        self.tokens: list[int] = []
        self._pieces: list[str] = []
        # Characters before each token, and in all.
        self._offsets: list[int] = [len(lead)]
        # Where a stop string ends the text, and begins what is behind it, in characters.
        self._end: int | None = None
        self._behind: int | None = None
        self._look_for_stop(lead, len(lead))

    def __repr__(self) -> str:
        return f"<Transcript {len(self.tokens)} tokens, {self.characters} characters>"

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def lead(self) -> str:
        """What stands before the first token."""
        return self._lead

    @property
    def characters(self) -> int:
        """Length of the text, a stop string not counted."""
        return self._offsets[-1] if self._end is None else self._end

    @property
    def stopped(self) -> bool:
        """Whether a stop string has ended the text."""
        return self._end is not None

    @property
    def stop_string(self) -> str | None:
        """The stop string that has ended the text."""
        if self._end is None or self._behind is None:
            return None
        return self._whole()[self._end : self._behind]

    @property
    def undecided(self) -> int:
        """From which character on the text may yet turn out to be a stop string."""
        if self._end is not None:
            return self._end
        by_ids = self._offsets[max(0, len(self.tokens) + 1 - max(1, len(self._stop_ids)))]
        return min(by_ids, self._offsets[-1] - max(0, self._stop.longest - 1))

    @property
    def kept(self) -> int:
        """How many tokens the text has, those that are wholly of a stop string not counted."""
        if self._end is None:
            return len(self.tokens)
        if self._stop_ids:
            return len(self.tokens) - len(self._stop_ids)
        return min(bisect_left(self._offsets, self._end), len(self.tokens))

    def whole_before(self, character: int) -> int:
        """How many tokens are wholly before a character of the text."""
        return max(0, bisect_right(self._offsets, character) - 1)

    @property
    def rest(self) -> str:
        """What the last token brought behind the stop string."""
        return "" if self._behind is None else self._whole()[self._behind :]

    @property
    def text(self) -> str:
        """The text, without the stop string that ended it."""
        return self._whole()[: self.characters]

    def _whole(self) -> str:
        return self._lead + "".join(self._pieces)

    @property
    def pending(self) -> int:
        """How many tokens at the end have brought no text."""
        silent = 0
        for piece in reversed(self._pieces):
            if piece:
                break
            silent += 1
        return silent

    def add(self, token_id: int, logprob: float | None = None) -> Step:
        """Accept a token. The step is what gates are fed."""
        piece = self._detokenizer.step(token_id)
        step = Step(token_id, piece, len(self.tokens), self._offsets[-1], logprob)
        self.tokens.append(token_id)
        self._pieces.append(piece)
        self._offsets.append(self._offsets[-1] + len(piece))
        if piece and self._stop.longest:
            tail = self.slice(max(0, step.offset - self._stop.longest + 1), self._offsets[-1])
            self._look_for_stop(tail, len(piece))
        size = len(self._stop_ids)
        if size and self.tokens[-size:] == list(self._stop_ids):
            self._end = self._offsets[-1 - size]
        return step

    def _look_for_stop(self, tail: str, new: int) -> None:
        """`tail`: the end of the text, of which `new` characters have just come. What stands behind
        a stop string is no text, so the first one counts."""
        if self._end is None and (
            gone := self._stop.completed(tail, new, max(1, len(self.tokens)))
        ):
            self._end = self._offsets[-1] - gone.characters
            self._behind = self._end + gone.length

    def is_whole(self, n_tokens: int) -> bool:
        """Whether the text of the first `n_tokens` tokens ends with a whole character. After a
        token without text it is taken not to."""
        return n_tokens == 0 or bool(self._pieces[n_tokens - 1])

    def offset(self, n_tokens: int) -> int:
        """How many characters the first `n_tokens` tokens make."""
        return self._offsets[n_tokens]

    def slice(self, start: int, end: int) -> str:
        """Characters from `start` to `end`, counted in the whole text. O(characters), if near the
        end of the text."""
        first = len(self._pieces)
        while first > 0 and self._offsets[first] > start:
            first -= 1
        if start < self._offsets[0]:
            return self._whole()[start:end]
        last = first
        parts: list[str] = []
        while last < len(self._pieces) and self._offsets[last] < end:
            parts.append(self._pieces[last])
            last += 1
        return "".join(parts)[start - self._offsets[first] : end - self._offsets[first]]

    def truncate(self, n_tokens: int) -> None:
        """Keep the first `n_tokens` tokens."""
        if n_tokens >= len(self.tokens):
            return
        del self.tokens[n_tokens:], self._pieces[n_tokens:], self._offsets[n_tokens + 1 :]
        self._end = self._behind = None
        self._detokenizer = self._fresh()
        for token in self.tokens:
            self._detokenizer.step(token)
