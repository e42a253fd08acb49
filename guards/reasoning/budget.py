"""The budget of reasoning, in tokens."""

from typing import Final

from msgspec import Struct

from ..finding import Finding, Flaw, Level
from ..gate import Step

# Tokens between two looks at what is new, for many at a time cost less.
_EVERY: Final = 8
# A trigram is a number of three times so many bits; larger ids run into each other.
_BITS: Final = 20
_MASK: Final = (1 << 3 * _BITS) - 1


class StaleRule(Struct, frozen=True, kw_only=True):
    """While fewer than `least` (a share) of the last `window` token trigrams are new, a token of
    the second half of the budget costs `cost`, until that has taken `share` of it all."""

    window: int
    least: float
    cost: float
    share: float


class BudgetGate:
    """Trips on the token behind the `cap`th, and earlier where little of what comes is new.

    Tokens are counted, exactly: no more than `cap` ever stay, and as long as what comes is new, as
    many do. New is a sequence of three tokens that is not among the `window` before it; numbers
    are taken for new, as some tokenizers have a token per digit. Memory O(tokens).
    """

    name = "reasoning_budget"

    def __init__(self, cap: int, stale: StaleRule | None = None) -> None:
        self._cap = cap
        self._limit = cap
        self._stale = stale
        self._most = int(cap * stale.share) if stale else 0
        self._blocks = stale.window // _EVERY if stale else 0
        # What comes before the second half is not looked at.
        self._first = cap // 2 // _EVERY * _EVERY
        self._steps: list[Step] = []
        # Where each trigram ended last, and by position which it was and what was there before.
        self._last: dict[int, int] = {}
        self._keys: list[int] = [0]
        self._before: list[int | None] = []
        # How many trigrams were new until a look, and what staleness has cost.
        self._new: list[int] = [0]
        self._lost: list[float] = [0.0]

    def __repr__(self) -> str:
        return f"<BudgetGate {len(self._steps)} of {self._limit} tokens>"

    def feed(self, step: Step) -> Finding | None:
        """Judge one more token."""
        position = len(self._steps)
        self._steps.append(step)
        if position % _EVERY == _EVERY - 1 and position >= self._first and self._stale is not None:
            self._look(self._stale)
        if position < self._limit:
            return None
        detail = ""
        if position < self._cap:
            detail = f"little was new for long: {self._cap} tokens became {self._limit}"
        return Finding(
            gate=self.name,
            level=Level.REASONING,
            flaw=Flaw.REASONING_CAP,
            tokens=(position, position + 1),
            chars=(step.offset, step.offset + len(step.text)),
            score=position + 1,
            threshold=self._limit,
            detail=detail,
        )

    def truncate(self, n_tokens: int) -> None:
        """Forget every step from position `n_tokens` on."""
        del self._steps[n_tokens:]
        looked_at = max(0, len(self._steps) // _EVERY * _EVERY - self._first)
        while len(self._before) > looked_at:
            key, earlier = self._keys.pop(), self._before.pop()
            if earlier is None:
                del self._last[key]
            else:
                self._last[key] = earlier
        del self._new[looked_at // _EVERY + 1 :]
        del self._lost[looked_at // _EVERY + 1 :]
        self._limit = self._cap - int(self._lost[-1])

    def _look(self, stale: StaleRule) -> None:
        last, keys, before = self._last, self._keys, self._before
        position, new = self._first + len(before), 0
        key = keys[-1]
        for step in self._steps[position:]:
            key = (key << _BITS & _MASK) + step.token_id
            earlier = last.get(key)
            if earlier is None or position - earlier > stale.window or step.text[-1:].isdecimal():
                new += 1
            last[key] = position
            keys.append(key)
            before.append(earlier)
            position += 1
        self._new.append(self._new[-1] + new)
        lost = self._lost[-1]
        blocks = self._blocks
        if len(self._new) > blocks:
            share = (self._new[-1] - self._new[-1 - blocks]) / (blocks * _EVERY)
            if share < stale.least:
                lost = min(self._most, lost + _EVERY * (stale.cost - 1))
        self._lost.append(lost)
        self._limit = self._cap - int(lost)
