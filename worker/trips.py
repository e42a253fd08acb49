"""Findings in the worker's words: those of the plug-in as findings, all of them as records."""

import math
from typing import Final, Literal

from msgspec import structs

from ..guards.engine_gates import FLAWS, Signal
from ..guards.finding import Finding
from ..guards.profiles import Profile
from ..rollback import Action, GiveUp, Note, Rollback
from ..schemas import FinishReason, SegmentRecord, TripRecord
from ..schemas.errors import tame
from ..schemas.lineage import Channel

_MOST: Final = 1e9


def from_signal(
    signal: Signal, profile: Profile, position: int, characters: int, *, accepted: int | None = None
) -> Finding:
    """What the plug-in found at the token that was to come next. Its span begins with the streak or
    window that it judged. `position` and `characters` are of the text, `accepted` of all that was
    accepted before, by which the plug-in counts; None: the same."""
    level, flaw = FLAWS[signal]
    counted = position if accepted is None else accepted
    back, threshold, detail = 1, 0.0, "the logits were not finite"
    match signal:
        case Signal.UNIFORM:
            detail = "all candidates were as likely as each other"
        case Signal.LOW_CONFIDENCE:
            back, threshold = (
                _streak(
                    counted, profile, profile.low_confidence_edge, profile.low_confidence_middle
                ),
                profile.logits_max_prob_threshold,
            )
            detail = "no candidate was likely, several steps in a row"
        case Signal.FEW_CANDIDATES:
            back, threshold = (
                _streak(
                    counted, profile, profile.few_candidates_edge, profile.few_candidates_middle
                ),
                profile.valid_token_count_threshold,
            )
            detail = "there was next to no choice, many steps in a row"
        case Signal.LOST_CONFIDENCE:
            back, threshold = profile.confidence_window, profile.min_confidence
            detail = "the model lost its confidence over a window"
        case Signal.NON_FINITE:
            pass
    return Finding(
        gate="logits",
        level=level,
        flaw=flaw,
        tokens=(max(0, position + 1 - back), position + 1),
        chars=(characters, characters),
        score=back,
        threshold=threshold,
        detail=detail,
    )


def _streak(position: int, profile: Profile, edge: int, middle: int) -> int:
    """How many steps tripped, this one included. Near the end of the text it may have been as many
    as in the middle."""
    return edge if edge > 0 and position < profile.logits_edge_tokens else max(edge, middle, 1)


def record(
    finding: Finding,
    action: Action,
    *,
    segment: int,
    wasted: int,
    banned: int | None,
    quote: str = "",
    channel: Channel = "content",
) -> TripRecord:
    """A finding and its answer, for the lineage."""
    rolled_back = action if isinstance(action, Rollback) else None
    return TripRecord(
        segment=segment,
        gate=finding.gate,
        level=finding.level,
        flaw=finding.flaw,
        tokens=finding.tokens,
        chars=finding.chars,
        score=_number(finding.score),
        threshold=_number(finding.threshold),
        detail=tame(finding.detail)[:500],
        quote=tame(quote),
        channel=channel,
        action=_named(action),
        kept=rolled_back.keep if rolled_back else 0,
        wasted=wasted,
        banned=banned,
    )


def _named(action: Action) -> Literal["note", "rollback", "cut", "give_up"]:
    match action:
        case Rollback():
            return "cut" if action.changes.close else "rollback"
        case GiveUp():
            return "give_up"
        case Note():
            return "note"


def finished(
    record: SegmentRecord, *, tokens: int, engine_s: float, finish: FinishReason | None
) -> SegmentRecord:
    """The record of a segment that is over, with what came of it."""
    return structs.replace(record, tokens=tokens, engine_s=engine_s, finish_reason=finish)


def _number(value: float) -> float:
    """JSON has no infinity."""
    return 0.0 if math.isnan(value) else max(-_MOST, min(_MOST, value))
