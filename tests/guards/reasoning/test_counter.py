"""Loops that count."""

from collections.abc import Iterable

import pytest
from sluicegate.guards.finding import Finding
from sluicegate.guards.profiles import profile
from sluicegate.guards.reasoning.guard import reasoning_gates

from ..gate_law import steps
from . import traces


def first_finding(lines: Iterable[str], before: str = "") -> Finding | None:
    gates = reasoning_gates(profile("chat"), 60_000)
    found = (gates.feed(step) for step in steps(traces.tokens(before + "".join(lines))))
    return next((one for one in found if one is not None), None)


@pytest.mark.parametrize(
    "line",
    [
        "Attempt {0}: still wrong. ",
        "{0}. Check the answer once more.\n",
        "Attempt {0} of {1}: still wrong. ",
        "Step {0}: Check whether the answer is right. It is right.\n",
    ],
)
def test_a_number_that_counts_hides_no_loop(line: str) -> None:
    before = traces.table(6)
    lines = [line.format(at, at + 9) for at in range(17, 160)]
    found = first_finding(lines, before)
    assert found is not None
    assert found.gate == "reasoning_counters"
    # The first copy stays, and what was thought before.
    assert len(before) < found.chars[0] <= len(before) + 2 * len(lines[0])


def test_what_is_worked_out_is_no_count() -> None:
    checks = [
        f"Check {at}: the remainder by 11 is {at % 11}, no.\n" for at in range(300, 420) if at % 11
    ]
    assert first_finding(checks) is None
    squares = [f"Try n = {n}: n squared is {n * n}, not what I need.\n" for n in range(10, 90)]
    assert first_finding(squares) is None
    tally = [f"{at:05}: {'yes' if at % 5 in (0, 3) else 'no'}.\n" for at in range(431, 600)]
    assert first_finding(tally) is None


def test_numbers_of_any_length_are_read() -> None:
    long = "".join(map(str, range(1_000, 2_500)))
    assert first_finding([f"The number {long} is long. "] * 2) is None
