"""Exact loops in reasoning."""

from typing import Final

import msgspec

from ..finding import Finding, Flaw, Level
from ..gate import Step
from ..loops import LoopGate, LoopRule
from .marks import SENTENCE_END, frame_of, items_of, size_of

# So much of what a loop must have, it must have in tokens that know the language, too.
_SIZE: Final = 0.7
# A machine comes round that is in no loop: so many times more copies, and tokens.
_MACHINE_COPIES: Final = 1.5
_MACHINE_TOKENS: Final = 2
# Sentences of a machine have no more forms: it pushes and pops.
_MACHINE_FORMS: Final = 2
# What has words is said, and no step: so many letters in different words of two and more ("in state
# a, go to b" has eight), and tokens.
_WORDY_LETTERS: Final = 6
_WORDY_TOKENS: Final = 5
# Of a machine that is told of in words, and with numbers, so many tokens are asked: a sorting that
# has nothing to swap. Under 256, so that a short unit is found within that.
_WORDY_STEPS: Final = 240


class ReasoningLoopGate(LoopGate):
    """Trips once the tail of the ids is a loop by one of its rules. What should go begins with the
    second copy: the first may hold what was thought. Of nearly no words, and with numbers or
    without letters, it is only one from `symbols` tokens on: a matrix of zeros has as many, a
    machine that stays in a state; so is what has few letters for its tokens, in a language that the
    tokenizer does not know. More is asked where such sentences of a unit differ in numbers and
    letters alone: the steps of a machine."""

    name = "reasoning_loop"

    def __init__(self, rules: tuple[LoopRule, ...], symbols: int) -> None:
        super().__init__(rules)
        self._symbols = symbols
        # The loop that was looked at last, as onset and period, and how much it must have.
        self._looked_at = (-1, 0)
        self._least = 0.0

    def truncate(self, n_tokens: int) -> None:
        """Forget every step from position `n_tokens` on."""
        super().truncate(n_tokens)
        self._looked_at = (-1, 0)

    def _judge(self, step: Step) -> Finding | None:
        found = super()._judge(step)
        if found is None:
            return None
        loop = (found.tokens[0], self._period)
        if loop != self._looked_at:
            self._looked_at = loop
            self._least = self._needed(found.threshold)
        if found.score < self._least:
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

    def _needed(self, threshold: float) -> float:
        """How many tokens a loop of the unit that came last must have."""
        steps, period = self._steps, self._period
        unit = "".join([step.text for step in steps[-period:]])
        letters = any(map(str.isalpha, unit))
        machine = letters and _is_machine("".join([step.text for step in steps[-2 * period :]]))
        if period >= _WORDY_TOKENS and _is_wordy(unit):
            if machine or any(map(str.isdecimal, unit)):
                return _WORDY_STEPS
            return min(_WORDY_STEPS, self._sized(threshold, unit))
        if machine:
            return max(_MACHINE_COPIES * threshold, _MACHINE_TOKENS * self._symbols)
        if not letters or any(map(str.isdecimal, unit)):
            return self._symbols
        return self._sized(threshold, unit)

    def _sized(self, threshold: float, unit: str) -> float:
        """How many tokens so many are in a language that the tokenizer may not know."""
        return min(self._symbols, _SIZE * threshold * self._period / max(size_of(unit), 1.0))


def _is_wordy(unit: str) -> bool:
    """Whether it has words as a sentence has, in a script without blanks pieces of them."""
    words = {item for item in items_of(unit.casefold()) if not item[0].isdecimal()}
    return sum([len(word) for word in words if len(word) > 1]) >= _WORDY_LETTERS


def _is_machine(text: str) -> bool:
    """Whether half of the different sentences or more differ from others in numbers and letters
    alone. The first and the last may be parts of some."""
    sentences = set(SENTENCE_END.split(text.casefold())[1:-1])
    frames = {frame_of(items_of(sentence)) for sentence in sentences}
    return len(frames) <= _MACHINE_FORMS and 0 < 2 * len(frames) <= len(sentences)
