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
    assert profile("data", deployment=tables).marker_run == 100
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
        ({"mojibake_window": 0}, "mojibake_window: must be from 1 to 100000, not 0"),
        ({"allowed_characters": 7}, "allowed_characters: must be text, not 7"),
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
