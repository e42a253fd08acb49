"""`sluice calibrate`: with the embedded model, and with scores that are there already."""

import json
from collections.abc import Iterator
from pathlib import Path

import click.testing
import pytest
import torch
from sluicegate.guards.checks.thresholds import read_tables, thresholds
from sluicegate.ops.calibration_scores import Scored, ScoresFile, digest, head
from sluicegate.ops.cli import main
from sluicegate.ops.whole_texts import subject_of

from .made_scores import line, lines

PROSE = (
    "The harbour was quiet when the boats came in. Nobody on the pier had expected them before the "
    "evening, for the wind had been against them all day. The men tied the ropes and carried the "
    "baskets up to the market, where the women were already waiting with salt and ice."
)
MORE = (
    "Bread is made of flour, water, salt and yeast. The yeast eats the sugar in the flour and "
    "gives off gas, which makes the dough rise. When the loaf is baked, the gas escapes and the "
    "crust turns brown. A good loaf sounds hollow when you knock on it from below."
)
SALAD = "quux zorb the of florn gabble wibble the snark orgle blip dax of tove mimsy " * 4


def run(*words: str, given: str | None = None) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, ["calibrate", *words], input=given)


@pytest.fixture
def labelled(tmp_path: Path) -> tuple[str, str]:
    """A file of texts, and one of their scores: 1 to 400 of good ones, 500 of a bad one."""
    some = [line(text=f"text {number}", id=number) for number in range(1, 401)]
    some.append(line(text="text 500", label="bad", **{"class": "salad"}))
    texts, scores = tmp_path / "texts.jsonl", tmp_path / "scores.jsonl"
    texts.write_text("".join(some))
    ScoresFile(scores, head("embedded", "", {})).add(
        [
            Scored(
                text=digest(subject_of(each, "chat", tokens=0)),
                scores={"perplexity": float(each.text.split()[1]), "coherence": 0.5 + number / 1e3},
            )
            for number, each in enumerate(lines(*some))
        ]
    )
    return str(texts), str(scores)


def test_thresholds_are_written_and_read(labelled: tuple[str, str], tmp_path: Path) -> None:
    texts, scores = labelled
    out = tmp_path / "out.toml"
    words = (texts, "--scores", scores, "--only", "perplexity", "-o", str(out), "--no-margin")
    ended = run(*words)
    assert ended.exit_code == 0, ended.output
    assert read_tables(out.read_text()) == {
        "base": {"perplexity_max": 400.0},
        "chat": {"perplexity_max": 400.0},
    }
    assert "400 good texts are too few" in ended.stderr
    assert "[base] perplexity_max = 400: bad above it" in ended.stdout
    # Nothing else is left in the folder, and nothing is overwritten unasked.
    assert {path.name for path in tmp_path.iterdir()} == {"out.toml", "texts.jsonl", "scores.jsonl"}
    before = out.read_bytes()
    ended = run(*words, "--fpr", "1%")
    assert ended.exit_code == 2
    assert "--force replaces it" in ended.stderr
    assert out.read_bytes() == before
    assert run(*words, "--fpr", "1%", "--force").exit_code == 0
    assert read_tables(out.read_text())["base"] == {"perplexity_max": 397.0}
    assert run(*words, "--margin", "--force").exit_code == 0
    assert read_tables(out.read_text())["base"]["perplexity_max"] > 400
    assert "with a margin beyond 400.0; " in out.read_text()


def test_a_share_of_the_mean_profiles_and_json(labelled: tuple[str, str]) -> None:
    texts, scores = labelled
    words = (texts, "--scores", scores, "--json", "--coherence-share", "0.75")
    ended = run(*words, "--fpr", "0.01")
    assert ended.exit_code == 0, ended.output
    result = json.loads(ended.stdout)
    assert result["rate"] == 0.01
    found = result["profiles"]["base"]["thresholds"]
    assert found["coherence_min"]["value"] == pytest.approx(0.75 * 0.6995, abs=1e-3)
    assert found["coherence_min"]["source"] == "share"
    assert (found["perplexity_max"]["value"], found["perplexity_max"]["recall"]) == (397, 1)
    # Scores are of one set of texts, judged as one profile.
    checks = "[chat]\nperplexity_max = 7.0\n"
    # So few set nothing, in the base neither.
    ended = run(*words, "--least", "500", "--checks", "-", given=checks)
    assert ended.exit_code == 1, ended.output
    assert "the texts set no threshold" in ended.stderr
    for table in json.loads(ended.stdout)["profiles"].values():
        assert {each["source"] for each in table["thresholds"].values()} == {"kept"}
    ended = run(*words, "--least", "1", "--checks", "-", given=checks)
    assert ended.exit_code == 0, ended.output
    now = json.loads(ended.stdout)["profiles"]["chat"]["thresholds"]["perplexity_max"]
    assert now["before"] == 7


