"""Exact loops: token ids that come round with a fixed period.

What counts is how much a loop covers, not how often it comes round: a table rule of four equal
cells is legitimate, six copies over a hundred tokens are not. The default rules are those of the
measurement in `docs/evaluation.md`.

Finding the period costs O(1) a token, however long the output. Whenever no period is being
followed, the last few tokens are looked up in a table of where they stood before; the distance is
the candidate. A candidate is followed for as long as each token equals the one a period earlier. A
wrong candidate breaks within one turn of the loop and is replaced; the right one never breaks.
Long contexts are looked up before short ones, for they are seldom wrong.
"""

from typing import Final

from msgspec import Struct

from .finding import Finding, Flaw, Level
from .gate import Step

# Contexts to look up, in tokens. Rolling hashes, so their length is free. Modulo a power of two,
# the cheapest: where two contexts have the same, a wrong candidate is followed for a turn. Before a
# finding the context, too, is compared.
_LONG: Final = 16
_SHORT: Final = 4
# From here on a repetition may become a loop: shorter ones are phrases.
_SUSPICIOUS: Final = 16
_BASE: Final = 1_000_003
_MASK: Final = (1 << 60) - 1
_LONG_POWER: Final = _BASE**_LONG & _MASK
_SHORT_POWER: Final = _BASE**_SHORT & _MASK


class LoopRule(Struct, frozen=True, kw_only=True):
    """A loop is at least this many copies of a unit of at most `max_period` tokens, and covers at
    least so many tokens and characters. 0 copies or tokens are no rule."""

    max_period: int
    min_copies: int
    min_tokens: int
    min_chars: int


SHORT_UNITS: Final = LoopRule(max_period=256, min_copies=6, min_tokens=96, min_chars=100)
LONG_UNITS: Final = LoopRule(max_period=512, min_copies=4, min_tokens=256, min_chars=100)


class LoopGate:
    """Trips once the tail of the ids is a loop by one of its rules. Memory O(tokens)."""

    name = "loop"

    def __init__(self, rules: tuple[LoopRule, ...] = (SHORT_UNITS, LONG_UNITS)) -> None:
        self._rules = tuple(rule for rule in rules if rule.min_copies and rule.min_tokens)
        self._max_period = max((rule.max_period for rule in self._rules), default=0)
        self._least_tokens = min((rule.min_tokens for rule in self._rules), default=0)
        self._ids: list[int] = []
        self._steps: list[Step] = []
        # What `truncate` puts back, by step: what was followed, and where the contexts that end
        # with it stood before, if anywhere.
        self._before: list[tuple[int, int, int | None, int | None]] = []
        # Prefix hashes: the hash of any context is a difference of two.
        self._hashes: list[int] = [0]
        self._seen_short: dict[int, int] = {}
        self._seen_long: dict[int, int] = {}
        self._period = 0
        self._matched = 0

    def __repr__(self) -> str:
        return f"<LoopGate {len(self._ids)} tokens, period {self._period} x {self._matched}>"

    def feed(self, step: Step) -> Finding | None:
        """Judge one more token."""
        # Every token comes this way, so what could be methods stands in line.
        ids, hashes, token_id = self._ids, self._hashes, step.token_id
        position = len(ids)
        ids.append(token_id)
        self._steps.append(step)
        digest = hashes[-1] * _BASE + token_id + 1 & _MASK
        hashes.append(digest)
        short = long = None
        if position >= _SHORT - 1:
            short_key = (digest - hashes[-1 - _SHORT] * _SHORT_POWER) & _MASK
            seen = self._seen_short
            short = seen.get(short_key)
            seen[short_key] = position
            if position >= _LONG - 1:
                long_key = (digest - hashes[-1 - _LONG] * _LONG_POWER) & _MASK
                seen = self._seen_long
                long = seen.get(long_key)
                seen[long_key] = position
        period, matched = self._period, self._matched
        self._before.append((period, matched, short, long))
        if period and ids[position - period] == token_id:
            matched += 1
        elif long is not None and position - long <= self._max_period:
            period, matched = position - long, _LONG
        elif short is not None and position - short <= self._max_period:
            period, matched = position - short, _SHORT
        else:
            period = matched = 0
        self._period, self._matched = period, matched
        if not period or matched + period < self._least_tokens:
            return None
        return self._judge(step)

    def truncate(self, n_tokens: int) -> None:
        """Forget every step from position `n_tokens` on."""
        hashes = self._hashes
        while len(self._ids) > n_tokens:
            self._period, self._matched, short, long = self._before.pop()
            self._ids.pop()
            self._steps.pop()
            digest = hashes.pop()
            length = len(hashes)
            if length >= _SHORT:
                key = (digest - hashes[-_SHORT] * _SHORT_POWER) & _MASK
                _put_back(self._seen_short, key, short)
            if length >= _LONG:
                key = (digest - hashes[-_LONG] * _LONG_POWER) & _MASK
                _put_back(self._seen_long, key, long)

    def suspected(self) -> int | None:
        """Where the first copy begins of what is coming round again, be it a loop or not. It is
        followed once 16 tokens came again."""
        if self._matched < _SUSPICIOUS:
            return None
        return len(self._ids) - self._matched - self._period

    def _judge(self, step: Step) -> Finding | None:
        ids, period, end = self._ids, self._period, len(self._ids)
        first = end - self._matched
        last = min(first + _LONG, end)
        if ids[first:last] != ids[first - period : last - period]:
            # Two contexts have the same hash. What came behind them was compared, token by token.
            self._matched = max(0, self._matched - _LONG)
            return None
        covered = self._matched + period
        onset = end - covered
        start = self._steps[onset].offset
        chars = step.offset + len(step.text) - start
        for rule in self._rules:
            if (
                self._period <= rule.max_period
                and covered >= rule.min_tokens
                and covered >= rule.min_copies * self._period
                and chars >= rule.min_chars
            ):
                return Finding(
                    gate=self.name,
                    level=Level.TEXT,
                    flaw=Flaw.LOOP,
                    tokens=(onset, end),
                    chars=(start, start + chars),
                    score=covered,
                    threshold=max(rule.min_tokens, rule.min_copies * self._period),
                    detail=f"a unit of {self._period} tokens came {covered // self._period} times",
                )
        return None


def _put_back(table: dict[int, int], key: int, earlier: int | None) -> None:
    if earlier is None:
        del table[key]
    else:
        table[key] = earlier
