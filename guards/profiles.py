"""Profiles: named sets of thresholds, overridden per deployment and per job."""

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from ..schemas.limits import MAX_OUTPUT_TOKENS
from .engine_gates import EngineGates
from .near import unknown

_BASE: Final = "base"


class BadProfile(ValueError):
    """Thresholds that can't be used; the message says which and why."""


class Profile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The thresholds of every gate; `profiles.toml` says what each one means."""

    logits_max_prob_threshold: float
    valid_token_count_threshold: int
    low_confidence_edge: int
    low_confidence_middle: int
    few_candidates_edge: int
    few_candidates_middle: int
    logits_edge_tokens: int
    confidence_window: int
    min_confidence: float
    silent_tokens: int
    character_window: int
    control_characters: int
    private_use_characters: int
    unassigned_characters: int
    replacement_characters: int
    mojibake: int
    mojibake_window: int
    allowed_characters: str
    denied_characters: str
    character_run: int
    fill_run: int
    line_run: int
    space_run: int
    word_run: int
    marker_run: int
    script_switch_after: int
    script_switch_words: int
    script_switch_letters: int
    script_switch_latin: int
    loop_period: int
    loop_copies: int
    loop_tokens: int
    loop_characters: int
    long_loop_period: int
    long_loop_copies: int
    long_loop_tokens: int
    coherence_window: int
    coherence_every: int
    coherence_findings: int
    coherence_span: int
    incoherence: float
    gibberish: float
    long_coherence_window: int
    long_gibberish: float
    broken_words: float
    script_breaks: int
    coherence_model: str
    coherence_score_threshold: float
    novelty_window: int
    min_novelty: float
    min_length: int
    max_repetition_ratio: float
    structured_text_gates: int
    hold_back_tokens: int
    checkpoint_interval: int
    max_rollbacks: int
    max_wasted_tokens: int
    max_rollback_seconds: float
    reasoning_mode: str
    reasoning_effort: str | int
    reasoning_low: int
    reasoning_medium: int
    reasoning_high: int
    reasoning_max: int
    reasoning_answer_share: float
    reasoning_novelty_window: int
    reasoning_min_novelty: float
    reasoning_stale_cost: float
    reasoning_stale_share: float
    reasoning_loop_period: int
    reasoning_loop_copies: int
    reasoning_loop_tokens: int
    reasoning_long_loop_period: int
    reasoning_long_loop_copies: int
    reasoning_long_loop_tokens: int
    reasoning_loop_symbols: int
    reasoning_memory: int
    reasoning_paragraph_tokens: int
    reasoning_sentence_tokens: int
    reasoning_counter_tokens: int
    reasoning_ngram_window: int
    reasoning_ngram_tokens: int
    reasoning_opening_window: int
    reasoning_opening_tokens: int

    def engine_gates(self, position: int = 0, max_tokens: int = 0) -> EngineGates:
        """What a request asks of the plug-in in the engine, for a segment that begins behind
        `position` accepted tokens of a text of at most `max_tokens` (0: not known)."""
        return EngineGates(
            max_probability=self.logits_max_prob_threshold,
            low_confidence_edge=self.low_confidence_edge,
            low_confidence_middle=self.low_confidence_middle,
            min_candidates=self.valid_token_count_threshold,
            few_candidates_edge=self.few_candidates_edge,
            few_candidates_middle=self.few_candidates_middle,
            edge=self.logits_edge_tokens,
            confidence_window=self.confidence_window,
            min_confidence=self.min_confidence,
            position=position,
            max_tokens=max_tokens,
        )


# Gates look back so far, or find so many; beyond this, time and memory are no longer small.
_AT_MOST: Final = 100_000
_TEXT_AT_MOST: Final = 1_000  # characters
# Where 0 would not mean "off" but nonsense.
_POSITIVE: Final = (1, _AT_MOST)
# How many characters of a kind.
_COUNT: Final = (0, 1_000)
_SHARE: Final = (0, 1)
_REASONING: Final = (0, MAX_OUTPUT_TOKENS)
_RANGES: Final[dict[str, tuple[float, float]]] = {
    "confidence_window": (0, 1_000),
    "character_window": (1, 10_000),
    "control_characters": _COUNT,
    "private_use_characters": _COUNT,
    "unassigned_characters": _COUNT,
    "replacement_characters": _COUNT,
    # A look over mojibake costs 2 microseconds a picture and 23 the thousand other characters.
    "mojibake": (0, 20),
    "mojibake_window": (1, 1_000),
    "marker_run": (0, 200),
    "loop_period": _POSITIVE,
    "long_loop_period": _POSITIVE,
    # A look that comes near its limit costs up to a microsecond a character.
    "coherence_window": (50, 300),
    "long_coherence_window": (50, 500),
    "coherence_every": (8, 1_000),
    "coherence_findings": (1, 100),
    "coherence_span": (1, 10_000),
    "novelty_window": (1, 10_000),
    "logits_max_prob_threshold": _SHARE,
    "min_confidence": (-100, 0),
    "coherence_score_threshold": (-100, 0),
    "min_novelty": _SHARE,
    "max_repetition_ratio": _SHARE,
    "structured_text_gates": _SHARE,
    "hold_back_tokens": (0, 10_000),
    "max_wasted_tokens": (0, 10_000_000),
    "reasoning_effort": _REASONING,
    "reasoning_low": _REASONING,
    "reasoning_medium": _REASONING,
    "reasoning_high": _REASONING,
    "reasoning_max": _REASONING,
    "reasoning_answer_share": (0.01, 0.99),
    "reasoning_novelty_window": (32, 10_000),
    "reasoning_min_novelty": _SHARE,
    "reasoning_stale_cost": (1, 16),
    "reasoning_stale_share": (0, 0.9),
    "reasoning_loop_period": _POSITIVE,
    "reasoning_long_loop_period": _POSITIVE,
    "reasoning_memory": (256, _AT_MOST),
    "reasoning_ngram_window": _POSITIVE,
    "reasoning_opening_window": _POSITIVE,
}
_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "reasoning_mode": ("off", "observe", "cut"),
    "reasoning_effort": ("low", "medium", "high", "max"),
}
# A number, or a name for one.
_NAMED_NUMBERS: Final = ("reasoning_effort",)
# A file of the worker's: not for a job to name.
_DEPLOYMENT_ONLY: Final = ("coherence_model",)


def profile(
    name: str,
    overrides: Mapping[str, Any] | None = None,
    *,
    deployment: Mapping[str, Mapping[str, Any]] | None = None,
) -> Profile:
    """The profile with a name: the base, then the profile's own table, each first as in
    `profiles.toml`, then as the deployment (its tables, from `read_tables`) would have it; and over
    all that the overrides of one job. Raises BadProfile."""
    own = _own_tables()
    _known(name, profile_names(), "profile")
    tables = deployment or {}
    for table, values in tables.items():
        _known(table, own, "profile")
        _check(values, f"profile {table}: ")
    fields: dict[str, Any] = {}
    for table in (_BASE, name):
        fields |= own[table]
        fields |= tables.get(table, {})
    said = overrides or {}
    for key in _DEPLOYMENT_ONLY:
        if key in said:
            raise BadProfile(f"{key}: a deployment sets it, not a job")
    _check(said, "")
    fields |= said
    return msgspec.convert(fields, Profile)


def profile_names() -> tuple[str, ...]:
    """The profiles there are."""
    return tuple(name for name in _own_tables() if name != _BASE)


def read_tables(text: str) -> dict[str, dict[str, Any]]:
    """The tables of a deployment's own file, in the form of `profiles.toml`. Raises BadProfile."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadProfile(f"not TOML: {error}") from None
    for name, values in tables.items():
        _known(name, _own_tables(), "profile")
        if not isinstance(values, dict):
            raise BadProfile(f"{name}: a profile is a table, such as [{name}]")
        _check(cast("dict[str, Any]", values), f"profile {name}: ")
    return tables


