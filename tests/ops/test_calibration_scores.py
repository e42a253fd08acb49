"""Scores of labelled texts: made once, kept in a file, and whose they are."""

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sluicegate.guards.checks.subject import Subject
from sluicegate.ops import calibration_run
from sluicegate.ops.calibration import Sample
from sluicegate.ops.calibration_run import all_samples
from sluicegate.ops.calibration_scores import (
    Scored,
    ScoresFile,
    ScoresFileError,
    digest,
    head,
    probing,
    score_batch,
)
from sluicegate.ops.labelled_files import BatchProgress
from sluicegate.schemas import Rules
from sluicegate.worker.config import Config

from .made_scores import MadeScorer, always, line, lines

PROSE = "The harbour was quiet when the boats came in, and nobody spoke of the storm. "
HEAD = head("made", "", {})


def test_every_calibrated_check_that_can_say_something_has_a_score() -> None:
    text = PROSE * 12
    subject = Subject(text=text, rules=Rules(language="en", must_include=("no such word",)))
    (scores,) = score_batch(MadeScorer(lambda _: 2.5), [subject], [probing("chat", {})])
    assert isinstance(scores, dict)
    assert scores["perplexity"] == scores["perplexity_window"] == 2.5
    assert scores["repetition_ngram"] > 0.5
    assert scores["language_other"] < 0.1
    # No prompt, no similarity, no sentences: nothing is made up for them, nor for rules.
    assert not {"relevance", "relevance_similarity", "coherence", "must_include"} & scores.keys()
    # Where a profile does not make a check, there is no score.
    (scores,) = score_batch(MadeScorer(), [subject], [probing("off", {})])
    assert scores == {}


def test_a_text_that_cannot_be_scored_does_not_count_and_an_empty_one_has_no_scores() -> None:
    scorer = MadeScorer(lambda text: None if "odd" in text else 1.0)
    subjects = [Subject(text=text) for text in (PROSE, "odd", " ", PROSE)]
    found = score_batch(scorer, subjects, [probing("chat", {})] * 4)
    assert found[1] == "the scoring model: too odd"
    assert found[2] == {}
    assert found[0] == found[3]
    assert scorer.batches == [[PROSE, "odd", PROSE]]


def test_a_check_that_breaks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> float:
        raise ValueError("no")

    monkeypatch.setattr("sluicegate.guards.checks.perplexity.worst", broken)
    (found,) = score_batch(MadeScorer(), [Subject(text=PROSE)], [probing("chat", {})])
    assert isinstance(found, str)
    assert "ValueError: no" in found


def test_a_file_gives_back_what_was_put_in(tmp_path: Path) -> None:
    path = tmp_path / "scores"
    file = ScoresFile(path, HEAD)
    file.add([Scored(text="a", scores={"x": 1.5})])
    file.add([Scored(text="b", scores={}), Scored(text="c", scores={"y": -2.0})])
    again = ScoresFile(path, HEAD)
    assert [again.get(key) for key in "abcd"] == [{"x": 1.5}, {}, {"y": -2.0}, None]


def test_a_line_that_was_not_finished_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "scores"
    ScoresFile(path, HEAD).add([Scored(text="a", scores={"x": 1.5})])
    whole = path.read_bytes()
    for cut in range(len(whole.splitlines()[0]) + 1, len(whole)):
        path.write_bytes(whole[:cut])
        file = ScoresFile(path, HEAD)
        assert file.get("a") is None
        file.add([Scored(text="b", scores={"y": 1.0})])
        assert ScoresFile(path, HEAD).get("b") == {"y": 1.0}


