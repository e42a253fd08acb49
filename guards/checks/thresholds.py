"""Thresholds of the checks: named sets by profile, overridden per deployment."""

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import Struct

from ...schemas import Rules
from ..near import unknown
from .json_schema import schema_problem
from .language_names import KNOWN, code_of
from .own_rules import UnknownRule, find_rule
from .patterns import pattern_problem

_BASE: Final = "base"
_RULES: Final = "rules"


class BadThresholds(ValueError):
    """Thresholds that can't be used; the message says which and why."""


class Thresholds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The thresholds of every check; `checks.toml` says what each one means.

    `check_*`: whether the check is made at all. `rules`: what the profile demands of every text,
    besides what the job demands.
    """

    check_structure: bool
    check_rules: bool
    check_repetition: bool
    check_language: bool
    check_perplexity: bool
    check_relevance: bool
    check_coherence: bool
    fenced_json: bool
    json_depth: int
    schema_seconds: float
    unclosed_fences: bool
    cut_off: bool
    cut_off_tokens: int
    pattern_seconds: float
    repetition_ngram_max: float
    repetition_compression_max: float
    repetition_characters: int
    duplicate_paragraphs_max: float
    duplicate_paragraphs_similarity: float
    language_letters: int
    language_other_max: float
    language_passage_letters: int
    language_passage_max: float
    language_prompt_letters: int
    language_prompt_min: float
    perplexity_max: float
    perplexity_window_max: float
    perplexity_window_tokens: int
    relevance_min: float
    relevance_similarity_min: float
    coherence_min: float
    rules: Rules = Rules()


class Calibrated(Struct, frozen=True):
    """A threshold that comes from calibration: the check that has it, the score it is held
    against, and on which side of it a text is bad."""

    key: str
    check: str
    score: str
    bad: Literal["above", "below"]


CALIBRATED: Final = (
    Calibrated("repetition_ngram_max", "repetition", "repetition_ngram", "above"),
    Calibrated("repetition_compression_max", "repetition", "repetition_compression", "above"),
    Calibrated("duplicate_paragraphs_max", "repetition", "duplicate_paragraphs", "above"),
    Calibrated("language_other_max", "language", "language_other", "above"),
    Calibrated("language_passage_max", "language", "language_passage", "above"),
    Calibrated("perplexity_max", "perplexity", "perplexity", "above"),
    Calibrated("perplexity_window_max", "perplexity", "perplexity_window", "above"),
    Calibrated("relevance_min", "relevance", "relevance", "below"),
    Calibrated("relevance_similarity_min", "relevance", "relevance_similarity", "below"),
    Calibrated("coherence_min", "coherence", "coherence", "below"),
)

_SHARE: Final = (0.0, 1.0)
# Perplexities and compression ratios have no upper end; this is as good as none.
_ANY: Final = (0.0, 1e12)
_NATS: Final = (-1e6, 1e6)
_RANGES: Final[dict[str, tuple[float, float]]] = {
    # The parser of the standard library calls itself for each level, up to about 1,000.
    "json_depth": (1, 500),
    "schema_seconds": (0.1, 60),
    "cut_off_tokens": (0, 1_000_000),
    "pattern_seconds": (0.01, 60),
    "repetition_ngram_max": _SHARE,
    "repetition_compression_max": _ANY,
    "repetition_characters": (100, 1_000_000),
    "duplicate_paragraphs_max": _SHARE,
    "duplicate_paragraphs_similarity": (0.1, 1.0),
    # With fewer letters the detector guesses.
    "language_letters": (50, 1_000_000),
    "language_other_max": _SHARE,
    "language_passage_letters": (50, 1_000_000),
    "language_passage_max": _SHARE,
    "language_prompt_letters": (50, 1_000_000),
    "language_prompt_min": _SHARE,
    "perplexity_max": _ANY,
    "perplexity_window_max": _ANY,
    "perplexity_window_tokens": (8, 100_000),
    "relevance_min": _NATS,
    "relevance_similarity_min": (-1, 1),
    "coherence_min": _NATS,
}


def thresholds(
    profile: str, *, deployment: Mapping[str, Mapping[str, Any]] | None = None
) -> Thresholds:
    """The thresholds of a profile: the base, then the profile's own table, each first as in
    `checks.toml`, then as the deployment (its tables, from `read_tables`) would have it. Raises
    BadThresholds."""
    own = _own_tables()
    _known(profile, profile_names(), "profile")
    tables = deployment or {}
    for table, values in tables.items():
        _known(table, own, "profile")
        _check(values, f"profile {table}: ")
    fields: dict[str, Any] = {}
    rules: dict[str, Any] = {}
    for table in (_BASE, profile):
        for values in (own[table], tables.get(table, {})):
            fields |= values
            rules |= values.get(_RULES, {})
    # Each table is right by itself; together they may still contradict each other.
    fields[_RULES] = _rules(rules, f"profile {profile}: ")
    return msgspec.convert(fields, Thresholds)


def profile_names() -> tuple[str, ...]:
    """The profiles there are."""
    return tuple(name for name in _own_tables() if name != _BASE)


def read_tables(text: str) -> dict[str, dict[str, Any]]:
    """The tables of a deployment's own file, in the form of `checks.toml`. Raises BadThresholds."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadThresholds(f"not TOML: {error}") from None
    for name, values in tables.items():
        _known(name, _own_tables(), "profile")
        if not isinstance(values, dict):
            raise BadThresholds(f"{name}: a profile is a table, such as [{name}]")
        table = cast("dict[str, Any]", values)
        _check(table, f"profile {name}: ")
        _check_rules(_rules(table.get(_RULES, {}), ""), f"profile {name}: {_RULES}: ")
    return tables


