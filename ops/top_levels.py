"""On which level a flaw is found, for counts that know the flaw alone."""

from typing import Final

from ..schemas import Flaw, Level

# The first flaw of each level: `Flaw` lists them level by level.
_FIRST: Final = {
    Flaw.NON_FINITE_LOGITS: Level.LOGITS,
    Flaw.ID_OUT_OF_RANGE: Level.TOKEN,
    Flaw.CONTROL_CHARACTER: Level.TEXT,
    Flaw.LOST_CONFIDENCE: Level.COHERENCE,
    Flaw.EMPTY_ANSWER: Level.OUTPUT,
    Flaw.REASONING_CAP: Level.REASONING,
}


def _levels() -> dict[str, Level]:
    found: dict[str, Level] = {}
    level = Level.LOGITS
    for flaw in Flaw:
        level = _FIRST.get(flaw, level)
        found[flaw.value] = level
    return found


_LEVELS: Final = _levels()


def level_of(flaw: str) -> str:
    """The level's name, in lower case; "other" for a flaw that is not known here."""
    level = _LEVELS.get(flaw)
    return level.name.lower() if level is not None else "other"
