"""Novelty: how much of what comes is new.

Loops of paraphrases have no period, but few sequences of three tokens that did not come shortly
before. So do tables, poems and lists, which is why this is a soft signal: a finding of level 4.
"""

from typing import Final

from .finding import Finding, Flaw, Level
from .gate import Step

_MODULUS: Final = (1 << 61) - 1
_BASE: Final = 1_000_003
_ORDER: Final = 3


class NoveltyGate:
    """Trips while fewer than `least` (a share) of the last `window` sequences of three tokens are
    new, new being: not among the `window` before it. Looks every `every` tokens. O(1) a token;
    memory O(tokens)."""

    name = "novelty"

    def __init__(self, window: int, least: float, every: int = 8) -> None:
        self._window = window
        self._least = least
        self._every = every
        self._ids: list[int] = []
        self._offsets: list[int] = []
        # Where each sequence ended last, and what was there before, by position.
        self._last: dict[int, int] = {}
        self._before: list[int | None] = []
        # How many sequences that end before a position were new.
        self._new: list[int] = [0]

    def __repr__(self) -> str:
        return f"<NoveltyGate {len(self._ids)} tokens>"

    def feed(self, step: Step) -> Finding | None:
        """Judge one more token."""
        ids, position = self._ids, len(self._ids)
        ids.append(step.token_id)
        self._offsets.append(step.offset)
        if position < _ORDER - 1:
            self._before.append(None)
            self._new.append(self._new[-1] + 1)
            return None
        key = self._key(position)
        before = self._last.get(key)
        self._last[key] = position
        self._before.append(before)
        fresh = before is None or position - before > self._window
        self._new.append(self._new[-1] + fresh)
        if (position + 1) % self._every or position < self._window:
            return None
        share = (self._new[-1] - self._new[-1 - self._window]) / self._window
        if share >= self._least:
            return None
        onset = position + 1 - self._window
        return Finding(
            gate=self.name,
            level=Level.COHERENCE,
            flaw=Flaw.LOW_NOVELTY,
            tokens=(onset, position + 1),
            chars=(self._offsets[onset], step.offset + len(step.text)),
            score=1 - share,
            threshold=1 - self._least,
            detail=f"{share:.0%} of the last {self._window} tokens bring anything new",
        )

    def truncate(self, n_tokens: int) -> None:
        """Forget every step from position `n_tokens` on."""
        while len(self._ids) > n_tokens:
            before, position = self._before.pop(), len(self._ids) - 1
            if position >= _ORDER - 1:
                key = self._key(position)
                if before is None:
                    del self._last[key]
                else:
                    self._last[key] = before
            self._ids.pop()
            self._offsets.pop()
            self._new.pop()

    def _key(self, position: int) -> int:
        ids = self._ids
        return ((ids[position - 2] * _BASE + ids[position - 1]) * _BASE + ids[position]) % _MODULUS