def test_what_is_no_use_is_refused_before_anything_is_scored(
    labelled: tuple[str, str], tmp_path: Path
) -> None:
    texts, scores = labelled
    bad = line(label="bad")
    toml = tmp_path / "bad.toml"
    toml.write_text("[chat]\nno_such = 1\n")
    for words, given, problem in (
        (("-",), bad, "no line is a good text"),
        (("-",), "", "no line has a text"),
        (("-",), "{\n", "line 1: "),
        ((texts, "-"), "{\n", "-: line 1: "),
        ((texts, "--fpr", "0"), None, "is no rate"),
        ((texts, "--fpr", "51%"), None, "is no rate"),
        ((texts, "--fpr", "nan"), None, "is no rate"),
        ((texts, "--fpr", "a"), None, "is no rate"),
        ((texts, "--coherence-share", "0"), None, "'0' is no share"),
        ((texts, "--coherence-share", "1.01"), None, "is no share"),
        ((texts, "--coherence-share", "nan"), None, "is no share"),
        ((texts, "--coherence-share", "a"), None, "is no share"),
        ((texts, "--least", "0"), None, "0 is not in the range"),
        ((texts, "--scores", str(tmp_path / "none" / "x")), None, "No such file or directory"),
        ((texts, "--scores", "/dev/full"), None, "/dev/full: No space left on device"),
        ((texts, "--only", "perplexity,rules"), None, "rules: there are"),
        ((texts, "--only", ","), None, "nothing: there are"),
        ((texts, "-o", str(tmp_path / "none" / "x")), None, "is no folder"),
        ((texts, "-o", texts, "--force"), None, "is no file of thresholds"),
        ((texts, "-o", scores), None, "--force replaces it"),
        ((texts, "--checks", str(toml)), None, "no_such is no threshold"),
        ((texts, "--scores", texts), None, "is not a file of scores"),
        ((texts, "--scores", scores, "--scoring-model", "x"), None, "another scoring_model"),
        ((str(tmp_path / "none"),), None, "No such file"),
        ((), None, "Missing argument"),
    ):
        ended = run(*words, given=given)
        assert ended.exit_code == 2, (words, ended.output)
        assert problem in ended.stderr


def test_texts_that_set_nothing(labelled: tuple[str, str], tmp_path: Path) -> None:
    texts, scores = labelled
    out = tmp_path / "out.toml"
    ended = run(texts, "--scores", scores, "--only", "relevance_min", "-o", str(out))
    assert ended.exit_code == 1
    assert "the texts set no threshold" in ended.stderr
    assert not out.exists()


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two that wait for each other are slow where others work as well."""
    threads = torch.get_num_threads()
    monkeypatch.setenv("SLUICE_CHECK_THREADS", "1")
    yield
    torch.set_num_threads(threads)


@pytest.mark.engine
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("one_thread")
def test_with_the_embedded_model_and_then_in_force(tmp_path: Path) -> None:
    """Good texts set the thresholds; with these `evaluate --heavy` finds the bad one."""
    texts, out = tmp_path / "texts.jsonl", tmp_path / "out.toml"
    texts.write_text(
        line(
            text=PROSE, prompt="Tell me of a harbour in the evening, and of the boats that come in."
        )
        + line(text=MORE, prompt="How is bread made, and what does the yeast do in the dough?")
        + line(
            text=SALAD,
            prompt="Tell me of a harbour in the evening, and of the boats that come in.",
            label="bad",
            **{"class": "salad"},
        )
    )
    only = "perplexity,relevance"
    words = ("-o", str(out), "--only", only, "--scores", str(tmp_path / "s"), "--json")
    ended = run(str(texts), *words, "--least", "1")
    assert ended.exit_code == 0, ended.output
    result = json.loads(ended.stdout)["profiles"]["base"]
    assert (result["n_good"], result["false_positives"], result["recall"]) == (2, 0, 1)
    tables = read_tables(out.read_text())
    found = {key: each["value"] for key, each in result["thresholds"].items()}
    assert set(tables["base"]) == {
        "perplexity_max",
        "perplexity_window_max",
        "relevance_min",
    }
    assert thresholds("chat", deployment=tables).perplexity_max == found["perplexity_max"]
    heavy = click.testing.CliRunner().invoke(
        main, ["evaluate", str(texts), "--heavy", "--checks", str(out)]
    )
    assert heavy.exit_code == 0, heavy.output
    assert "Gates and checks together:" in heavy.stdout
    assert any(
        row.split()[:9] == ["salad", "0", "0", "0", "1", "0", "1", "1", "100.00%"]
        for row in heavy.stdout.splitlines()
    ), heavy.stdout
