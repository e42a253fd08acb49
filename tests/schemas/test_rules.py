"""Rules of a job and of its profile, both in force."""

from typing import Any

import pytest
from sluicegate.schemas import InvalidMessage, Rules

OURS = Rules(must_include=("a", "b"), max_words=50, min_words=5, language="de")
THEIRS = Rules(must_include=("b", "c"), max_words=30, json=True, language="en", own=("tone",))


def test_what_either_demands_is_demanded() -> None:
    assert OURS.beside(THEIRS) == Rules(
        must_include=("a", "b", "c"),
        min_words=5,
        max_words=30,
        json=True,
        language="de",
        own=("tone",),
    )


def test_no_rules_change_nothing() -> None:
    assert OURS.beside(Rules()) == OURS == Rules().beside(OURS)


def test_rules_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidMessage, match="min_words"):
        OURS.beside(Rules(max_words=4))


@pytest.mark.parametrize("name", ["must_include", "must_not_include"])
def test_a_phrase_of_nothing_but_blanks_is_refused(name: str) -> None:
    said: dict[str, Any] = {name: ("fine", " \n")}
    with pytest.raises(InvalidMessage, match="blanks"):
        Rules(**said)
