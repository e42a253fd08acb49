"""Identifiers sort by age, and derived ones come out the same."""

import itertools
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.schemas import GenerationJob, content_id, decode, encode, new_id


def test_new_ids_are_uuids_of_version_7() -> None:
    before = time.time_ns() // 1_000_000
    made = [uuid.UUID(new_id()) for _ in range(500)]
    after = time.time_ns() // 1_000_000
    for each in made:
        assert each.variant == uuid.RFC_4122
        assert each.version == 7
        assert before <= each.int >> 80 <= after
    assert len(set(made)) == len(made)


def test_new_ids_sort_by_age(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(time.time_ns(), 1_000_000)
    monkeypatch.setattr(time, "time_ns", lambda: next(clock))
    made = [new_id() for _ in range(50)]
    assert made == sorted(made)


def test_a_job_without_an_id_gets_one_of_its_own() -> None:
    first, second = GenerationJob(prompt="x"), GenerationJob(prompt="x")
    assert first.id != second.id
    # It is said on the wire, or each delivery would be another job.
    assert decode(encode(first), GenerationJob).id == first.id


@given(st.lists(st.binary(max_size=20), max_size=4))
def test_content_ids_are_uuids_of_version_8(parts: list[bytes]) -> None:
    made = uuid.UUID(content_id(*parts))
    assert made.version == 8
    assert made.variant == uuid.RFC_4122
    assert content_id(*parts) == str(made)


@given(st.lists(st.binary(max_size=6), max_size=4), st.lists(st.binary(max_size=6), max_size=4))
def test_other_parts_make_another_id(one: list[bytes], other: list[bytes]) -> None:
    assert (content_id(*one) == content_id(*other)) == (one == other)
