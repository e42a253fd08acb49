"""The checks of whole texts behind the gates, with scores that the test makes."""

import json
from collections.abc import Sequence

import click.testing
import pytest
from sluicegate.guards.checks.thresholds import Thresholds, thresholds
from sluicegate.guards.finding import Finding, Flaw, Level
from sluicegate.guards.gate import Step
from sluicegate.ops import cmd_evaluate
from sluicegate.ops.cli import main
from sluicegate.ops.console import table
from sluicegate.ops.evaluation import Judged, Labelled
from sluicegate.ops.heavy import (
    Clock,
    Examined,
    Noting,
    Waiting,
    examine,
    heavy_mistakes,
    heavy_report,
    heavy_summary,
)

from .made_scores import MadeScorer, always, line, lines

PROSE = "The harbour was quiet when the boats came in, and nobody spoke of the storm. "
SALAD = "Zorb florn gabble the of wibble snark orgle, and blip dax tove mimsy quux. "
FINDING = Finding(
    gate="runs",
    level=Level.TEXT,
    flaw=Flaw.CHARACTER_RUN,
    tokens=(0, 1),
    chars=(0, 1),
    score=1,
    threshold=0,
)
ON: dict[str, Thresholds] = {
    "chat": thresholds("chat", deployment={"base": {"perplexity_max": 3.0}})
}


def scorer() -> MadeScorer:
    return MadeScorer(lambda text: None if "odd" in text else 5.0 if "Zorb" in text else 1.0)


def waiting(one: Labelled, finding: Finding | None = None, delay: int | None = None) -> Waiting:
    behind = None if delay is None else (delay, delay)
    return Waiting(Judged(one, finding, one.text, len(one.text), 0.0, behind), "chat", ())


def examined(*some: str) -> list[Examined]:
    return examine([waiting(one) for one in lines(*some)], ON, scorer())


def test_what_the_gates_stop_is_theirs_and_costs_nothing() -> None:
    model = scorer()
    texts = lines(
        line(text=SALAD, label="bad"),
        line(text=SALAD, label="bad"),
        line(text=PROSE),
        line(text=SALAD, label="bad", onset=40),
    )
    found = examine(
        [
            waiting(texts[0], FINDING),
            waiting(texts[1]),
            waiting(texts[2]),
            # Stopped while it was still good: nobody found anything.
            waiting(texts[3], FINDING, delay=0),
        ],
        ON,
        model,
    )
    assert [(one.by_gates, one.by_checks, one.wrong) for one in found] == [
        (True, False, False),
        (False, True, False),
        (False, False, False),
        (False, False, True),
    ]
    assert model.batches == [[SALAD, PROSE]]
    assert [record.check for record in found[1].bad] == ["perplexity"]


def test_the_rules_the_ending_and_the_notes_of_a_line_are_checked() -> None:
    found = examined(
        line(text=PROSE, rules={"must_include": ["lighthouse"]}),
        line(text=PROSE, rules={"json": True}),
        line(text=PROSE, rules={"min_tokens": 50}, tokens=10),
        line(text=PROSE, rules={"min_tokens": 50}),
    )
    assert [one.bad[0].check if one.bad else None for one in found] == [
        "must_include",
        "json",
        "length",
        None,
    ]
    (cut,) = examine(
        [waiting(one) for one in lines(line(text=PROSE.strip() + " And", finish_reason="length"))],
        {"chat": thresholds("chat", deployment={"base": {"cut_off": True}})},
        scorer(),
    )
    assert [record.check for record in cut.bad] == ["cut_off"]


def test_a_text_that_cannot_be_scored_is_judged_without() -> None:
    (found,) = examined(line(text="odd " + PROSE, rules={"must_include": ["lighthouse"]}))
    assert [record.check for record in found.broken] == ["scoring"]
    assert [record.check for record in found.bad] == ["must_include"]


def test_no_model_is_asked_where_no_check_wants_it() -> None:
    model = scorer()
    off = {"chat": thresholds("off")}
    (one,) = lines(line())
    assert [found.bad for found in examine([waiting(one)], off, model)] == [()]
    assert model.batches == []
    assert examine([], ON, model) == []