@cache
def _own_tables() -> dict[str, dict[str, Any]]:
    text = (files(__package__ or "") / "profiles.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _check(values: Mapping[str, Any], where: str) -> None:
    kinds = Profile.__annotations__
    for key, value in values.items():
        _known(key, Profile.__struct_fields__, "threshold", where)
        kind = kinds[key]
        if key in _NAMED_NUMBERS:
            kind = int if type(value) is int else str
        if kind is str:
            if not isinstance(value, str):
                raise BadProfile(f"{where}{key}: must be text, not {value!r}")
            if len(value) > _TEXT_AT_MOST:
                raise BadProfile(
                    f"{where}{key}: must be at most {_TEXT_AT_MOST} characters, not {len(value)}"
                )
            if value not in _CHOICES.get(key, (value,)):
                choices = ", ".join(_CHOICES[key])
                number = ", or a whole number" if key in _NAMED_NUMBERS else ""
                raise BadProfile(f"{where}{key}: must be one of {choices}{number}, not {value!r}")
            continue
        least, most = _RANGES.get(key, (0, _AT_MOST))
        if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else int):
            number = "a number" if kind is float else "a whole number"
            raise BadProfile(f"{where}{key}: must be {number}, not {value!r}")
        if not least <= value <= most:
            raise BadProfile(f"{where}{key}: must be from {least} to {most}, not {value}")


def _known(key: str, names: Iterable[str], kind: str, where: str = "") -> None:
    if (problem := unknown(key, names, kind)) is not None:
        raise BadProfile(f"{where}{problem}")
