"""The benchmark of watchdog and breaker still runs, and counts right. How fast anything is, no test
asks."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

import msgspec
import pytest

from .agents import AgentReport
from .report import Spread

ROOT: Final = Path(__file__).resolve().parents[2]


@pytest.mark.broker
async def test_rounds_are_run_and_watched(broker_url: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.bench.agents", "--json", "--rounds", "6"),
        cwd=ROOT,
        env=os.environ | {"SLUICE_AMQP_URL": broker_url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    (report,) = msgspec.json.decode(output, type=list[AgentReport])
    assert (report.engine, report.rounds) == ("scripted", 6)
    assert 0 < report.watched_s.min <= report.watched_s.median <= report.watched_s.max
    assert report.round_s.min > 0


def test_the_share_is_of_medians() -> None:
    report = AgentReport(
        engine="e", rounds=3, round_s=Spread(2.0, 1.0, 9.0), watched_s=Spread(0.5, 0.1, 8.0)
    )
    assert report.share == 0.25
