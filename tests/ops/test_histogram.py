"""Two distributions as text."""

import math

from hypothesis import given
from hypothesis import strategies as st
from sluicegate.ops.histogram import side_by_side

values = st.lists(st.floats(-1e9, 1e9), max_size=50)


@given(values, values, st.floats(-1e9, 1e9), st.integers(60, 200))
def test_every_text_is_counted_once_and_no_line_is_too_long(
    good: list[float], bad: list[float], threshold: float, width: int
) -> None:
    lines = list(side_by_side(good, bad, threshold, width=width))
    if not good and not bad:
        assert lines == []
        return
    assert len(lines) == 15
    assert all(len(line) <= width for line in lines)
    assert sum("<" in line for line in lines) == (threshold != 0)
    counts = [
        int(word)
        for line in lines[1:]
        for word in line.replace("<", " ").split()[1:]
        if word[0] not in "#."
    ]
    assert sum(counts) == len(good) + len(bad)


def test_good_and_bad_stand_side_by_side_with_the_threshold_between() -> None:
    lines = list(side_by_side([1.0] * 9 + [2.0], [14.0] * 3, 8.0, width=80))
    first, last = lines[1].split(), lines[-1].split()
    assert first[:2] == ["less", "9"]
    assert last[1] == "3"
    # Bars are of shares: three of three are more than nine of ten.
    assert len(last[2]) > len(first[2])
    assert next(index for index, line in enumerate(lines) if "<" in line) == 8


def test_one_value_and_an_infinite_one() -> None:
    assert len(list(side_by_side([1.0], [], 0.0, width=60))) == 15
    assert len(list(side_by_side([1.0, 2.0] * 99, [math.inf], 1.5, width=60))) == 15
