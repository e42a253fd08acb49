"""Flaws: the closed list of what a gate can find, and the levels that gates look on."""

from enum import IntEnum, StrEnum


class Level(IntEnum):
    """Where a gate looks. Levels 1 to 5: later ones see more and cost more. 6: the reasoning before
    the answer, as it comes."""

    LOGITS = 1
    TOKEN = 2
    TEXT = 3
    COHERENCE = 4
    OUTPUT = 5
    REASONING = 6


class Flaw(StrEnum):
    """Why a gate tripped. Codes are added, never renamed."""

    # 1: the distribution that a token was to be drawn from
    NON_FINITE_LOGITS = "non_finite_logits"
    UNIFORM_LOGITS = "uniform_logits"
    LOW_CONFIDENCE = "low_confidence"
    FEW_CANDIDATES = "few_candidates"
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
    SCRIPT_SWITCH = "script_switch"
    GIBBERISH = "gibberish"
    # 4: a window of text
    LOST_CONFIDENCE = "lost_confidence"
    INCOHERENT = "incoherent"
    SCRIPT_BREAK = "script_break"
    LOW_NOVELTY = "low_novelty"
    # 5: the whole output
    EMPTY_ANSWER = "empty_answer"
    TOO_SHORT = "too_short"
    REPETITIVE = "repetitive"
    UNFINISHED_CHARACTER = "unfinished_character"
    ENGINE_REPETITION = "engine_repetition"
    ENGINE_ABORT = "engine_abort"
    # 5, by the checker
    HIGH_PERPLEXITY = "high_perplexity"
    IRRELEVANT = "irrelevant"
    DISJOINTED = "disjointed"
    WRONG_LANGUAGE = "wrong_language"
    NEAR_DUPLICATES = "near_duplicates"
    INVALID_JSON = "invalid_json"
    SCHEMA_MISMATCH = "schema_mismatch"
    UNCLOSED_FENCE = "unclosed_fence"
    CUT_OFF = "cut_off"
    MISSING_TEXT = "missing_text"
    FORBIDDEN_TEXT = "forbidden_text"
    PATTERN_MISMATCH = "pattern_mismatch"
    TOO_LONG = "too_long"
    OWN_RULE = "own_rule"
    CHECK_FAILED = "check_failed"
    # 6: the reasoning
    REASONING_CAP = "reasoning_cap"
    REASONING_LOOP = "reasoning_loop"
    REASONING_PARAGRAPHS = "reasoning_paragraphs"
    REASONING_NGRAMS = "reasoning_ngrams"
    REASONING_SENTENCES = "reasoning_sentences"
    REASONING_OPENINGS = "reasoning_openings"
    REASONING_UNCLOSED = "reasoning_unclosed"
    REASONING_AGAIN = "reasoning_again"
    REASONING_END_AGAIN = "reasoning_end_again"
    REASONING_NO_ANSWER = "reasoning_no_answer"

    @property
    def is_of_reasoning(self) -> bool:
        """Whether it is about the reasoning, or what came of it."""
        return self.value.startswith("reasoning_")
