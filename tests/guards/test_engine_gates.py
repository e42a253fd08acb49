"""What the worker and the plug-in say to each other."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.denied import Denial
from sluicegate.guards.engine_gates import (
    FLAWS,
    Ban,
    EngineConstants,
    EngineGates,
    Signal,
    choose_sentinels,
    constants_in,
    gates_in,
    packed,
    seam_bans,
    sentinel_for,
    signal_of,
)


@given(st.sets(st.sampled_from(Denial)), st.integers(0, 4))
def test_every_signal_has_a_sentinel_that_is_read_as_it_or_a_graver_one(
    denials: set[Denial], padding: int
) -> None:
    denied = dict(enumerate(denials, start=50)) | {
        100 + at: Denial.BEYOND_TOKENIZER for at in range(padding)
    }
    sentinels = choose_sentinels(denied)
    assert len(sentinels) == min(len(denied), len(Signal))
    assert not sentinels or {*sentinels} <= denied.keys()
    for signal in Signal if sentinels else ():
        read = signal_of(sentinel_for(signal, sentinels), sentinels)
        assert read is not None
        assert read <= signal
        assert read == signal or len(sentinels) < len(Signal)
    assert signal_of(1, sentinels) is None


def test_padding_rows_of_the_vocabulary_come_first() -> None:
    denied = {0: Denial.OPENING, 2: Denial.PADDING, 9: Denial.RESERVED, 70: Denial.BEYOND_TOKENIZER}
    assert choose_sentinels(denied) == (70, 9, 2, 0)


def test_spare_ids_help_out() -> None:
    assert choose_sentinels({0: Denial.OPENING}, spare=(7, 5, 0)) == (5, 7, 0)
    assert choose_sentinels({}, spare=range(90, 99)) == (90, 91, 92, 93, 94)


def test_every_signal_is_a_flaw() -> None:
    assert {*FLAWS} == {*Signal}


def test_wishes_survive_any_border() -> None:
    gates = EngineGates(edge=3, carried=2, bans=(Ban(1, 20, (30,)), Ban(0, 3)))
    constants = EngineConstants(denied=(1, 2), sentinels=(2,))
    asked, said = packed(gates) | {"other": 1}, packed(constants)
    assert gates_in(asked) == gates
    assert gates_in(json.loads(json.dumps(asked))) == gates
    assert gates_in(msgspec.msgpack.decode(msgspec.msgpack.encode(asked))) == gates
    assert constants_in(json.loads(json.dumps(said))) == constants


def test_nothing_said_is_nothing_asked() -> None:
    assert gates_in(None) is None
    assert gates_in({"other": 1}) is None
    assert constants_in({}) == constants_in(object()) == EngineConstants(denied=(), sentinels=())


@pytest.mark.parametrize("wrong", ["x", None, {"egde": 3}, {"edge": "3"}, {"bans": [[1]]}])
def test_what_cannot_be_read_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"Expected|unknown field"):
        gates_in({"sluicegate": wrong})
    with pytest.raises(ValueError, match=r"Expected|unknown field|missing"):
        constants_in({"sluicegate": wrong})


@given(
    word=st.lists(st.integers(0, 2), min_size=1, max_size=4),
    carried=st.lists(st.integers(0, 2), max_size=5),
    then=st.lists(st.integers(0, 2), max_size=5),
)
def test_a_word_across_the_seam_is_banned_at_its_last_token(
    word: list[int], carried: list[int], then: list[int]
) -> None:
    bans = seam_bans([word], carried)
    whole = carried + then
    for position, token in enumerate(then):
        end = len(carried) + position + 1
        straddles = position + 1 < len(word) and whole[max(0, end - len(word)) : end] == word
        banned = any(
            ban.position == position and ban.token == token and ban.after == tuple(then[:position])
            for ban in bans
        )
        assert banned == straddles
