"""Faults to order: what a seed stands for, and which token of which request it strikes."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.mojibake import pictures
from sluicegate.ops.faults import (
    KEY,
    NUMERIC,
    PASSAGES,
    PAST_THE_MASK,
    CannotInject,
    Fault,
    Orders,
    Strike,
    Vocabulary,
    double_encoded,
    order,
)
from sluicegate.schemas import Sampling
from sluicegate.worker.engine import Segment


def encode(text: str) -> Sequence[int]:
    return [ord(character) for character in text]


WORDS = Vocabulary(encode=encode, silent=(7, 8, 9), denied=(1, 2))
NO_SPECIALS = Vocabulary(encode=encode, silent=(), denied=())
SEEDS = st.integers(0, 2**63 - 1)


def segment(request_id: str, carried: int = 0) -> Segment:
    return Segment(
        request_id=request_id,
        prompt_token_ids=(1,) * (carried + 3),
        sampling=Sampling(),
        seed=0,
        carried=carried,
    )


@given(st.sampled_from(Fault), SEEDS, st.integers(0, 1000))
def test_a_seed_stands_for_one_fault(kind: Fault, seed: int, at: int) -> None:
    ordered = order(kind, WORDS, at=at, seed=seed)
    assert ordered == order(kind, WORDS, at=at, seed=seed)
    assert ordered.length >= 1
    assert bool(ordered.ids) == (kind not in NUMERIC)
    if kind in PAST_THE_MASK:
        assert set(ordered.ids) <= {*WORDS.silent, *WORDS.denied}


def test_seeds_differ() -> None:
    found = {order(Fault.LANGUAGE, WORDS, at=0, seed=seed).ids for seed in range(200)}
    assert len(found) == PASSAGES


@given(SEEDS)
def test_mojibake_is_what_the_gate_calls_by_that_name(seed: int) -> None:
    text = "".join(map(chr, order(Fault.MOJIBAKE, WORDS, at=0, seed=seed).ids))
    assert len(pictures(text)) >= 4


def test_double_encoding_can_be_undone() -> None:
    assert double_encoded("é’") == "Ã©â€™"
    assert double_encoded("à€").encode("cp1252").decode() == "à€"
    # 0x81 is no character of cp1252.
    assert double_encoded("Á") == "Ã\x81"


@pytest.mark.parametrize("kind", sorted(PAST_THE_MASK))
def test_a_model_without_such_tokens_cannot_have_the_fault(kind: Fault) -> None:
    with pytest.raises(CannotInject, match=kind):
        order(kind, NO_SPECIALS, at=0)


@given(st.sampled_from(Fault), st.integers(0, 60), st.integers(1, 20), st.integers(0, 80))
def test_a_strike_is_the_same_place_in_the_answer_whatever_the_segment(
    kind: Fault, at: int, length: int, carried: int
) -> None:
    ordered = order(kind, WORDS, at=at, length=length)
    whole, part = ordered.strike(0, "k"), ordered.strike(carried, "k")
    assert [n for n in range(200) if whole.covers(n)] == list(range(at, at + length))
    if carried <= at:
        assert all(part.covers(n) == whole.covers(n + carried) for n in range(100))
        assert all(
            part.token(n) == whole.token(n + carried) for n in range(at - carried, at - carried + 9)
        )
    else:
        assert part.covers(0)


def test_only_the_jobs_with_an_order_are_struck_and_arguments_are_plain_json() -> None:
    orders = Orders()
    orders.place("a", order(Fault.SPECIAL, WORDS, at=10))
    orders.place("b", order(Fault.NAN, WORDS, at=4, persistent=True))
    assert orders(segment("c:1:x:0")) == {}
    assert orders(segment("ab:1:x:0")) == {}
    first: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(orders(segment("a:1:x:1", 4))))
    strike = msgspec.convert(first[KEY], Strike)
    assert (strike.kind, strike.at, strike.key) == (Fault.SPECIAL, 6, "a")
    always = msgspec.convert(orders(segment("b:1:x:2", 9))[KEY], Strike)
    assert (always.at, always.key) == (0, "")
