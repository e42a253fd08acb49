"""The policy table: complete, overridden key by key, and wrong ones refused in words that help."""

import pytest
from sluicegate.rollback import BadPolicy, Table, default_table, read_table
from sluicegate.rollback.table import Row
from sluicegate.schemas import Flaw

from .attempts import finding


def row(table: Table, flaw: Flaw) -> Row:
    return table.row(finding(flaw, 0, 1))


def test_the_rows_of_the_default() -> None:
    table = default_table()
    by_flaw = {flaw: row(table, flaw).name for flaw in Flaw}
    assert by_flaw[Flaw.REASONING_CAP] == "reasoning"
    assert by_flaw[Flaw.REASONING_AGAIN] == "thinking"
    assert by_flaw[Flaw.UNIFORM_LOGITS] == "numeric"
    assert by_flaw[Flaw.FEW_CANDIDATES] == "logits"
    assert by_flaw[Flaw.ID_OUT_OF_RANGE] == "token"
    assert by_flaw[Flaw.PRIVATE_USE] == "text"
    assert by_flaw[Flaw.ENGINE_REPETITION] == "loop"
    assert by_flaw[Flaw.LOST_CONFIDENCE] == "coherence"
    assert by_flaw[Flaw.TOO_SHORT] == "output"
    # No row that nothing comes to.
    assert set(by_flaw.values()) == {each.name for each in table.rows}


def test_an_empty_file_is_the_default() -> None:
    assert read_table("") == default_table()


def test_a_key_of_a_row_replaces_that_key_alone() -> None:
    table = read_table("[loop]\nrungs = [{ at = 'onset', back = 3, reseed = true, tries = 2 }]\n")
    changed, own = row(table, Flaw.LOOP), row(default_table(), Flaw.LOOP)
    assert changed.flaws == own.flaws
    assert [(rung.back, rung.tries) for rung in changed.rungs] == [(3, 2)]
    assert changed.rungs[0].changes.reseed
    assert row(table, Flaw.MOJIBAKE) == row(default_table(), Flaw.MOJIBAKE)


def test_a_flaw_goes_to_the_row_that_names_it_and_back_to_its_level_if_none_does() -> None:
    mine = read_table("[runs]\nflaws = ['word_run']\nthen = 'note'\n")
    assert row(mine, Flaw.WORD_RUN).name == "runs"
    assert row(mine, Flaw.LOOP).name == "loop"
    fewer = read_table("[loop]\nflaws = ['loop']\n")
    assert row(fewer, Flaw.WORD_RUN).name == "text"
    level = read_table("[strict]\nlevel = 4\n")
    assert row(level, Flaw.LOST_CONFIDENCE).name == "strict"
    assert row(level, Flaw.LOW_NOVELTY).name == "soft"


