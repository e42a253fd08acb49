"""Novelty: counted over a window, by the law."""

from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.guards.finding import Flaw, Level
from sluicegate.guards.novelty import NoveltyGate

from .gate_law import assert_law, feed, steps

streams = st.lists(st.integers(0, 3).map(lambda n: (n, "ab"[: n % 3])), max_size=60)


def low() -> NoveltyGate:
    return NoveltyGate(window=10, least=0.8, every=2)


@settings(deadline=None)
@given(before=streams, then=streams, data=st.data())
def test_the_law(
    before: list[tuple[int, str]], then: list[tuple[int, str]], data: st.DataObject
) -> None:
    assert_law(low, before, data.draw(st.integers(0, len(before))), then)


def test_all_new_never_trips() -> None:
    assert not any(feed(low(), steps([(n, "a") for n in range(300)])))


def test_paraphrases_of_the_same_three_sentences_trip() -> None:
    gate = NoveltyGate(window=64, least=0.2, every=8)
    sentence = list(range(15))
    stream = [(token, " w") for n in range(20) for token in [*sentence, 100 + n]]
    found = [one for one in feed(gate, steps(stream)) if one]
    assert found
    first = found[0]
    assert (first.level, first.flaw) == (Level.COHERENCE, Flaw.LOW_NOVELTY)
    assert first.tokens[1] - first.tokens[0] == 64
    assert first.score > first.threshold == 0.8


def test_what_came_longer_ago_than_the_window_is_new_again() -> None:
    unit = [(n, "a") for n in range(50)]
    assert not any(feed(NoveltyGate(window=40, least=0.9), steps(unit * 6)))
    assert any(feed(NoveltyGate(window=60, least=0.9), steps(unit * 6)))
