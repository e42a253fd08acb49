"""Seeds: derived, so that the same job gives the same lineage."""

from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.rollback import base_seed, derive_seed
from sluicegate.schemas.limits import MAX_SEED


@settings(deadline=None)
@given(st.integers(0, MAX_SEED), st.integers(1, 20), st.integers(0, 50))
def test_in_range_and_the_same_each_time(base: int, attempt: int, rollback: int) -> None:
    seed = derive_seed(base, attempt, rollback)
    assert 0 <= seed <= MAX_SEED
    assert seed == derive_seed(base, attempt, rollback)


def test_the_first_segment_keeps_the_jobs_own_and_all_others_differ() -> None:
    seeds = [derive_seed(7, attempt, rollback) for attempt in (1, 2, 3) for rollback in range(9)]
    assert seeds[0] == 7
    assert len(set(seeds)) == len(seeds)


def test_they_do_not_change_from_one_release_to_the_next() -> None:
    """A lineage of last year is repeated by this year's software."""
    assert base_seed("job-1", 5) == 5
    assert (base_seed("job-1", None), derive_seed(7, 2, 3)) == (
        136856926666863979,
        8718843434107328879,
    )
