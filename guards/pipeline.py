"""All gates of a profile as one gate."""

from collections.abc import Container, Sequence
from typing import Protocol, runtime_checkable

from .characters import CharacterGate, CharacterRules
from .coherence import CoherenceGate, CoherenceRules
from .exempt import ExemptGate, Spans
from .finding import Finding, Flaw, Level
from .gate import Gate, Step
from .kenlm_score import load_scorer
from .loops import LoopGate, LoopRule
from .markers import MarkerGate
from .ngrams import built_in
from .novelty import NoveltyGate
from .outside import OutsideGate
from .profiles import Profile
from .runs import RunGate, RunRules
from .switch import SwitchGate, SwitchRules
from .tokens import TokenGate


@runtime_checkable
class Follower(Protocol):
    """A gate that knows of a possible fault before it trips."""

    def suspected(self) -> int | None:
        """The position of the first token of what it follows, or None. O(1)."""
        ...


class Pipeline:
    """Feeds every gate, the cheap ones first, and gives the finding of a step: the first one, but a
    certain fault (levels 1 to 3) before a likely one.

    Every gate sees every step, also behind one that trips: a gate that was left out would have
    forgotten that step when the others go back over it.
    """

    name = "pipeline"

    def __init__(self, gates: Sequence[Gate], ignored: Container[Flaw] = ()) -> None:
        """`ignored`: flaws that are not told, so that others are. It may change."""
        self._gates = tuple(gates)
        self._ignored = ignored
        self._feeds = tuple(gate.feed for gate in self._gates)
        self._suspects = tuple(gate.suspected for gate in gates if isinstance(gate, Follower))

    def __repr__(self) -> str:
        return f"<Pipeline {' '.join(gate.name for gate in self._gates)}>"

    def feed(self, step: Step) -> Finding | None:
        """Judge one more token."""
        first: Finding | None = None
        for feed in self._feeds:
            finding = feed(step)
            if (
                finding is not None
                and finding.flaw not in self._ignored
                and (first is None or finding.level < Level.COHERENCE <= first.level)
            ):
                first = finding
        return first

    def truncate(self, n_tokens: int) -> None:
        """Forget every step from position `n_tokens` on."""
        for gate in self._gates:
            gate.truncate(n_tokens)

    def suspected(self) -> int | None:
        """The first position that some gate follows as a possible fault and may yet complain about,
        or None. A client that is sent no more than what stands before it is spared the fault."""
        first: int | None = None
        for suspected in self._suspects:
            place = suspected()
            if place is not None and (first is None or place < first):
                first = place
        return first


def streaming_gates(
    profile: Profile,
    *,
    vocabulary_size: int,
    denied: Container[int] = frozenset(),
    structured: bool = False,
    outside: bool = False,
    exempt: Spans = (),
) -> Pipeline:
    """The gates on tokens and text that a profile asks for, fresh. Of `structured` output, which a
    grammar constrains, only the ids are judged, unless the profile says otherwise, or `exempt` says
    which spans of the text are not prose: the rest is, and is judged. `outside` adds
    what can be seen of the logits where no plug-in runs in the engine. Raises BadProfile where the
    profile names a language model that can't be had."""
    gates = _token_gates(profile, vocabulary_size, denied, outside=outside)
    if exempt:
        gates.append(ExemptGate(exempt, lambda: Pipeline(_text_gates(profile))))
    elif not structured or profile.structured_text_gates:
        gates += _text_gates(profile)
    return Pipeline(gates)


def block_gates(
    profile: Profile,
    *,
    vocabulary_size: int,
    denied: Container[int] = frozenset(),
    outside: bool = False,
    guard: Gate | None = None,
) -> Pipeline:
    """The gates inside a reasoning block: those on ids and characters, and the guard over what is
    thought, if it is asked for. Whether it loops is the guard's business, in what words it is
    thought, and in which languages, nobody's."""
    gates = _token_gates(profile, vocabulary_size, denied, outside=outside)
    if characters := _characters(profile):
        gates.append(CharacterGate(characters))
    return Pipeline([*gates, *([guard] if guard is not None else [])])


def _token_gates(
    profile: Profile, vocabulary_size: int, denied: Container[int], *, outside: bool
) -> list[Gate]:
    seen_from_outside: list[Gate] = [OutsideGate(vocabulary_size)] if outside else []
    return [*seen_from_outside, TokenGate(vocabulary_size, denied, profile.silent_tokens)]


def _text_gates(profile: Profile) -> list[Gate]:
    gates: list[Gate] = []
    if characters := _characters(profile):
        gates.append(CharacterGate(characters))
    runs = (profile.character_run, profile.fill_run, profile.line_run, profile.space_run)
    if any(runs) or profile.word_run:
        gates.append(
            RunGate(
                RunRules(
                    characters=profile.character_run,
                    fill=profile.fill_run,
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
    if profile.script_switch_words:
        gates.append(
            SwitchGate(
                SwitchRules(
                    letters=profile.script_switch_after,
                    words=profile.script_switch_words,
                    run=profile.script_switch_letters,
                    latin_run=profile.script_switch_latin,
                )
            )
        )
    return gates + _coherence(profile)


def _coherence(profile: Profile) -> list[Gate]:
    gates: list[Gate] = []
    asked = profile.coherence_model and profile.coherence_score_threshold < 0
    score = load_scorer(profile.coherence_model) if asked else None
    weighed = profile.incoherence or profile.gibberish or profile.long_gibberish
    if weighed or profile.script_breaks or score:
        rules = CoherenceRules(
            window=profile.coherence_window,
            every=profile.coherence_every,
            incoherence=profile.incoherence,
            gibberish=profile.gibberish,
            long_window=profile.long_coherence_window,
            long_gibberish=profile.long_gibberish,
            broken_words=profile.broken_words,
            script_breaks=profile.script_breaks,
            least_score=profile.coherence_score_threshold,
        )
        gates.append(CoherenceGate(rules, built_in(), score))
    if profile.min_novelty:
        gates.append(
            NoveltyGate(profile.novelty_window, profile.min_novelty, profile.coherence_every)
        )
    return gates


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
    return tuple(rule for rule in rules if rule.min_copies and rule.min_tokens)