def test_scores_that_depend_on_something_else_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "scores"
    ScoresFile(path, HEAD)
    assert head("made", "", {}) == HEAD
    # The threshold itself changes no score; the size of a window does.
    assert head("made", "", {"chat": {"perplexity_max": 5.0}}) == HEAD
    others = {
        "scoring_model": head("other", "", {}),
        "embedding_model": head("made", "e", {}),
        "settings": head("made", "", {"chat": {"perplexity_window_tokens": 8}}),
        "version": msgspec.structs.replace(HEAD, version="0.0"),
    }
    for field, other in others.items():
        with pytest.raises(ScoresFileError, match=f"another {field}"):
            ScoresFile(path, other)
    for text in ('{"id": "x", "text": "a labelled text"}\n', "no line at all", "\xff\n"):
        path.write_text(text, encoding="latin-1")
        with pytest.raises(ScoresFileError, match="not a file of scores"):
            ScoresFile(path, HEAD)
        assert path.read_text(encoding="latin-1") == text
    path.write_bytes(msgspec.json.encode(HEAD) + b"\n{}\n")
    with pytest.raises(ScoresFileError, match="not a file of scores"):
        ScoresFile(path, HEAD)


def test_what_is_known_of_a_text_makes_it_another_one() -> None:
    same = {digest(Subject(text="a")) for _ in range(2)}
    others = {
        digest(each)
        for each in (
            Subject(text="b"),
            Subject(text="a", prompt="p"),
            Subject(text="a", profile="code"),
            Subject(text="a", rules=Rules(language="de")),
        )
    }
    assert len(same | others) == 5


def samples_of(
    scorer: MadeScorer, monkeypatch: pytest.MonkeyPatch, path: Path, *some: str
) -> list[Sample]:
    """Those of some lines, two texts at a time."""
    monkeypatch.setattr(calibration_run, "open_scorer", always(scorer))
    config = Config(scoring_model="made", check_batch=2)
    found, model = all_samples(
        lines(*some), config, default_profile="chat", deployment={}, scores_file=path
    )
    assert model == "made"
    return found


def test_an_interrupted_run_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [line(text=f"{number} {PROSE}") for number in range(5)]

    def interrupted(text: str) -> float:
        if text.startswith("3"):
            raise KeyboardInterrupt
        return 1.0

    path = tmp_path / "scores"
    first = MadeScorer(interrupted)
    with pytest.raises(KeyboardInterrupt):
        samples_of(first, monkeypatch, path, *texts)
    assert first.closed
    second = MadeScorer()
    found = samples_of(second, monkeypatch, path, *texts)
    assert [sample.scores["perplexity"] for sample in found] == [1.0] * 5
    assert [text[0] for batch in second.batches for text in batch] == ["2", "3", "4"]
    # With all scores there no model is loaded.
    third = MadeScorer()
    assert samples_of(third, monkeypatch, path, *texts) == found
    assert third.batches == []


def test_the_same_text_is_scored_once_and_counts_as_often_as_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = MadeScorer()
    some = [line(text=PROSE), line(text=PROSE, label="bad", **{"class": "c"})] * 2
    found = samples_of(scorer, monkeypatch, tmp_path / "scores", *some)
    assert [(sample.good, sample.kind) for sample in found] == [(True, "none"), (False, "c")] * 2
    assert scorer.batches == [[PROSE]]


def test_texts_without_scores_are_left_out_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scorer = MadeScorer(lambda text: None if "odd" in text else 1.0)
    path = tmp_path / "scores"
    found = samples_of(scorer, monkeypatch, path, line(text="odd"), line(text=PROSE))
    assert len(found) == 1
    assert "1 texts have no scores and don't count: the scoring model: too odd" in (
        capsys.readouterr().err
    )


class Stream(io.StringIO):
    """A file that may be a terminal."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def test_progress_has_a_rate_and_the_time_that_is_left() -> None:
    now = [0.0]
    shown: dict[bool, str] = {}
    for terminal in (True, False):
        now[0] = 0.0
        stream = Stream(terminal=terminal)
        progress = BatchProgress(100, 20, stream, clock=lambda: now[0])
        for second in (5.0, 10.0, 20.0):
            now[0] = second
            progress.batch(10, failed=1)
        progress.end()
        shown[terminal] = stream.getvalue()
    # Elsewhere than on a terminal a line now and then.
    assert shown[False].splitlines() == [
        "40 of 100 done, 2 not completed, 2.0/s, about 30 s left",
        "50 of 100 done, 3 not completed, 1.5/s, about 33 s left",
    ]
    assert shown[True].count("\r\x1b[K") == 4
    assert shown[True].endswith("\r\x1b[K")
