"""All gates of a profile as one gate."""

from collections.abc import Container, Sequence

from .characters import CharacterGate, CharacterRules
from .finding import Finding
from .gate import Gate, Step
from .loops import LoopGate, LoopRule
from .markers import MarkerGate
from .profiles import Profile
from .runs import RunGate, RunRules
from .tokens import TokenGate


class Pipeline:
    """Feeds every gate, the cheap ones first, and gives the first finding of a step.

    Every gate sees every step, also behind one that trips: a gate that was left out would have
    forgotten that step when the others go back over it.
    """

    name = "pipeline"

    def __init__(self, gates: Sequence[Gate]) -> None:
        self._gates = tuple(gates)
        self._feeds = tuple(gate.feed for gate in self._gates)

    def __repr__(self) -> str:
        return f"<Pipeline {' '.join(gate.name for gate in self._gates)}>"

    def feed(self, step: Step) -> Finding | None:
        """Judge one more token."""
        first: Finding | None = None
        for feed in self._feeds:
            finding = feed(step)
            if first is None:
                first = finding
        return first

    def truncate(self, n_tokens: int) -> None:
        """Forget every step from position `n_tokens` on."""
        for gate in self._gates:
            gate.truncate(n_tokens)


def streaming_gates(
    profile: Profile, *, vocabulary_size: int, denied: Container[int] = frozenset()
) -> Pipeline:
    """The gates on tokens and text that a profile asks for, fresh."""
    gates: list[Gate] = [TokenGate(vocabulary_size, denied, profile.silent_tokens)]
    if characters := _characters(profile):
        gates.append(CharacterGate(characters))
    if profile.character_run or profile.line_run or profile.space_run or profile.word_run:
        gates.append(
            RunGate(
                RunRules(
                    characters=profile.character_run,
                    lines=profile.line_run,
                    spaces=profile.space_run,
                    words=profile.word_run,
                )
            )
        )
    if profile.marker_run:
        gates.append(MarkerGate(profile.marker_run))
    if loops := _loops(profile):
        gates.append(LoopGate(loops))
    return Pipeline(gates)


def _characters(profile: Profile) -> CharacterRules | None:
    rules = CharacterRules(
        window=profile.character_window,
        controls=profile.control_characters,
        private_use=profile.private_use_characters,
        unassigned=profile.unassigned_characters,
        replacements=profile.replacement_characters,
        mojibake=profile.mojibake,
        mojibake_window=profile.mojibake_window,
        allowed=profile.allowed_characters,
        denied=profile.denied_characters,
    )
    limits = (
        rules.controls,
        rules.private_use,
        rules.unassigned,
        rules.replacements,
        rules.mojibake,
        len(rules.denied),
    )
    return rules if any(limits) else None


def _loops(profile: Profile) -> tuple[LoopRule, ...]:
    rules = (
        LoopRule(
            max_period=profile.loop_period,
            min_copies=profile.loop_copies,
            min_tokens=profile.loop_tokens,
            min_chars=profile.loop_characters,
        ),
        LoopRule(
            max_period=profile.long_loop_period,
            min_copies=profile.long_loop_copies,
            min_tokens=profile.long_loop_tokens,
            min_chars=profile.loop_characters,
        ),
    )
    return tuple(rule for rule in rules if rule.min_copies)
