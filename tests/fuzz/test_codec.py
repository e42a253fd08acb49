"""The codec under fire: only a clear refusal comes out of it."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.schemas.codec import MESSAGE_TYPES, Message, tag_of

from .examples import examples
from .hostile import NOT_JSON, changed
from .law import check

SOUND = examples()


@pytest.mark.parametrize("kind", MESSAGE_TYPES, ids=tag_of)
@pytest.mark.parametrize("body", NOT_JSON, ids=lambda body: ascii(body[:20]))
def test_what_is_no_message(kind: type[Message], body: bytes) -> None:
    assert not check(body, kind)


@pytest.mark.parametrize(("kind", "body"), SOUND, ids=lambda each: getattr(each, "__name__", ""))
def test_the_examples_are_sound(kind: type[Message], body: bytes) -> None:
    assert check(body, kind)


@given(st.sampled_from(SOUND), st.randoms(use_true_random=False))
@settings(max_examples=1_500, deadline=None)
def test_changed_messages(sound: tuple[type[Message], bytes], draw: random.Random) -> None:
    kind, body = sound
    check(changed(body, draw), kind)


@given(st.binary(max_size=300), st.sampled_from(MESSAGE_TYPES))
@settings(max_examples=300, deadline=None)
def test_bytes(body: bytes, kind: type[Message]) -> None:
    check(body, kind)


def test_some_of_what_is_changed_can_still_be_read() -> None:
    """Or the changes would be too rough to get far."""
    draw = random.Random(1)
    read = [check(changed(body, draw), kind) for kind, body in SOUND for _ in range(30)]
    assert 0.05 < sum(read) / len(read) < 0.95
