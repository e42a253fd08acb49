"""Exact loops in reasoning."""

from typing import Final

import msgspec

from ..finding import Finding, Flaw, Level
from ..gate import Step
from ..loops import LoopGate, LoopRule
from .marks import size_of

# So much of what a loop must have, it must have in tokens that know the language, too.
_SIZE: Final = 0.7


class ReasoningLoopGate(LoopGate):
    """Trips once the tail of the ids is a loop by one of its rules. What should go begins with the
    second copy: the first may hold what was thought. With numbers, or without letters, it is only
    one from `symbols` tokens on: a matrix of zeros has as many, a machine that stays in a state; so
    is what has few letters for its tokens, in a language that the tokenizer does not know."""

    name = "reasoning_loop"

    def __init__(self, rules: tuple[LoopRule, ...], symbols: int) -> None:
        super().__init__(rules)
        self._symbols = symbols

    def _judge(self, step: Step) -> Finding | None:
        found = super()._judge(step)
        if found is None:
            return None
        if found.score < self._symbols:
            unit = "".join(step.text for step in self._steps[-self._period :])
            if not any(map(str.isalpha, unit)) or any(map(str.isdecimal, unit)):
                return None
            if size_of(unit) * (found.score / self._period) < _SIZE * found.threshold:
                return None
        onset = found.tokens[0] + self._period
        chars = (self._steps[onset].offset, found.chars[1])
        return msgspec.structs.replace(
            found,
            level=Level.REASONING,
            flaw=Flaw.REASONING_LOOP,
            tokens=(onset, found.tokens[1]),
            chars=chars,
        )