def require_usable(deployment: Mapping[str, Mapping[str, Any]]) -> None:
    """See to it that every profile has thresholds, and rules that this installation can judge by:
    what would fail, or be skipped, on every text had better be known when the checker starts.
    Loads the rule functions. Raises BadThresholds."""
    for profile in profile_names():
        rules = thresholds(profile, deployment=deployment).rules
        where = f"profile {profile}: {_RULES}: "
        if rules.language is not None and code_of(rules.language) not in KNOWN:
            raise BadThresholds(
                f"{where}language: the detector does not know {rules.language}, so no text would "
                "be looked at"
            )
        for name in rules.own:
            try:
                find_rule(name)
            except UnknownRule as error:
                raise BadThresholds(f"{where}own: {error}") from None
            except (Exception, SystemExit) as error:
                what = f"{type(error).__name__}: {error}"
                raise BadThresholds(f"{where}own: loading {name} raised {what}") from error


def _check_rules(rules: Rules, where: str) -> None:
    """What would fail on every text had better be known at once. A schema takes a moment."""
    for key in ("must_match", "must_not_match"):
        for pattern in getattr(rules, key):
            if (problem := pattern_problem(pattern)) is not None:
                raise BadThresholds(f"{where}{key}: {pattern!r}: {problem}")
    if rules.json_schema is not None and (problem := schema_problem(rules.json_schema)) is not None:
        raise BadThresholds(f"{where}json_schema: {problem}")


@cache
def _own_tables() -> dict[str, dict[str, Any]]:
    text = (files(__package__ or "") / "checks.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _check(values: Mapping[str, Any], where: str) -> None:
    kinds = Thresholds.__annotations__
    for key, value in values.items():
        _known(key, Thresholds.__struct_fields__, "threshold", where)
        if key == _RULES:
            _rules(value, where)
        elif kinds[key] is bool:
            if not isinstance(value, bool):
                raise BadThresholds(f"{where}{key}: must be true or false, not {value!r}")
        else:
            _check_number(key, value, whole=kinds[key] is int, where=where)


def _check_number(key: str, value: Any, *, whole: bool, where: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        number = "a whole number" if whole else "a number"
        raise BadThresholds(f"{where}{key}: must be {number}, not {value!r}")
    least, most = _RANGES[key]
    # NaN is in no range.
    if not least <= value <= most:
        raise BadThresholds(f"{where}{key}: must be from {least:g} to {most:g}, not {value}")


def _rules(values: Any, where: str) -> Rules:
    if not isinstance(values, dict):
        raise BadThresholds(f"{where}{_RULES}: must be a table, not {values!r}")
    for key in cast("dict[str, Any]", values):
        _known(key, Rules.__struct_fields__, "rule", f"{where}{_RULES}: ")
    try:
        return msgspec.convert(values, Rules)
    # InvalidMessage comes out of msgspec as a ValidationError.
    except (ValueError, msgspec.ValidationError) as error:
        raise BadThresholds(f"{where}{_RULES}: {error}") from None


def _known(key: str, names: Iterable[str], kind: str, where: str = "") -> None:
    if (problem := unknown(key, names, kind)) is not None:
        raise BadThresholds(f"{where}{problem}")
