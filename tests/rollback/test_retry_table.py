"""The table of retries: complete, overridden key by key, wrong ones refused in words that help."""

import pytest
from sluicegate.rollback import BadPolicy, RetryTable, default_retry_table, read_retry_table
from sluicegate.schemas import Flaw


def rows(table: RetryTable, *flaws: Flaw) -> list[str]:
    return [row.name for row in table.rows_of(flaws)]


def test_every_flaw_has_one_answer_and_every_row_a_flaw() -> None:
    table = default_retry_table()
    answers = {flaw: rows(table, flaw) for flaw in Flaw}
    assert {len(names) for names in answers.values()} == {1}
    assert {names[0] for names in answers.values()} == {row.name for row in table.rows}
    # What no row names is told here, so that a new flaw is thought about.
    assert [flaw for flaw, names in answers.items() if names == ["other"]] == [
        Flaw.PATTERN_MISMATCH,
        Flaw.OWN_RULE,
    ]


def test_several_flaws_are_answered_in_the_tables_order_each_row_once() -> None:
    table = default_retry_table()
    flaws = (Flaw.OWN_RULE, Flaw.MISSING_TEXT, Flaw.WORD_RUN, Flaw.LOOP)
    assert rows(table, *flaws) == ["repetition", "required", "other"]
    assert rows(table) == ["other"]


def test_an_empty_file_is_the_default() -> None:
    assert read_retry_table("") == default_retry_table()


def test_a_key_replaces_that_key_alone() -> None:
    table = read_retry_table("[repetition]\ntemperature_times = 2\n[limits]\nfaults = 2\n")
    (changed,), (own,) = table.rows_of((Flaw.LOOP,)), default_retry_table().rows_of((Flaw.LOOP,))
    assert changed.temperature_times == 2
    assert (changed.flaws, changed.repetition_penalty_by) == (own.flaws, own.repetition_penalty_by)
    assert (table.limits.faults, table.limits.tokens_times) == (2, 4.0)


def test_a_flaw_goes_to_the_row_that_names_it_and_to_other_if_none_does() -> None:
    mine = read_retry_table("[runs]\nflaws = ['word_run', 'own_rule']\nretries = 1\n")
    assert rows(mine, Flaw.WORD_RUN) == ["runs"]
    assert rows(mine, Flaw.LOOP) == ["repetition"]
    assert rows(mine, Flaw.LOOP, Flaw.OWN_RULE) == ["repetition", "runs"]
    fewer = read_retry_table("[repetition]\nflaws = ['loop']\n")
    assert rows(fewer, Flaw.WORD_RUN) == ["other"]
    assert rows(default_retry_table(), Flaw.WORD_RUN) == ["repetition"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[loop", "not TOML"),
        ("json = 3", "json: must be a table, such as [json]"),
        ("[jsn]", "jsn is no row; did you mean json?"),
        ("[zzz]", "zzz is no row; there are broken, "),
        ("[json]\nflaws = 3", "json.flaws: must be a list, not 3"),
        ("[json]\nflaws = ['lop']", "json.flaws: lop is no flaw; did you mean loop?"),
        ("[other]\nflaws = ['loop']", "other.flaws: other answers what no row names; leave flaws"),
        (
            "[json]\ntemperature_time = 1",
            "json.temperature_time is no key of a row; did you mean temperature_times?",
        ),
        (
            "[json]\ntemperature_times = 9",
            "json.temperature_times: must be a number from 0 to 4, not 9",
        ),
        (
            "[json]\nrepetition_penalty_by = -0.1",
            "json.repetition_penalty_by: must be a number from 0 to 1, not -0.1",
        ),
        (
            "[json]\ntop_p_times = true",
            "json.top_p_times: must be a number from 0.1 to 1, not True",
        ),
        (
            "[json]\ntemperature_times = nan",
            "json.temperature_times: must be a number from 0 to 4, not nan",
        ),
        ("[json]\nretries = 0.5", "json.retries: must be a whole number from 0 to 10, not 0.5"),
        ("[json]\navoid_worker = 1", "json.avoid_worker: must be true or false, not 1"),
        (
            "[json]\ninstruction = 'in {lang}'",
            "json.instruction: lang is no place in an instruction; did you mean language?",
        ),
        ("[json]\ninstruction = 3", "json.instruction: must be text of at most 300 characters"),
        (
            "[json]\ninstruction = 'a\\u0007'".replace("'", '"'),
            "json.instruction: must be printable, not U+0007",
        ),
        (
            "[json]\ntemperature_at_least = 1.0\ntemperature_at_most = 0.5",
            "json.temperature_at_least: 1 is more than temperature_at_most 0.5",
        ),
        ("[limits]\nfault = 3", "limits.fault is no limit; did you mean faults?"),
        ("[limits]\nfaults = 11", "limits.faults: must be a whole number from 0 to 10, not 11"),
        (
            "[a]\nflaws = ['loop']\n[b]\nflaws = ['loop']",
            "b.flaws: loop is in a, too; name it once",
        ),
    ],
)
def test_what_is_wrong_is_named(text: str, problem: str) -> None:
    with pytest.raises(BadPolicy) as caught:
        read_retry_table(text)
    assert problem in str(caught.value)
