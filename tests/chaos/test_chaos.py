"""The short form of `make chaos`: nothing is lost, nothing comes twice without a mark."""

from pathlib import Path

import pytest

from .report import troubles
from .run import Setup, run
from .schedule import Fault

pytestmark = pytest.mark.broker

# The rest needs more seconds than a suite should spend on it.
SHORT: tuple[Fault, ...] = (
    "settlement lost",
    "connections cut",
    "SIGKILL",
    "queue deleted and declared",
    "broker killed",
    "confirmation lost",
    "SIGTERM",
)


async def test_jobs_under_faults(tmp_path: Path) -> None:
    said: list[str] = []
    setup = Setup(jobs=120, seed=34, faults=SHORT, count=len(SHORT))
    report = await run(setup, tmp_path, said.append)
    assert list(troubles(report)) == [], "\n".join(said)
    assert report.ok
    assert report.tally.published == 120
    # A fault that never comes to pass proves nothing.
    assert sum(line.done for line in report.faults) >= len(SHORT) - 1
