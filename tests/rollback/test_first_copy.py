"""Of a loop one copy is kept."""

from hypothesis import given
from hypothesis import strategies as st
from sluicegate.rollback import first_copy

UNIT = [7, 8, 9, 8]


def test_a_cut_behind_the_third_copy_keeps_the_first() -> None:
    tokens = [1, 2, 3, *UNIT * 6]
    assert first_copy(tokens, 3 + 3 * len(UNIT)) == 3 + len(UNIT)
    assert first_copy(tokens, 3 + len(UNIT)) == 3 + len(UNIT)


def test_what_is_no_loop_stays() -> None:
    assert first_copy([1, 2, 3, 4, 5, 6], 3) == 3
    assert first_copy([1, 2, 3], 3) == 3
    assert first_copy([], 0) == 0
    # It stands there twice, and something else follows.
    assert first_copy([*UNIT, *UNIT, 1, 2, 3, 4], 8) == 8


@given(
    st.lists(st.integers(0, 3), max_size=20),
    st.lists(st.integers(4, 9), min_size=1, max_size=12),
    st.integers(1, 6),
    st.integers(1, 6),
)
def test_one_copy_of_any_loop_is_kept(
    before: list[int], unit: list[int], kept: int, behind: int
) -> None:
    tokens = before + unit * (kept + behind)
    keep = first_copy(tokens, len(before) + kept * len(unit))
    # A unit that is a loop itself has a shorter one.
    assert len(before) < keep <= len(before) + len(unit)
    assert tokens[:keep] == before + unit[: keep - len(before)]
