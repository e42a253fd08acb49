"""The watchdog's thresholds: complete, overridden in order, and wrong ones refused in words that
help."""

from typing import Any

import pytest
from sluicegate.guards.watchdog_thresholds import (
    BadWatchdog,
    Watchdog,
    read_watchdog,
    task_types,
    watchdog,
)


def test_there_are_four_and_each_is_its_own() -> None:
    assert task_types() == ("default", "qa", "analysis", "coding")
    assert len({watchdog(name) for name in task_types()}) == 4
    assert watchdog() == watchdog("default")


def test_the_specification() -> None:
    rules = watchdog()
    assert (rules.rounds_max, rules.calls_per_minute_max, rules.repeat_rate_max) == (25, 15, 0.4)
    assert (rules.round_seconds_max, rules.similarity_jaccard) == (90, 0.85)
    assert (rules.similarity_cosine, rules.repeat_window, rules.similarity_window) == (0.92, 20, 5)
    points = (rules.repeat_points, rules.similarity_points, rules.rounds_points)
    assert (*points, rules.token_rate_points) == (2, 2, 3, 3)
    assert (rules.warn_score, rules.trip_score, rules.warnings_max) == (3, 6, 3)


def test_as_worded_has_no_correction() -> None:
    rules = watchdog(as_worded=True)
    switches = [name for name, kind in Watchdog.__annotations__.items() if kind is bool]
    assert len(switches) == 12
    assert all(getattr(watchdog(), name) for name in switches)
    assert not any(getattr(rules, name) for name in switches)
    assert (rules.circle_points, rules.repeat_min_calls) == (0, 4)
    # A task type is still one.
    assert watchdog("qa", as_worded=True).rounds_max == watchdog("qa").rounds_max
    assert watchdog(overrides={"news_clears": True}, as_worded=True).news_clears


@pytest.mark.parametrize("name", [n for n, k in Watchdog.__annotations__.items() if k is bool])
def test_each_correction_is_a_switch(name: str) -> None:
    rules = watchdog(overrides={name: False})
    assert not getattr(rules, name)
    assert rules != watchdog()


def test_a_job_is_stronger_than_the_deployment_and_that_than_the_default() -> None:
    tables = read_watchdog("[default]\nrounds_max = 9\n[legal]\nrounds_max = 70\n[qa]\n")
    assert watchdog(deployment=tables).rounds_max == 9
    assert watchdog("legal", deployment=tables).rounds_max == 70
    # What a type says itself is its own.
    assert watchdog("qa", deployment=tables).rounds_max == 12
    assert watchdog("legal", {"rounds_max": 8}, deployment=tables).rounds_max == 8
    assert watchdog("legal", deployment=tables).repeat_rate_max == 0.4
    assert task_types(tables)[-1] == "legal"


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({"round_max": 5}, "round_max is no threshold; did you mean rounds_max?"),
        ({"zzz": 5}, "zzz is no threshold; there are call_rate_points, "),
        ({"rounds_max": "5"}, "rounds_max: must be a whole number, not '5'"),
        ({"rounds_max": True}, "rounds_max: must be a whole number, not True"),
        ({"rounds_max": 1.5}, "rounds_max: must be a whole number, not 1.5"),
        ({"rounds_max": 0}, "rounds_max: must be from 1 to 10000, not 0"),
        ({"repeat_rate_max": 40}, "repeat_rate_max: must be from 0 to 1, not 40"),
        ({"repeat_rate_max": None}, "repeat_rate_max: must be a number, not None"),
        ({"repeat_points": -1}, "repeat_points: must be from 0 to 100, not -1"),
        ({"prose_only": 1}, "prose_only: must be true or false, not 1"),
        ({"memory_rounds": 65}, "memory_rounds: must be from 8 to 64, not 65"),
        ({"similarity_jaccard": float("nan")}, "similarity_jaccard: must be from 0 to 1, not nan"),
        ({"trip_score": 2}, "trip_score: must be at least warn_score, 3, not 2"),
    ],
)
def test_wrong_overrides(overrides: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadWatchdog) as raised:
        watchdog("default", overrides)
    assert str(raised.value).startswith(problem)


def test_a_deployment_is_told_which_table_is_wrong() -> None:
    with pytest.raises(BadWatchdog, match="task type qa: rounds_max: must be a whole number"):
        watchdog(deployment={"qa": {"rounds_max": "x"}})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[qa", "not TOML"),
        ("qa = 3\n", "qa: a task type is a table, such as [qa]"),
        ("[Legal]\n", "'Legal': a task type begins with a small letter"),
        ("[as_worded]\n", "as_worded: is the specification's own"),
        ("[qa]\nrounds = 3\n", "task type qa: rounds is no threshold; did you mean "),
    ],
)
def test_wrong_tables(text: str, problem: str) -> None:
    with pytest.raises(BadWatchdog) as raised:
        read_watchdog(text)
    assert str(raised.value).startswith(problem)


def test_a_type_that_is_none() -> None:
    with pytest.raises(BadWatchdog, match="codin is no task type; did you mean coding"):
        watchdog("codin")
    with pytest.raises(BadWatchdog, match="as_worded is no task type"):
        watchdog("as_worded")
