"""Thresholds: complete, overridden in order, and wrong ones refused in words that help."""

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest
from sluicegate.guards.checks import own_rules
from sluicegate.guards.checks.thresholds import (
    CALIBRATED,
    BadThresholds,
    Thresholds,
    profile_names,
    read_tables,
    require_usable,
    thresholds,
)
from sluicegate.guards.profiles import profile_names as gate_profiles
from sluicegate.schemas import Rules
from sluicegate.worker.checker import check_tables
from sluicegate.worker.config import Config, ConfigError

ROOT = Path(__file__).parents[3]


def test_there_is_one_for_each_profile_of_the_gates() -> None:
    """A job names one profile, for both."""
    assert set(profile_names()) == set(gate_profiles())
    for name in profile_names():
        assert thresholds(name)


def test_a_deployment_is_stronger_than_the_defaults() -> None:
    tables = read_tables(
        "[base]\npattern_seconds = 5\njson_depth = 7\n[code]\ncheck_language = false\n"
        "repetition_ngram_max = 0\n"
    )
    code = thresholds("code", deployment=tables)
    assert (code.pattern_seconds, code.json_depth, code.check_language) == (5, 7, False)
    assert code.repetition_ngram_max == 0
    assert thresholds("chat", deployment=tables).check_language
    # What a profile says itself is its own.
    assert thresholds(
        "data", deployment=read_tables("[base]\ncheck_rules = false\n")
    ) != thresholds("data")


def test_the_profile_off_has_no_check_but_the_rules() -> None:
    off = thresholds("off")
    on = [name for name in Thresholds.__struct_fields__ if name.startswith("check_")]
    assert [name for name in on if getattr(off, name)] == ["check_rules"]


def test_a_profile_has_rules_of_its_own() -> None:
    tables = read_tables('[base.rules]\nmin_words = 3\n[chat.rules]\nlanguage = "de"\nown = ["x"]')
    assert thresholds("chat", deployment=tables).rules == Rules(
        min_words=3, language="de", own=("x",)
    )
    assert thresholds("code", deployment=tables).rules == Rules(min_words=3)


def test_what_calibration_sets_is_there_and_names_are_not_used_twice() -> None:
    for each in CALIBRATED:
        assert Thresholds.__annotations__[each.key] is float
    assert len({each.key for each in CALIBRATED}) == len(CALIBRATED)
    assert len({each.score for each in CALIBRATED}) == len(CALIBRATED)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[chat", "not TOML: "),
        ("chat = 3", "chat: a profile is a table, such as [chat]"),
        ("[chatt]", "chatt is no profile; did you mean chat?"),
        ("[zzzzz]", "zzzzz is no profile; there are base, chat, "),
        ("[chat]\nperplexity = 3", "profile chat: perplexity is no threshold; did you mean"),
        ("[chat]\ncheck_rules = 1", "profile chat: check_rules: must be true or false, not 1"),
        ("[chat]\njson_depth = 1.5", "profile chat: json_depth: must be a whole number, not 1.5"),
        ("[chat]\njson_depth = true", "profile chat: json_depth: must be a whole number, not True"),
        ("[chat]\njson_depth = 501", "profile chat: json_depth: must be from 1 to 500, not 501"),
        ('[chat]\ncoherence_min = "1"', "profile chat: coherence_min: must be a number, not '1'"),
        ("[chat]\ncoherence_min = nan", "profile chat: coherence_min: must be from "),
        ("[chat]\nperplexity_max = inf", "profile chat: perplexity_max: must be from 0 to "),
        ("[chat]\nrules = 3", "profile chat: rules: must be a table, not 3"),
        ("[chat.rules]\nlangage = 'de'", "profile chat: rules: langage is no rule; did you mean"),
        ("[chat.rules]\nlanguage = 'DE'", "profile chat: rules: Expected `str` matching regex"),
        ("[chat.rules]\nmin_words = 9\nmax_words = 3", "profile chat: rules: min_words: 9 is"),
        ("[chat.rules]\nmust_match = ['(']", "profile chat: rules: must_match: '(': it is no"),
        (
            "[base.rules.json_schema]\ntype = 'strng'",
            "profile base: rules: json_schema: the schema is no JSON Schema",
        ),
    ],
)
def test_wrong_files(text: str, problem: str) -> None:
    with pytest.raises(BadThresholds) as raised:
        read_tables(text)
    assert str(raised.value).startswith(problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "[base.rules]\nmin_words = 50\n[chat.rules]\nmax_words = 10",
            "profile chat: rules: min_words: 50 is more than max_words 10",
        ),
        ('[code.rules]\nown = ["nosuch"]', "profile code: rules: own: there is no rule nosuch"),
        ('[data.rules]\nown = ["ill"]', "profile data: rules: own: loading ill raised "),
        (
            '[base.rules]\nlanguage = "xx"',
            "profile chat: rules: language: the detector does not know xx",
        ),
    ],
)
def test_what_would_fail_on_every_text_is_known_at_the_start(
    text: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ill = EntryPoint("ill", "sluicegate.no_such_module:rule", own_rules.GROUP)

    def installed(**by: str) -> EntryPoints:
        return EntryPoints([ill] if by.get("name", "ill") == "ill" else [])

    monkeypatch.setattr(own_rules, "entry_points", installed)
    own_rules.find_rule.cache_clear()
    with pytest.raises(BadThresholds) as raised:
        require_usable(read_tables(text))
    assert str(raised.value).startswith(problem)


def test_a_file_that_can_be_used() -> None:
    require_usable(read_tables('[base.rules]\nlanguage = "nob"\n[chat.rules]\nmin_words = 3'))


def test_a_checker_does_not_start_with_a_file_that_can_not_be_used(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text("[base.rules]\nmin_words = 9\n[chat.rules]\nmax_words = 3\n")
    config = Config(checks_file=str(own))
    with pytest.raises(ConfigError, match=r"checks_file .*own.toml: profile chat: rules: min_wo"):
        check_tables(config)
    own.write_text("[chat.rules]\nmax_words = 3\n")
    assert check_tables(config) == {"chat": {"rules": {"max_words": 3}}}


def test_wrong_tables() -> None:
    tables: dict[str, dict[str, Any]] = {"code": {"json_depth": 0}}
    with pytest.raises(BadThresholds, match="profile code: json_depth"):
        thresholds("chat", deployment=tables)
    with pytest.raises(BadThresholds, match="chart is no profile; did you mean chat"):
        thresholds("chart")
    # Each table is right, and both together can't be met.
    both = read_tables("[base.rules]\nmin_words = 9\n[chat.rules]\nmax_words = 3")
    assert thresholds("code", deployment=both).rules.min_words == 9
    with pytest.raises(BadThresholds, match="profile chat: rules: min_words"):
        thresholds("chat", deployment=both)


def test_the_page_names_every_threshold_and_check() -> None:
    page = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")
    for name in Thresholds.__struct_fields__:
        assert f"`{name}`" in page, name
    for each in CALIBRATED:
        row = next(line for line in page.splitlines() if line.startswith(f"| `{each.score}` |"))
        assert f"{each.bad} |" in row
        assert f"`{each.key}`*" in row


def test_the_base_has_every_threshold() -> None:
    lines = (ROOT / "guards" / "checks" / "checks.toml").read_text(encoding="utf-8").splitlines()
    base = lines[lines.index("[base]") : lines.index("[chat]")]
    assert set(Thresholds.__struct_fields__) - {"rules"} == {
        line.split(" = ")[0] for line in base if " = " in line and not line.startswith("#")
    }
