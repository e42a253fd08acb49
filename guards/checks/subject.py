"""What the checks look at: one text, with all that is known of how it came about."""

from msgspec import Struct

from ...schemas import FinishReason, Rules, StructuredOutput, TripRecord
from .scores import TextScores


class Subject(Struct, frozen=True, kw_only=True):
    """One finished text. `prompt` is what was asked, as text, the last turn last; `stop` are the
    job's stop strings, one of which may have ended it; `tokens` how many the engine made; `notes`
    what the streaming gates of level 4 saw and let pass; `scores` what the scoring model says, None
    where no check needs it."""

    text: str
    prompt: str = ""
    profile: str = "chat"
    rules: Rules = Rules()
    structured: StructuredOutput | None = None
    finish_reason: FinishReason = "stop"
    stop: tuple[str, ...] = ()
    tokens: int = 0
    notes: tuple[TripRecord, ...] = ()
    scores: TextScores | None = None
