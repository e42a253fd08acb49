"""What can be seen of the logits from outside, where no plug-in can run in the engine.

The engine is asked for the sampled token's logprob (`logprobs=0`). A NaN row samples a token whose
logprob is NaN. A row that was sanitised (NaN to a number) is flat, so that each token drawn from it
has a logprob of about -ln(vocabulary).
"""

import math
from array import array
from typing import Final

from .finding import Finding, Flaw, Level
from .gate import Step

# By more than this a mask, such as a grammar's, makes a flat row less flat: it then goes unseen.
_NEAR: Final = 1.0


class OutsideGate:
    """NaN at once, -ln(vocabulary) as a streak. A step without a logprob says nothing and ends a
    streak."""

    name = "outside"

    def __init__(self, vocabulary_size: int, streak: int = 4) -> None:
        """`streak`: so many tokens in a row. One alone is a rare word; good text has no four whose
        chance is that of a blind draw."""
        self._flat = -math.log(vocabulary_size)
        self._streak = streak
        # By position: the length of the streak that ends there, and where in the text it lies.
        self._runs = array("L")
        self._offsets = array("L")

    def __repr__(self) -> str:
        return f"<OutsideGate {len(self._runs)} tokens>"

    def feed(self, step: Step) -> Finding | None:
        """Judge one more token."""
        logprob = step.logprob
        flat = logprob is not None and abs(logprob - self._flat) <= _NEAR
        run = (self._runs[-1] + 1 if self._runs else 1) if flat else 0
        self._runs.append(run)
        self._offsets.append(step.offset)
        if logprob is not None and not math.isfinite(logprob):
            return self._finding(step, Flaw.NON_FINITE_LOGITS, 1, 1)
        if run >= self._streak:
            return self._finding(step, Flaw.UNIFORM_LOGITS, run, self._streak)
        return None

    def truncate(self, n_tokens: int) -> None:
        """Forget every step from position `n_tokens` on."""
        del self._runs[n_tokens:]
        del self._offsets[n_tokens:]

    def suspected(self) -> int | None:
        """Where the streak began that may yet become a finding."""
        run = self._runs[-1] if self._runs else 0
        return len(self._runs) - run if run else None

    def _finding(self, step: Step, flaw: Flaw, run: int, threshold: int) -> Finding:
        onset = len(self._runs) - run
        return Finding(
            gate=self.name,
            level=Level.LOGITS,
            flaw=flaw,
            tokens=(onset, len(self._runs)),
            chars=(self._offsets[onset], step.offset + len(step.text)),
            score=run,
            threshold=threshold,
            detail=f"logprob {step.logprob:.4g}",
        )
