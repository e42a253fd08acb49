"""What the worker and the plug-in in the engine say to each other. No vLLM in here.

The worker says what a request wants in `SamplingParams.extra_args`, and what holds for the whole
engine in `additional_config`, both under `KEY`. The plug-in answers in the token stream itself: it
forces a *sentinel*, an id that can never be legal output, which the request lists among its
`stop_token_ids`. Which sentinel says what was found.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..schemas import Flaw, Level
from .denied import Denial

KEY: Final = "sluicegate"


class Signal(IntEnum):
    """What the plug-in can find, the gravest first. The value is the place in `sentinels`."""

    NON_FINITE = 0
    UNIFORM = 1
    LOW_CONFIDENCE = 2
    FEW_CANDIDATES = 3
    LOST_CONFIDENCE = 4


FLAWS: Final[dict[Signal, tuple[Level, Flaw]]] = {
    Signal.NON_FINITE: (Level.LOGITS, Flaw.NON_FINITE_LOGITS),
    Signal.UNIFORM: (Level.LOGITS, Flaw.UNIFORM_LOGITS),
    Signal.LOW_CONFIDENCE: (Level.LOGITS, Flaw.LOW_CONFIDENCE),
    Signal.FEW_CANDIDATES: (Level.LOGITS, Flaw.FEW_CANDIDATES),
    Signal.LOST_CONFIDENCE: (Level.COHERENCE, Flaw.LOST_CONFIDENCE),
}


class EngineConstants(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for every request of an engine."""

    denied: tuple[int, ...]
    sentinels: tuple[int, ...]


class Ban(Struct, frozen=True, array_like=True):
    """`token` must not be the segment's token number `position` (from 0) if the ones right before
    it, back to the segment's start, are `after` (empty: whatever they are)."""

    position: int
    token: int
    after: tuple[int, ...] = ()


class EngineGates(
    Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """What one request asks of the plug-in. A streak of 0 switches its signal off; streaks count
    steps in a row. `edge`: that many tokens at the start and before `max_tokens` count as start and
    end, where the `..._edge` streaks rule; the other ones rule in between."""

    max_probability: float = 0.01
    low_confidence_edge: int = 0
    low_confidence_middle: int = 0
    min_candidates: int = 3
    few_candidates_edge: int = 0
    few_candidates_middle: int = 0
    edge: int = 16
    # Mean of ln(largest probability), but at least `max_probability`, over about the last
    # `confidence_window` steps; 0: off.
    confidence_window: int = 0
    min_confidence: float = 0.0
    # Tokens accepted before this segment, and how many the whole text may have.
    position: int = 0
    max_tokens: int = 0
    # A resumed segment: the last `carried` tokens of the prompt are output, and these penalties are
    # applied here, not by vLLM, which would not count them.
    carried: int = 0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    bans: tuple[Ban, ...] = ()

    @property
    def penalises(self) -> bool:
        """Whether any penalty is to be applied in the plug-in."""
        additive = self.presence_penalty or self.frequency_penalty
        return bool(additive) or self.repetition_penalty != 1.0


def packed(said: EngineGates | EngineConstants) -> dict[str, Any]:
    """For `extra_args` or `additional_config`: plain values, fit for any process border."""
    return {KEY: msgspec.to_builtins(said)}


def gates_in(extra_args: Mapping[str, Any] | None) -> EngineGates | None:
    """What a request asks of the plug-in; None: to be let be. Raises ValueError."""
    if not extra_args or KEY not in extra_args:
        return None
    return msgspec.convert(extra_args[KEY], EngineGates)


def constants_in(additional_config: object) -> EngineConstants:
    """What holds for the engine; nothing where nothing is said. Raises ValueError."""
    if not isinstance(additional_config, Mapping) or KEY not in additional_config:
        return EngineConstants(denied=(), sentinels=())
    return msgspec.convert(additional_config[KEY], EngineConstants)


# The best first: a row of padding means nothing to anyone.
_RANK: Final = (
    Denial.BEYOND_TOKENIZER,
    Denial.UNDECODABLE,
    Denial.RESERVED,
    Denial.MASK,
    Denial.UNKNOWN,
    Denial.PADDING,
    Denial.OPENING,
)


def choose_sentinels(denied: Mapping[int, Denial], spare: Iterable[int] = ()) -> tuple[int, ...]:
    """One id for each signal, of the denied ones if there are enough. If not, of the spare ones
    first: ids that no answer needs, which are denied from then on. Fewer where there are not
    enough, or none."""
    ranked = sorted(denied, key=lambda token: (_RANK.index(denied[token]), token))
    if len(ranked) < len(Signal):
        ranked = [*sorted({*spare} - denied.keys()), *ranked]
    return tuple(ranked[: len(Signal)])


# Which sentinel speaks for a signal, where there are so many. Few of them first tell apart what is
# answered differently: numbers that are none, from a model that is not sure.
_SHARED: Final = {
    1: (0, 0, 0, 0, 0),
    2: (0, 0, 1, 1, 1),
    3: (0, 1, 2, 2, 2),
    4: (0, 1, 2, 3, 2),
    5: (0, 1, 2, 3, 4),
}


def signal_of(token_id: int, sentinels: Sequence[int]) -> Signal | None:
    """What a sentinel says. One that speaks for several signals is read as the gravest of them."""
    if token_id not in sentinels:
        return None
    return Signal(_SHARED[len(sentinels)].index(sentinels.index(token_id)))


def sentinel_for(signal: Signal, sentinels: Sequence[int]) -> int:
    """The id to force."""
    return sentinels[_SHARED[len(sentinels)][signal]]


def seam_bans(words: Iterable[Sequence[int]], carried: Sequence[int]) -> tuple[Ban, ...]:
    """Bans for words (as ids) that began in the carried tokens and would end behind the seam."""
    found: list[Ban] = []
    for word in words:
        for split in range(1, len(word)):
            if len(carried) >= split and tuple(carried[-split:]) == tuple(word[:split]):
                rest = tuple(word[split:])
                found.append(Ban(len(rest) - 1, rest[-1], rest[:-1]))
    return tuple(found)
