"""What a gate says when it trips: where, why, and by how much."""

from enum import IntEnum, StrEnum

from msgspec import Struct


class Level(IntEnum):
    """Where a gate looks. Later levels see more and cost more."""

    LOGITS = 1
    TOKEN = 2
    TEXT = 3
    COHERENCE = 4
    OUTPUT = 5


class Flaw(StrEnum):
    """Why a gate tripped. Codes are added, never renamed."""

    # 2: token ids
    ID_OUT_OF_RANGE = "id_out_of_range"
    DENIED_TOKEN = "denied_token"  # noqa: S105
    SILENT_TOKENS = "silent_tokens"
    # 3: text as it comes
    CONTROL_CHARACTER = "control_character"
    PRIVATE_USE = "private_use"
    UNASSIGNED = "unassigned"
    REPLACEMENT_CHARACTER = "replacement_character"
    MOJIBAKE = "mojibake"
    DENIED_CHARACTER = "denied_character"
    CHARACTER_RUN = "character_run"
    WORD_RUN = "word_run"
    MARKER_RUN = "marker_run"
    LOOP = "loop"


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
