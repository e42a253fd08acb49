"""KenLM as the gate of coherence, on a model small enough to be written by hand."""

from itertools import pairwise
from pathlib import Path

import pytest
from sluicegate.guards.finding import Flaw
from sluicegate.guards.kenlm_score import load_scorer
from sluicegate.guards.pipeline import streaming_gates
from sluicegate.guards.profiles import BadProfile, profile

from .gate_law import feed, steps

WORDS = ["the", "keeper", "of", "light", "saw", "ship", ".", ","]
KNOWN = (
    "the keeper of the light saw the ship of the keeper . the ship saw the light of the keeper . "
)
UNKNOWN = (
    "ship of of . the saw keeper , , light the the of saw saw ship . of , keeper light of saw , "
)


@pytest.fixture
def arpa(tmp_path: Path) -> Path:
    """Pairs that are in KNOWN have a tenth, a word otherwise a thousandth."""
    known = KNOWN.split()
    pairs = sorted(set(pairwise(known)))
    lines = [
        "\\data\\",
        f"ngram 1={len(WORDS) + 3}",
        f"ngram 2={len(pairs)}",
        "",
        "\\1-grams:",
        "-99\t<s>\t0",
        "-3\t</s>",
        "-5\t<unk>",
        *(f"-3\t{word}\t0" for word in WORDS),
        "",
        "\\2-grams:",
        *(f"-1\t{one} {other}" for one, other in pairs),
        "",
        "\\end\\",
        "",
    ]
    path = tmp_path / "tiny.arpa"
    path.write_text("\n".join(lines))
    return path


def test_a_score_is_per_word(arpa: Path) -> None:
    pytest.importorskip("kenlm")
    score = load_scorer(str(arpa))
    known, unknown = score(KNOWN), score(UNKNOWN)
    assert known is not None
    assert unknown is not None
    assert known > -1.2
    assert unknown < -2.2
    assert score("the Keeper") is None, "too few words to say"
    assert score(KNOWN.upper()) == pytest.approx(known)


def test_the_pipeline_uses_it_where_the_deployment_has_one(arpa: Path) -> None:
    pytest.importorskip("kenlm")
    tables = {"chat": {"coherence_model": str(arpa), "coherence_score_threshold": -2.0}}

    def found(text: str) -> set[Flaw]:
        gates = streaming_gates(profile("chat", deployment=tables), vocabulary_size=100)
        pieces = text.split(" ")
        stream = [(WORDS.index(one), f" {one}") if one in WORDS else (99, one) for one in pieces]
        return {one.flaw for one in feed(gates, steps(stream)) if one}

    assert found(KNOWN * 2 + UNKNOWN * 4) == {Flaw.INCOHERENT}
    assert found(KNOWN * 4) == set()


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadProfile, match="there is no file"):
        load_scorer(str(tmp_path / "none.arpa"))


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    pytest.importorskip("kenlm")
    path = tmp_path / "no.arpa"
    path.write_text("not a model\n")
    with pytest.raises(BadProfile, match="no model of KenLM"):
        load_scorer(str(path))
