"""What a gate says when it trips: where, why, and by how much."""

from msgspec import Struct

from ..schemas import Flaw, Level

__all__ = ["Finding", "Flaw", "Level"]


class Finding(Struct, frozen=True, kw_only=True):
    """One trip. Spans are half open: `tokens` from the first token that must go, its onset, to the
    one behind the last seen; `chars` likewise in the text. `score` passed `threshold`."""

    gate: str
    level: Level
    flaw: Flaw
    tokens: tuple[int, int]
    chars: tuple[int, int]
    score: float
    threshold: float
    detail: str = ""
