"""Token ids as they arrive: in range, not denied, and not silent for long.

The engine is kept from sampling a denied id by a mask; this gate is for engines without it, and for
the day it fails. The same strings typed as text have other ids, so ids are the place to look.
"""

from collections.abc import Container
from typing import Final

from .finding import Finding, Flaw, Level
from .gate import Step

# An incomplete character takes three tokens at most; a few special tokens may stand side by side.
SILENT_TOKENS: Final = 8


class TokenGate:
    """Trips on an id that is none of the `vocabulary_size` first, on a denied one, and on
    `silent_tokens` in a row that brought no text (0: never). Memory O(tokens)."""

    name = "tokens"

    def __init__(
        self,
        vocabulary_size: int,
        denied: Container[int] = frozenset(),
        silent_tokens: int = SILENT_TOKENS,
    ) -> None:
        self._size = vocabulary_size
        self._denied = denied
        self._limit = silent_tokens
        self._tokens = 0
        # Position of each token that brought text; what follows the last was silent.
        self._spoke: list[int] = []

    def __repr__(self) -> str:
        return f"<TokenGate {self._tokens} tokens, {self._silence()} silent>"

    def feed(self, step: Step) -> Finding | None:
        """Judge one more token."""
        self._tokens += 1
        token_id = step.token_id
        if step.text:
            self._spoke.append(step.position)
        if not 0 <= token_id < self._size:
            return self._finding(step, Flaw.ID_OUT_OF_RANGE, f"id {token_id} of {self._size}")
        if token_id in self._denied:
            return self._finding(step, Flaw.DENIED_TOKEN, f"id {token_id}")
        silence = 0 if step.text else self._silence()
        if not 0 < self._limit <= silence:
            return None
        return Finding(
            gate=self.name,
            level=Level.TOKEN,
            flaw=Flaw.SILENT_TOKENS,
            tokens=(self._tokens - silence, self._tokens),
            chars=(step.offset, step.offset),
            score=silence,
            threshold=self._limit,
            detail=f"no text from {silence} tokens",
        )

    def truncate(self, n_tokens: int) -> None:
        """Forget every step from position `n_tokens` on."""
        self._tokens = min(self._tokens, n_tokens)
        while self._spoke and self._spoke[-1] >= n_tokens:
            self._spoke.pop()

    def _silence(self) -> int:
        return self._tokens - (self._spoke[-1] + 1 if self._spoke else 0)

    def _finding(self, step: Step, flaw: Flaw, detail: str) -> Finding:
        return Finding(
            gate=self.name,
            level=Level.TOKEN,
            flaw=flaw,
            tokens=(step.position, step.position + 1),
            chars=(step.offset, step.offset + len(step.text)),
            score=1,
            threshold=1,
            detail=detail,
        )
