"""Reasoning traces against the guard: what is judged, and what a cut is said to save and cost."""

import json
from collections.abc import Iterator

import click.testing
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.finding import Finding, Flaw, Level
from sluicegate.guards.gate import Step
from sluicegate.guards.profiles import profile
from sluicegate.ops.cli import main
from sluicegate.ops.evaluation import Labelled
from sluicegate.ops.evaluation_reasoning import (
    cuts_report,
    cuts_summary,
    guard,
    inside,
    judge_reasoning,
)


def steps(text: str) -> list[Step]:
    """A character a token."""
    return [Step(ord(one), one, at, at) for at, one in enumerate(text)]


class Trips:
    """A gate that finds something at a token, with an onset."""

    name = "g"

    def __init__(self, at: int, onset: int) -> None:
        self._at, self._onset = at, onset

    def feed(self, step: Step) -> Finding | None:
        if step.position != self._at:
            return None
        return Finding(
            gate=self.name,
            level=Level.REASONING,
            flaw=Flaw.REASONING_LOOP,
            tokens=(self._onset, self._at + 1),
            chars=(self._onset, self._at + 1),
            score=1,
            threshold=1,
        )

    def truncate(self, n_tokens: int) -> None:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("text", "onset", "judged", "begins"),
    [
        ("a b", 2, "a b", 2),
        ("<think>a b</think>c", 9, "a b", 2),
        (" \n<think>a b", 11, "a b", 2),
        ("a b</think>\n", 2, "a b", 2),
        ("a </think> b", 3, "a </think> b", 3),
        ("<think>a b", 3, "a b", 0),
        ("a <think> b", None, "a <think> b", None),
        ("<think></think>Yes.", None, "", None),
    ],
)
def test_only_what_stands_between_the_tags_is_judged(
    text: str, onset: int | None, judged: str, begins: int | None
) -> None:
    found = inside(Labelled(id=1, text=text, label="bad", onset=onset))
    assert (found.text, found.onset) == (judged, begins)


def test_token_ids_are_those_of_the_reasoning() -> None:
    line = Labelled(id=1, text="<think>a", label="good", token_ids=[1, 2])
    assert inside(line) == line


@given(st.text(st.sampled_from("ab <"), max_size=30), st.data())
def test_tags_around_a_text_change_nothing(text: str, data: st.DataObject) -> None:
    onset = data.draw(st.integers(0, len(text)))
    plain = Labelled(id=1, text=text, label="bad", onset=onset)
    tagged = Labelled(id=1, text=f"<think>{text}</think>", label="bad", onset=onset + 7)
    assert inside(tagged) == plain


@pytest.mark.parametrize(
    ("at", "onset", "kept", "lost", "left", "delay"),
    [
        (30, 10, 10, 0, 0, 21),
        (30, 4, 4, 6, 0, 21),
        (30, 17, 17, 0, 7, 21),
        (5, 2, 2, 4, 0, None),
    ],
)
def test_what_a_cut_keeps_of_a_loop(
    at: int, onset: int, kept: int, lost: int, left: int, delay: int | None
) -> None:
    line = Labelled(id=1, text="0123456789" + "loop" * 10, label="bad", onset=10)
    cut = judge_reasoning(line, steps(line.text), Trips(at, onset))
    assert (cut.tokens, cut.kept, cut.lost, cut.left, cut.delay) == (50, kept, lost, left, delay)
    result = cuts_summary([cut])
    assert result["tokens_saved"] == (19 if delay else 0)
    assert result["tokens_saved_share"] == (0.38 if delay else 0)
    assert result["within_256_share"] == (1 if delay else 0)


def test_what_a_cut_takes_of_a_good_trace() -> None:
    line = Labelled(id=1, text="0123456789", label="good")
    cut = judge_reasoning(line, steps(line.text), Trips(7, 3))
    assert (cut.kept, cut.lost, cut.left) == (3, 5, None)
    assert cuts_summary([cut])["good_traces_cut_back_by"]["most"] == 5


def test_a_late_find_is_not_in_time() -> None:
    line = Labelled(id=1, text="x" * 400, label="bad", onset=100)
    in_time = judge_reasoning(line, steps(line.text), Trips(100 + 255, 100))
    late = judge_reasoning(line, steps(line.text), Trips(100 + 256, 100))
    missed = judge_reasoning(line, steps(line.text), None)
    undated = judge_reasoning(
        Labelled(id=2, text=line.text, label="bad"), steps(line.text), Trips(9, 1)
    )
    result = cuts_summary([in_time, late, missed, undated])
    assert (result["within_256"], result["n_dated"]) == (1, 3)
    assert result["within_256_share"] == pytest.approx(1 / 3)
    assert result["delay_tokens"]["median"] == 256.5
    assert result["delay_tokens"]["most"] == 257