def test_a_change_in_one_file_is_not_seen_in_the_next() -> None:
    read_table("[mine]\nflaws = ['loop']\n")
    assert row(default_table(), Flaw.LOOP).name == "loop"
    assert read_table("") == default_table()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[loop", "not TOML"),
        ("loop = 3", "loop: must be a table, such as [loop]"),
        ("[lop]", "lop is no row; did you mean loop?"),
        ("[zzz]", "zzz is no row; there are abort, "),
        ("[loop]\nrung = []", "loop.rung is no key of a row; did you mean rungs?"),
        ("[loop]\nrungs = 3", "loop.rungs: must be a list, not 3"),
        ("[loop]\nrungs = [3]", "loop.rungs, number 1: must be a table, such as "),
        ("[loop]\nrungs = [{ ban = true }]", "loop.rungs, number 1: at is missing; write at = "),
        (
            "[loop]\nrungs = [{ at = 'start', ban = true }]",
            "loop.rungs, number 1: at: must be one of onset, end, prompt, not 'start'",
        ),
        (
            "[loop]\nrungs = [{ at = 'end', bann = true }]",
            "loop.rungs, number 1: bann is no key of a rung; did you mean ban?",
        ),
        (
            "[loop]\nrungs = [{ at = 'end', back = 4, temperature_times = 1.0 }]",
            "loop.rungs, number 1: changes nothing",
        ),
        (
            "[text]\nrungs = [{at = 'end', ban = true}, {at = 'end', greedy = true, tries = 2}]",
            "text.rungs, number 2: tries = 2 needs ban or reseed",
        ),
        (
            "[loop]\nrungs = [{ at = 'end', ban = true, tries = 3 }]",
            "loop.rungs, number 1: tries: must be a whole number from 1 to 2, not 3",
        ),
        (
            "[loop]\nrungs = [{ at = 'end', ban = 1 }]",
            "loop.rungs, number 1: ban: must be true or false, not 1",
        ),
        (
            "[loop]\nrungs = [{ at = 'end', temperature_at_least = 3 }]",
            "loop.rungs, number 1: temperature_at_least: must be a number from 0 to 2, not 3",
        ),
        (
            "[loop]\nrungs = [{ at = 'end', top_p_at_most = nan }]",
            "loop.rungs, number 1: top_p_at_most: must be a number from 0.01 to 1, not nan",
        ),
        (
            "[loop]\nrungs = [{ at = 'end', guide = 3 }]",
            "loop.rungs, number 1: guide: must be text of at most 200 characters",
        ),
        (
            "[loop]\nrungs = [{ at = 'onset', ban = true, greedy = true }]",
            "loop.rungs, number 1: less heat brings a loop back; use temperature_at_least",
        ),
        ("[loop]\nflaws = ['lop']", "loop.flaws: lop is no flaw; did you mean loop?"),
        ("[loop]\nflaws = 'loop'", "loop.flaws: must be a list, not 'loop'"),
        (
            "[a]\nflaws = ['loop']\n[b]\nflaws = ['loop']",
            "b.flaws: loop is in a, too; name it once",
        ),
        ("[a]\nlevel = 3\n[b]\nlevel = 3", "b.level: 3 is that of a, too"),
        (
            "[loop]\nrungs = [{ at = 'onset', close = true }]",
            "loop.rungs, number 1: close is for the row of level 6",
        ),
        (
            "[reasoning]\nrungs = [{ at = 'onset', share = 2, close = true }]",
            "reasoning.rungs, number 1: share: must be a number from 0 to 1, not 2",
        ),
        ("[a]\nlevel = 7", "a.level: must be a level from 1 to 6, not 7"),
        ("[text]\nlevel = 3.0", "text.level: must be a level from 1 to 6, not 3.0"),
        (
            "[loop]\nrungs = [{ at = 'end', guide = \"a\\u0000\" }]",
            "loop.rungs, number 1: guide: must be printable, or line breaks and tabs, not U+0000",
        ),
        (
            f"[loop]\nrungs = [{{ at = 'end', guide = '{'x' * 201}' }}]",
            "loop.rungs, number 1: guide: must be text of at most 200 characters",
        ),
        (
            "[numeric]\nthen = 'note'",
            "numeric.then: note can't go with non_finite_logits: the engine has ended the request",
        ),
        (
            "[numeric]\nfindings = 2\nwithin = 9",
            "numeric.findings: above 1 can't go with non_finite_logits: the engine has ended",
        ),
        (
            "[numeric]\nflaws = []\n[logits]\nthen = 'note'",
            "logits.then: note can't go with non_finite_logits",
        ),
        ("[a]\nlevel = true", "a.level: must be a level from 1 to 6, not True"),
        ("[text]\nlevel = 4", "no row has level 3; give one row level = 3"),
        ("[coherence]\nfindings = 20", "coherence.within: 20 findings at least 8 tokens apart"),
        ("[text]\nfindings = 2", "text.within: 2 findings"),
        ("[text]\nthen = 'stop'", "text.then: must be one of give_up, note, not 'stop'"),
        ("[text]\ndetail = 1", "text.detail: must be text of at most 500 characters"),
    ],
)
def test_wrong_tables(text: str, problem: str) -> None:
    with pytest.raises(BadPolicy) as raised:
        read_table(text)
    assert str(raised.value).startswith(problem)


def test_too_many_rungs() -> None:
    rungs = ", ".join(["{ at = 'end', ban = true }"] * 21)
    with pytest.raises(BadPolicy, match=r"text.rungs: 21 are too many; at most 20"):
        read_table(f"[text]\nrungs = [{rungs}]")


def test_of_the_logits_only_what_is_no_number_must_be_acted_on() -> None:
    table = read_table("[logits]\nthen = 'note'\nrungs = []\n")
    assert row(table, Flaw.LOW_CONFIDENCE).then == "note"
    assert row(table, Flaw.UNIFORM_LOGITS) == row(default_table(), Flaw.UNIFORM_LOGITS)


def test_a_guide_may_break_lines() -> None:
    table = read_table("[loop]\nrungs = [{ at = 'end', guide = \"\\n\\tSo:\" }]\n")
    assert row(table, Flaw.LOOP).rungs[0].changes.guide == "\n\tSo:"
