"""The faults of a run come from its seed, all of them, and to everybody in turn."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from .schedule import FAULTS, LENGTHS_S, OF_ALL, OF_SERVICES, steps

PARTIES = ["backend", "worker-1", "worker-2", "checker-1", "agent-1"]


@given(st.integers(), st.integers(1, 100))
def test_a_schedule(seed: int, count: int) -> None:
    planned = steps(seed, count, PARTIES, FAULTS)
    assert planned == steps(seed, count, PARTIES, FAULTS)
    assert len(planned) == count
    often = Counter(step.fault for step in planned)
    assert max(often.values()) - min(often[fault] for fault in FAULTS) <= 1
    for step in planned:
        low, high = LENGTHS_S.get(step.fault, (0.0, 0.0))
        assert low <= step.length_s <= high
        assert bool(step.target) is (step.fault not in OF_ALL)
        if step.fault in OF_SERVICES:
            assert step.target != "backend"


def test_everybody_has_a_turn() -> None:
    planned = steps(7, 5 * len(FAULTS), PARTIES, FAULTS)
    killed = [step.target for step in planned if step.fault == "SIGKILL"]
    assert sorted(killed) == sorted(PARTIES)


def test_seeds_differ() -> None:
    assert steps(1, 16, PARTIES, FAULTS) != steps(2, 16, PARTIES, FAULTS)
