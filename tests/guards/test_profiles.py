"""Profiles: complete, overridden in order, and wrong ones refused in words that help."""

from typing import Any

import pytest
from sluicegate.guards.profiles import BadProfile, profile, profile_names, read_tables


def test_there_are_seven_and_each_is_complete() -> None:
    assert profile_names() == ("chat", "code", "summary", "creative", "data", "ocr", "off")
    made = {name: profile(name) for name in profile_names()}
    assert len(set(made.values())) == len(made)


def test_a_job_is_stronger_than_the_deployment_and_that_than_the_default() -> None:
    tables = read_tables("[base]\nword_run = 5\nmarker_run = 6\n[chat]\nmarker_run = 7\n")
    assert profile("chat").word_run == 20
    chat = profile("chat", {"word_run": 9}, deployment=tables)
    assert (chat.word_run, chat.marker_run) == (9, 7)
    # What is off stays off, and what a profile says itself is its own.
    assert profile("summary", deployment=tables).marker_run == 6
    assert profile("data", deployment=tables).marker_run == 24
    assert profile("off", deployment=tables) == profile("off")


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({"carachter_run": 5}, "carachter_run is no threshold; did you mean character_run?"),
        ({"zzz": 5}, "zzz is no threshold; there are allowed_characters, "),
        ({"word_run": "5"}, "word_run: must be a whole number, not '5'"),
        ({"word_run": True}, "word_run: must be a whole number, not True"),
        ({"word_run": 1.5}, "word_run: must be a whole number, not 1.5"),
        ({"word_run": -1}, "word_run: must be from 0 to 100000, not -1"),
        ({"mojibake_window": 0}, "mojibake_window: must be from 1 to 1000, not 0"),
        ({"novelty_window": 0}, "novelty_window: must be from 1 to 10000, not 0"),
        ({"marker_run": 100_000}, "marker_run: must be from 0 to 200, not 100000"),
        ({"control_characters": 1001}, "control_characters: must be from 0 to 1000, not 1001"),
        ({"character_window": 10_001}, "character_window: must be from 1 to 10000, not 10001"),
        ({"coherence_every": 1}, "coherence_every: must be from 8 to 1000, not 1"),
        ({"coherence_findings": 101}, "coherence_findings: must be from 1 to 100, not 101"),
        ({"confidence_window": 1001}, "confidence_window: must be from 0 to 1000, not 1001"),
        ({"hold_back_tokens": 10_001}, "hold_back_tokens: must be from 0 to 10000, not 10001"),
        ({"denied_characters": "x" * 1001}, "denied_characters: must be at most 1000 characters"),
        ({"allowed_characters": 7}, "allowed_characters: must be text, not 7"),
        ({"incoherence": "1"}, "incoherence: must be a number, not '1'"),
        ({"incoherence": True}, "incoherence: must be a number, not True"),
        ({"min_confidence": 0.5}, "min_confidence: must be from -100 to 0, not 0.5"),
        ({"max_repetition_ratio": 1.5}, "max_repetition_ratio: must be from 0 to 1, not 1.5"),
        ({"coherence_window": 20}, "coherence_window: must be from 50 to 300, not 20"),
    ],
)
def test_wrong_overrides(overrides: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadProfile) as raised:
        profile("chat", overrides)
    assert str(raised.value).startswith(problem)
    with pytest.raises(BadProfile, match="profile code: "):
        profile("chat", deployment={"code": overrides})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[chatt]\n", "chatt is no profile; did you mean chat?"),
        ("chat = 3\n", "chat: a profile is a table"),
        ("[chat", "not TOML"),
        (
            "[chat]\nword_rum = 3\n",
            "profile chat: word_rum is no threshold; did you mean word_run?",
        ),
    ],
)
def test_wrong_tables(text: str, problem: str) -> None:
    with pytest.raises(BadProfile) as raised:
        read_tables(text)
    assert str(raised.value).startswith(problem)


def test_a_name_that_is_none() -> None:
    with pytest.raises(BadProfile, match="cod is no profile; did you mean code"):
        profile("cod")
    with pytest.raises(BadProfile, match="base is no profile"):
        profile("base")


def test_a_number_may_be_whole() -> None:
    assert profile("chat", {"max_repetition_ratio": 1}).max_repetition_ratio == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none(value: float) -> None:
    with pytest.raises(BadProfile, match="min_confidence: must be from -100 to 0"):
        profile("chat", {"min_confidence": value})


def test_a_file_of_the_workers_is_not_for_a_job_to_name() -> None:
    with pytest.raises(BadProfile, match="coherence_model: a deployment sets it, not a job"):
        profile("chat", {"coherence_model": "/etc/passwd"})
    tables = read_tables("[chat]\ncoherence_model = '/models/en.bin'\n")
    assert profile("chat", deployment=tables).coherence_model == "/models/en.bin"


def test_what_the_engine_is_asked() -> None:
    said = {"min_confidence": -4.0, "low_confidence_edge": 2, "logits_edge_tokens": 9}
    asked = profile("chat", said).engine_gates(7, 300)
    assert (asked.position, asked.max_tokens, asked.edge) == (7, 300, 9)
    assert (asked.min_confidence, asked.low_confidence_edge) == (-4.0, 2)
    off = profile("off").engine_gates()
    assert (off.low_confidence_edge, off.low_confidence_middle, off.confidence_window) == (0, 0, 0)
    assert (off.few_candidates_edge, off.few_candidates_middle) == (0, 0)
