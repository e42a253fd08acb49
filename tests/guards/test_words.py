"""Sequences of letters that words have, and that they have not."""

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.guards.ngrams import ORDER
from sluicegate.guards.words import broken, known, pack_words, sequences


def test_sequences_lie_in_words_with_a_blank_at_their_ends() -> None:
    assert sequences("x, Éclair42 to!") == {" écl", "écla", "clai", "lair", "air ", " to "}
    # What the edge of the text cuts off has no end there.
    assert sequences("eclai") == {"ecla", "clai"}
    assert sequences("жук 12 中文") == set()


@settings(deadline=None)
@given(st.text(max_size=300))
def test_it_is_a_rate(text: str) -> None:
    assert 0.0 <= broken(text) <= 100.0
    assert sequences(text) == sequences(text.lower())


@pytest.mark.parametrize(
    "text",
    [
        "The keeper walked up the narrow stairs and looked out over the grey water.",
        "Jeder hat das Recht, seine Meinung frei und ohne Angst zu sagen.",
        "Tous les enfants ont le droit de vivre avec leur famille.",
        "gravity machine north sort system female filter attitude volume fold club stay",
    ],
)
def test_whole_words(text: str) -> None:
    assert broken(text) < 3


@pytest.mark.parametrize(
    "text",
    [
        "gesturesstick targetsSiddh jading Optimaluckermit TakingHisUnrivatingBothJCompetit",
        "outdoorsjo considerablygalrank Recordochond Innov vertuble enchileatherorms",
        "accompanifi Mariogathere cardiomyfourth TradingBroad newaxisgathere Gigassignment",
    ],
)
def test_broken_words(text: str) -> None:
    assert broken(text) > 6


def test_packed_and_read_again() -> None:
    held = zlib.decompress(pack_words(["word", " écl", "word"])).decode()
    assert held == " éclword"
    assert len(known()) > 50_000
    assert {len(gram) for gram in known()} == {ORDER}