def test_what_is_counted() -> None:
    found = examined(
        line(text=PROSE),
        line(text=SALAD, id="alarm"),
        line(text=SALAD, label="bad", rules={"must_include": ["x y z"]}, **{"class": "a"}),
        line(text=PROSE, label="bad", id="miss", **{"class": "b"}),
        line(text="odd", label="bad", **{"class": "b"}),
    )
    (stopped,) = lines(line(label="bad", **{"class": "b"}))
    found.append(Examined(waiting(stopped, FINDING).judged))
    clock = Clock()
    clock.seconds, clock.texts = 2.0, 5
    result = json.loads(json.dumps(heavy_summary(found, clock, model="made")))
    assert (result["n_good"], result["false_positives"]) == (2, 1)
    assert (result["false_positives_of_gates"], result["false_positives_of_checks"]) == (0, 1)
    assert (result["n_bad"], result["found"]) == (4, 2)
    assert (result["found_by_gates"], result["found_by_checks"]) == (1, 1)
    # By the first check that was not content; and by all.
    assert result["found_by"] == {"must_include": 1}
    assert result["rejected_by"] == {"must_include": 1, "perplexity": 1}
    assert result["false_positives_by"] == {"perplexity": 1}
    assert result["by_class"]["b"]["recall"] == pytest.approx(1 / 3)
    assert result["failed"] == {"scoring": 1}
    assert result["texts_per_second"] == 2.5
    rows = list(heavy_report(result, table))
    assert any(
        row.split()[:9] == ["all", "2", "0", "1", "4", "1", "1", "2", "50.00%"] for row in rows
    )
    assert any(row.endswith("false: perplexity 1") for row in rows)
    assert "could not be made    scoring, of 1 texts" in rows
    wrong = list(heavy_mistakes(found))
    assert [(one["id"], one["mistake"]) for one in wrong] == [
        ("alarm", "false alarm"),
        ("miss", "miss"),
        ("x", "miss"),
    ]
    assert wrong[0]["checks"] == ["perplexity"]
    assert "⟦" in wrong[0]["text"]


def test_nothing_is_counted_of_nothing() -> None:
    result = heavy_summary([], Clock(), model="made")
    assert (result["recall"], result["texts_per_second"]) == (None, None)
    assert any("no such texts" in row for row in heavy_report(result, table))


def test_only_findings_of_level_4_are_noted() -> None:
    class Scripted:
        name = "scripted"

        def __init__(self, found: Sequence[Finding | None]) -> None:
            self.found = list(found)
            self.kept = -1

        def feed(self, step: Step) -> Finding | None:
            return self.found[step.position]

        def truncate(self, n_tokens: int) -> None:
            self.kept = n_tokens

    def soft(at: int) -> Finding:
        return Finding(
            gate="coherence",
            level=Level.COHERENCE,
            flaw=Flaw.INCOHERENT,
            tokens=(0, at),
            chars=(0, at),
            score=2,
            threshold=1,
        )

    inner = Scripted([soft(1), None, FINDING, soft(4)])
    noting = Noting(inner)
    fed = [noting.feed(Step(0, "a", at, at)) for at in range(4)]
    assert fed == inner.found
    notes = noting.notes()
    assert [note.tokens for note in notes] == [(0, 1), (0, 4)]
    assert {(note.action, note.level) for note in notes} == {("note", Level.COHERENCE)}
    noting.truncate(2)
    assert inner.kept == 2
    assert [note.tokens for note in noting.notes()] == [(0, 1)]


@pytest.mark.engine
def test_the_command_reads_what_dead_letters_are_exported_as(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With keys of its own, which say nothing here."""
    model = scorer()
    monkeypatch.setattr(cmd_evaluate, "open_scorer", always(model))
    monkeypatch.setenv("SLUICE_CHECK_BATCH", "2")
    letter = line(
        id="job:1",
        text=PROSE,
        label="bad",
        job_id="job",
        attempt=1,
        reason="attempts",
        found_by="must_include",
        worker="w",
        profile="chat",
        prompt="Tell of a harbour.",
        rules={"must_include": ["lighthouse"]},
        text_chars=999,
        **{"class": "missing_content"},
    )
    some = letter + line(text=PROSE) + line(text="!" * 400, label="bad", **{"class": "run"})
    ended = click.testing.CliRunner().invoke(
        main, ["evaluate", "-", "--heavy", "--json", "--show"], input=some
    )
    assert ended.exit_code == 0, ended.output
    assert model.closed
    result = json.loads(ended.stdout)
    assert (result["found"], result["heavy"]["found"]) == (1, 2)
    heavy = result["heavy"]["by_class"]
    assert heavy["missing_content"]["found_by"] == {"must_include": 1}
    assert (heavy["run"]["found_by_gates"], heavy["run"]["found_by_checks"]) == (1, 0)
    assert (result["heavy"]["examined"], result["mistakes"]) == (2, [])


def test_flags_of_heavy_without_it_are_refused() -> None:
    for words in (["--checks", "-"], ["--scoring-model", "m"]):
        ended = click.testing.CliRunner().invoke(main, ["evaluate", "-", *words], input=line())
        assert ended.exit_code == 2
        assert f"{words[0]} is for --heavy" in ended.stderr