@pytest.mark.parametrize(("unit", "share"), [(64, 1.0), (65, None), (None, None)])
def test_loops_of_short_rounds_are_counted_apart(unit: int | None, share: float | None) -> None:
    line = Labelled(id=1, text="x" * 400, label="bad", onset=100, unit=unit)
    result = cuts_summary([judge_reasoning(line, steps(line.text), Trips(200, 100))])
    assert result["short_within_256_share"] == share
    missed = cuts_summary([judge_reasoning(line, steps(line.text), None)])
    assert missed["short_within_256_share"] == (0 if share else None)


def test_the_second_table_has_the_classes_with_loops() -> None:
    def plain(rows: list[tuple[str, ...]]) -> Iterator[str]:
        return iter([" ".join(row) for row in rows])

    good = Labelled(id=1, text="fine", label="good", kind="honest")
    bad = Labelled(id=2, text="xxxxxxxx", label="bad", kind="loop", onset=2)
    cuts = [
        judge_reasoning(good, steps(good.text), None),
        judge_reasoning(bad, steps(bad.text), Trips(5, 2)),
    ]
    lines = list(cuts_report(cuts_summary(cuts), plain))
    assert lines[1] == "loop 100.00% - 4 4 25.00% 0, 0 0, 0"
    assert not any(line.startswith("honest") for line in lines)
    assert list(cuts_report(cuts_summary(cuts[:1]), plain)) == []


def test_without_an_effort_there_is_no_cap_and_off_is_off() -> None:
    # Numbers come anew, so nothing is repeated: 40,000 tokens, more than any named effort but one.
    text = " ".join(str(n) for n in range(7000))[:40_000]
    base = profile("chat")
    line = Labelled(id=1, text=text, label="good")
    free = guard(base, None)
    assert judge_reasoning(line, steps(text), free).kept is None
    capped = judge_reasoning(line, steps(text), guard(base, 300)).judged.finding
    assert capped is not None
    assert (capped.flaw, capped.tokens) == (Flaw.REASONING_CAP, (300, 301))
    named = judge_reasoning(line, steps(text), guard(base, "low")).kept
    assert named == base.reasoning_low
    assert guard(profile("off"), 10) is None


def run(*words: str, given_: str | None = None) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, words, input=given_)


def line(**fields: object) -> str:
    return json.dumps({"id": "x", "label": "good", "text": "Fine.", **fields}) + "\n"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--channel", "reasoning", "--heavy"), "--heavy judges answers as a whole"),
        (("--effort", "low"), "--effort is for --channel reasoning"),
        (("--channel", "reasoning", "--effort", "lots"), "is not low, medium, high or max"),
        (("--channel", "reasoning", "--effort", "-1"), "is not low, medium, high or max"),
        (("--channel", "reasoning", "--effort", "9" * 30), "is not low, medium, high or max"),
        (("--channel", "thought"), "is not one of 'content', 'reasoning'"),
    ],
)
def test_what_does_not_fit_together_is_refused(words: tuple[str, ...], problem: str) -> None:
    ended = run("evaluate", "-", *words, given_=line())
    assert ended.exit_code == 2
    assert problem in " ".join(ended.stderr.split())


STUCK = "Let me check the column again. "


@pytest.mark.engine
def test_an_evaluation_of_reasoning() -> None:
    honest = " ".join(f"Try {n}: {n} times 7 is {7 * n}." for n in range(40))
    lines = line(text=f"<think>{honest}</think>{STUCK * 60}", **{"class": "honest"}) + line(
        id="y", label="bad", text=honest + " " + STUCK * 60, onset=len(honest) + 1 + len(STUCK)
    )
    ended = run("evaluate", "-", "--channel", "reasoning", "--json", "--show", given_=lines)
    assert ended.exit_code == 0, ended.output
    result = json.loads(ended.stdout)
    assert (result["channel"], result["effort"]) == ("reasoning", None)
    assert (result["false_positives"], result["found"], result["mistakes"]) == (0, 1, [])
    reasoning = result["reasoning"]
    assert reasoning["within_256_share"] == 1
    assert 0 < reasoning["tokens_saved"] < reasoning["loop_tokens"]
    table = run("evaluate", "-", "--channel", "reasoning", given_=lines).stdout
    assert "THOUGHT LOST" in table
    assert "IN TIME" in table


@pytest.mark.engine
def test_a_cap_counts_where_an_effort_is_given() -> None:
    honest = " ".join(f"Try {n}: {n} times 7 is {7 * n}." for n in range(90))
    words = ("evaluate", "-", "--channel", "reasoning", "--json", "--effort", "200")
    result = json.loads(run(*words, given_=line(text=honest)).stdout)
    (gate,) = result["false_positives_by"]
    assert gate.endswith("reasoning_cap")
    # The profile of the line has the guard off.
    result = json.loads(run(*words, given_=line(text=honest, profile="off")).stdout)
    assert result["false_positives"] == 0
    result = json.loads(
        run(*words, "--ignore-profiles", given_=line(text=honest, profile="off")).stdout
    )
    assert result["false_positives"] == 1
