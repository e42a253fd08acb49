"""The short form of the long run: tasks and descriptors come back, memory stays within reason."""

from pathlib import Path

import pytest

from . import vitals
from .soak import soak
from .vitals import Growth, Vitals

# What caches may take before they are full, which they are not after so few jobs.
MOST_MIB = 40.0


@pytest.mark.broker
async def test_some_hundred_jobs_leave_nothing_behind(tmp_path: Path) -> None:
    said: list[str] = []
    report = await soak(600, 3, tmp_path, MOST_MIB, said.append)
    assert list(report.troubles()) == [], "\n".join(said)
    assert set(report.growth) == {"backend", "worker-1", "checker-1"}


def test_growth_is_told_by_the_parts_of_a_run() -> None:
    samples = [
        Vitals(pid=1, at=float(at), rss_mib=50.0 + at, fds=10 + (0 < at <= 100), tasks=5)
        for at in range(120)
    ]
    assert vitals.growth(samples, 0.0, 20.0, 100.0) == Growth(
        fds_before=10,
        fds_after=10,
        tasks_before=5,
        tasks_after=5,
        rss_first_mib=50.0,
        rss_early_mib=75.0,
        rss_late_mib=145.0,
    )
    with pytest.raises(ValueError, match="samples"):
        vitals.growth(samples[:50], 0.0, 20.0, 100.0)


async def test_a_sample_is_of_this_process(tmp_path: Path) -> None:
    before = vitals.sample()
    with (tmp_path / "held").open("wb"):
        assert vitals.sample().fds == before.fds + 1
    async with vitals.recorded(tmp_path / "vitals"):
        pass
    assert vitals.read(tmp_path / "none") == []
