"""The law of gates."""

from typing import Protocol

from msgspec import Struct

from .finding import Finding


class Step(Struct, frozen=True, gc=False):
    """One accepted token. `text` is what it added to the text: nothing while a character is still
    incomplete. `position` counts tokens, `offset` characters, both from 0. `logprob` is the token's
    under the model, where the engine was asked for it."""

    token_id: int
    text: str
    position: int
    offset: int
    logprob: float | None = None


class Gate(Protocol):
    """Append-only judgement on accepted tokens.

    `feed` takes the next step and says what is wrong, if anything. `truncate(n)` leaves the gate
    exactly as it was after `n` steps. The law: feed(x), truncate(k), feed(y) finds what a fresh
    gate finds on x[:k] + y. So going back is one call, and no gate needs to know why.

    Gates only find; what is done about it is decided elsewhere. A gate that has tripped may trip
    again with each further step.
    """

    name: str

    def feed(self, step: Step) -> Finding | None:
        """Judge one more token. O(1) amortised."""
        ...

    def truncate(self, n_tokens: int) -> None:
        """Forget every step from position `n_tokens` on. O(steps forgotten)."""
        ...
