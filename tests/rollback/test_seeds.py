"""Seeds: derived, so that the same job gives the same lineage."""

from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.rollback import attempt_seed, derive_seed
from sluicegate.schemas.limits import MAX_SEED


@settings(deadline=None)
@given(
    st.text(min_size=1, max_size=20),
    st.none() | st.integers(0, MAX_SEED),
    st.integers(1, 20),
    st.integers(0, 50),
)
def test_in_range_and_the_same_each_time(
    job_id: str, own: int | None, attempt: int, rollback: int
) -> None:
    seed = derive_seed(attempt_seed(job_id, own, attempt), rollback)
    assert 0 <= seed <= MAX_SEED
    assert seed == derive_seed(attempt_seed(job_id, own, attempt), rollback)


def test_the_first_segment_keeps_the_jobs_own_and_all_others_differ() -> None:
    seeds = [
        derive_seed(attempt_seed("job-1", 7, attempt), rollback)
        for attempt in (1, 2, 3)
        for rollback in range(9)
    ]
    assert seeds[0] == 7
    assert len(set(seeds)) == len(seeds)


def test_jobs_with_the_same_seed_part_at_the_second_attempt() -> None:
    """Two jobs that were refused for the same text should not both get the next same text."""
    one, other = ([attempt_seed(job, 7, attempt) for attempt in (1, 2, 3)] for job in ("a", "b"))
    assert one[0] == other[0] == 7
    assert not set(one[1:]) & set(other[1:])


def test_they_do_not_change_from_one_release_to_the_next() -> None:
    """A lineage of last year is repeated by this year's software."""
    assert attempt_seed("job-1", None, 1) == 136856926666863979
    assert attempt_seed("job-1", 5, 1) == 5
    assert attempt_seed("job-1", 5, 2) == 9206260444201496999
    assert derive_seed(5, 3) == 3225796433211783775
