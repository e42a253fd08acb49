"""The gates over reasoning that a profile asks for, and how much it may cost."""

from collections.abc import Container
from typing import Final

from msgspec import Struct

from ...schemas.reasoning import Effort
from ..finding import Finding, Flaw, Level
from ..gate import Gate, Step
from ..loops import LoopRule
from ..pipeline import Pipeline
from ..profiles import Profile
from .budget import BudgetGate, StaleRule
from .counter import CounterJudge
from .exact import ReasoningLoopGate
from .judges import NgramJudge, OpeningJudge, ParagraphJudge, SentenceJudge
from .reader import EVERY, Judge, Reader

# A loop is so many characters at least; emoji have three tokens each.
_LOOP_CHARACTERS: Final = 40


class Rule(Struct, frozen=True):
    """A judge, and what its gate's findings are called."""

    name: str
    flaw: Flaw
    judge: Judge


class SentenceGate:
    """Judges over the sentences of reasoning as one gate, for they share the reading. Findings bear
    the name of their rule."""

    name = "reasoning_text"

    def __init__(self, rules: tuple[Rule, ...], memory: int) -> None:
        self._rules = rules
        self._reader = Reader([rule.judge for rule in rules], memory)
        self._steps = self._reader.steps

    def __repr__(self) -> str:
        return f"<SentenceGate {len(self._steps)} tokens>"

    def feed(self, step: Step) -> Finding | None:
        """Judge one more token."""
        steps = self._steps
        steps.append(step)
        if len(steps) % EVERY:
            return None
        found = self._reader.look(len(steps) - EVERY)
        if found is None:
            return None
        place, verdict = found
        rule = self._rules[place]
        return Finding(
            gate=rule.name,
            level=Level.REASONING,
            flaw=rule.flaw,
            tokens=(verdict.onset, step.position + 1),
            chars=(steps[verdict.onset].offset, step.offset + len(step.text)),
            score=verdict.score,
            threshold=verdict.threshold,
            detail=verdict.detail,
        )

    def truncate(self, n_tokens: int) -> None:
        """Forget every step from position `n_tokens` on."""
        self._reader.truncate(n_tokens)


def reasoning_gates(profile: Profile, cap: int, ignored: Container[Flaw] = ()) -> Pipeline:
    """The gates over the reasoning of one attempt, fresh; the certain ones first. At most `cap`
    tokens may be thought. Steps are numbered from 0 at the block's first token. Flaws that are
    `ignored` are not told, so that others are."""
    stale = StaleRule(
        window=profile.reasoning_novelty_window,
        least=profile.reasoning_min_novelty,
        cost=profile.reasoning_stale_cost,
        share=profile.reasoning_stale_share,
    )
    gates: list[Gate] = [BudgetGate(cap, stale if stale.least else None)]
    if loops := _loops(profile):
        gates.append(ReasoningLoopGate(loops, profile.reasoning_loop_symbols))
    if rules := _rules(profile):
        gates.append(SentenceGate(rules, profile.reasoning_memory))
    return Pipeline(gates, ignored)


def reasoning_cap(profile: Profile, effort: Effort | None) -> int:
    """How many tokens an effort stands for; None is the profile's own."""
    asked: Effort | str = profile.reasoning_effort if effort is None else effort
    if isinstance(asked, int):
        return asked
    caps = {
        "low": profile.reasoning_low,
        "medium": profile.reasoning_medium,
        "high": profile.reasoning_high,
        "max": profile.reasoning_max,
    }
    return caps[asked]


def _rules(profile: Profile) -> tuple[Rule, ...]:
    memory = profile.reasoning_memory
    rules: list[Rule] = []
    if most := profile.reasoning_paragraph_tokens:
        judge = ParagraphJudge(most, memory)
        rules.append(Rule("reasoning_paragraphs", Flaw.REASONING_PARAGRAPHS, judge))
    if most := profile.reasoning_sentence_tokens:
        judge = SentenceJudge(most)
        rules.append(Rule("reasoning_sentences", Flaw.REASONING_SENTENCES, judge))
    if most := profile.reasoning_ngram_tokens:
        judge = NgramJudge(most, profile.reasoning_ngram_window)
        rules.append(Rule("reasoning_ngrams", Flaw.REASONING_NGRAMS, judge))
    if most := profile.reasoning_opening_tokens:
        judge = OpeningJudge(most, profile.reasoning_opening_window)
        rules.append(Rule("reasoning_openings", Flaw.REASONING_OPENINGS, judge))
    if most := profile.reasoning_counter_tokens:
        judge = CounterJudge(most, memory)
        rules.append(Rule("reasoning_counters", Flaw.REASONING_SENTENCES, judge))
    return tuple(rules)


def _loops(profile: Profile) -> tuple[LoopRule, ...]:
    rules = (
        LoopRule(
            max_period=profile.reasoning_loop_period,
            min_copies=profile.reasoning_loop_copies,
            min_tokens=profile.reasoning_loop_tokens,
            min_chars=_LOOP_CHARACTERS,
        ),
        LoopRule(
            max_period=profile.reasoning_long_loop_period,
            min_copies=profile.reasoning_long_loop_copies,
            min_tokens=profile.reasoning_long_loop_tokens,
            min_chars=_LOOP_CHARACTERS,
        ),
    )
    return tuple(rule for rule in rules if rule.min_copies and rule.min_tokens)
