"""Coherence, judged on a window of text every few tokens.

One finding proves little: a window may hold a chemical name, a quotation, a line of minified code.
So level 4 findings are notes, and only several in a row are acted on; `Acting` is that rule, for
those who want to know what a pipeline would do. A window far past what any good text reaches is
proof enough: gibberish is a finding of level 3, at once.
"""

import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from .finding import Finding, Flaw, Level
from .gate import Gate, Step
from .ngrams import ORDER, Ngrams, stand_ins
from .scripts import breaks, may_break, script_codes
from .tail import Tail
from .words import broken

# One splice is as good as many.
_SPLICED: Final = 1
# Characters that are looked at for script breaks: a splice has long stretches on either side, and
# must stay in sight for some looks.
_SCRIPTS_WINDOW: Final = 240
# Without one of these no sequence has a weight. One search, far cheaper than the rest.
_LATIN: Final = re.compile("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
# What is left of the score of token salad when each sequence counts once.
_DISTINCT: Final = 0.75
# Scores are per character, and read better as per hundred.
PER: Final = 100


class CoherenceRules(Struct, frozen=True, kw_only=True):
    """`window` in characters, `every` in tokens. A limit of 0 switches its signal off:
    `incoherence` for the model of n-grams, `gibberish` where it alone is proof, `long_gibberish`
    where it is over `long_window`; none of the three counts where there are fewer than
    `broken_words` sequences per hundred characters that no word has. `script_breaks` for glued
    scripts (spliced ones count as soon as there is one), `least_score` for `score`, which a
    language model gives a window (None: too little to judge); that one is a log10 probability, so
    below 0."""

    window: int = 150
    every: int = 8
    incoherence: float = 0.0
    gibberish: float = 0.0
    long_window: int = 250
    long_gibberish: float = 0.0
    broken_words: float = 0.0
    script_breaks: int = 0
    least_score: float = 0.0


class CoherenceGate:
    """Trips on a window that is no text. Between evaluations it only remembers; one costs
    O(characters since the last one), and O(window) where there are several scripts or a language
    model. Memory O(tokens)."""

    name = "coherence"

    def __init__(
        self,
        rules: CoherenceRules,
        ngrams: Ngrams,
        score: Callable[[str], float | None] | None = None,
    ) -> None:
        self._rules = rules
        self._every = rules.every
        self._ngrams = ngrams
        self._weighs = bool(rules.incoherence or rules.gibberish or rules.long_gibberish)
        # The strongest first.
        self._limits = (
            (rules.window, rules.gibberish, Flaw.GIBBERISH),
            (rules.long_window, rules.long_gibberish, Flaw.GIBBERISH),
            (rules.window, rules.incoherence, Flaw.INCOHERENT),
        )
        self._score = score
        self._tail = Tail()
        self._pieces = self._tail.pieces
        # By look, the first of them before the text: the characters so far; their weight by the
        # model; the last of them, in which the next sequences begin; and in how many stretches from
        # look to look two scripts met.
        self._ends = [0]
        self._totals = [0]
        self._carries = [""]
        self._mixed = [0]
        # And the script of each letter since the look before.
        self._codes = [""]

    def __repr__(self) -> str:
        return f"<CoherenceGate {len(self._pieces)} tokens, {len(self._ends) - 1} looks>"

    def feed(self, step: Step) -> Finding | None:
        """Judge one more token."""
        pieces = self._pieces
        pieces.append(step.text)
        if len(pieces) % self._every:
            return None
        return self._look(step)

    def truncate(self, n_tokens: int) -> None:
        """Forget every step from position `n_tokens` on."""
        del self._pieces[n_tokens:]
        looks = n_tokens // self._every + 1
        for remembered in (self._ends, self._totals, self._carries, self._mixed, self._codes):
            del remembered[looks:]

    def _look(self, step: Step) -> Finding | None:
        rules = self._rules
        end = step.offset + len(step.text)
        new = "".join(self._pieces[-self._every :])
        plain = self._carries[-1] + stand_ins(new)
        weight = self._ngrams.total(plain) if self._weighs and _LATIN.search(plain) else 0
        self._ends.append(end)
        self._carries.append(plain[-(ORDER - 1) :])
        self._totals.append(self._totals[-1] + weight)
        if rules.script_breaks:
            self._mixed.append(self._mixed[-1] + may_break(plain))
            self._codes.append(script_codes(new))
        if end < rules.window:
            return None
        found = self._judge_ngrams(step, end)
        if found is not None:
            return found
        if rules.script_breaks:
            earliest = max(0, bisect_right(self._ends, end - _SCRIPTS_WINDOW) - 1)
            if self._mixed[-1] > self._mixed[earliest]:
                found = self._judge_scripts(step, earliest)
        if found is None and self._score is not None:
            found = self._judge_score(step, *self._tail.last(rules.window))
        return found

    def _judge_ngrams(self, step: Step, end: int) -> Finding | None:
        for window, limit, flaw in self._limits:
            if not limit or end < window:
                continue
            # The fewest looks that cover a window.
            first = bisect_right(self._ends, end - window) - 1
            score = PER * (self._totals[-1] - self._totals[first]) / (end - self._ends[first])
            if score < limit:
                continue
            text = self._tail.last(window)[0]
            if varies(self._ngrams, text, limit) and broken(text) >= self._rules.broken_words:
                return self._incoherent(step, first, score, limit, flaw)
        return None

    def _incoherent(
        self, step: Step, first: int, score: float, limit: float, flaw: Flaw
    ) -> Finding:
        totals = self._totals
        # It began where the text was at its best, in this window or shortly before.
        earliest = max(0, 2 * first - len(totals))
        onset = min(range(len(totals) - 2, earliest - 1, -1), key=totals.__getitem__)
        return self._finding(
            step,
            flaw,
            (onset * self._every, self._ends[onset]),
            score,
            limit,
            "characters follow each other as in token salad",
        )

    def _judge_scripts(self, step: Step, earliest: int) -> Finding | None:
        first = earliest * self._every
        found = breaks("".join(self._pieces[first:]), "".join(self._codes[earliest + 1 :]))
        if not found:
            return None
        spliced = [one for one in found if one.spliced]
        limit = self._rules.script_breaks
        if not spliced and len(found) < limit:
            return None
        place = (spliced or found)[0].place
        return self._finding(
            step,
            Flaw.SCRIPT_BREAK,
            (self._tail.position(first, place), self._ends[earliest] + place),
            len(spliced) or len(found),
            _SPLICED if spliced else limit,
            "one script goes over into another in the middle of a sentence"
            if spliced
            else "scripts are mixed within words",
        )

    def _judge_score(self, step: Step, text: str, first: int) -> Finding | None:
        score = self._score(text) if self._score else None
        least = self._rules.least_score
        if score is None or score >= least:
            return None
        begin = step.offset + len(step.text) - len(text)
        detail = f"log10 probability {score:.2f} a word under the language model"
        return self._finding(step, Flaw.INCOHERENT, (first, begin), -score, -least, detail)

    def _finding(
        self,
        step: Step,
        flaw: Flaw,
        onset: tuple[int, int],
        score: float,
        threshold: float,
        detail: str,
    ) -> Finding:
        return Finding(
            gate=self.name,
            level=Level.TEXT if flaw is Flaw.GIBBERISH else Level.COHERENCE,
            flaw=flaw,
            tokens=(onset[0], step.position + 1),
            chars=(onset[1], step.offset + len(step.text)),
            score=score,
            threshold=threshold,
            detail=detail,
        )


def varies(ngrams: Ngrams, text: str, limit: float) -> bool:
    """Whether it is many sequences that weigh so much, and not a few that come again and again: of
    those, loops and tables are made."""
    return PER * ngrams.distinct_total(stand_ins(text)) >= limit * _DISTINCT * len(text)


class Acting:
    """A gate around others that finds only what would be acted on: certain faults (levels 1 to 3)
    at once, a likely one (level 4) when it is the last of `findings` within `span` tokens."""

    name = "acting"

    def __init__(self, gate: Gate, *, findings: int, span: int) -> None:
        self._gate = gate
        self._findings = findings
        self._span = span
        # How many tokens there were at each level 4 finding.
        self._noted: list[int] = []

    def __repr__(self) -> str:
        return f"<Acting on {self._gate!r}>"

    def feed(self, step: Step) -> Finding | None:
        """Judge one more token."""
        found = self._gate.feed(step)
        if found is None or found.level is not Level.COHERENCE:
            return found
        tokens = step.position + 1
        self._noted.append(tokens)
        recent = self._noted[-self._findings :]
        return found if len(recent) == self._findings and tokens - recent[0] < self._span else None

    def truncate(self, n_tokens: int) -> None:
        """Forget every step from position `n_tokens` on."""
        self._gate.truncate(n_tokens)
        while self._noted and self._noted[-1] > n_tokens:
            self._noted.pop()
