"""The benchmark still runs, and counts right. How fast anything is, no test asks."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

import msgspec
import pytest
import pytest_asyncio

from .contender import BASELINE, CONTENDERS, missing
from .report import Report, Spread, Turn, render, summary

ROOT: Final = Path(__file__).resolve().parents[2]
JOBS: Final = 8
ROUNDS: Final = 2


async def bench(*arguments: str, url: str = "") -> tuple[int, str, str]:
    """Run the benchmark as a person would: exit status, output, errors."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        cwd=ROOT,
        env=os.environ | {"SLUICE_AMQP_URL": url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()


@pytest_asyncio.fixture(scope="module")
async def report(broker_url: str) -> Report:
    """A run of every contender that is installed."""
    there = [name for name in CONTENDERS if not missing(name)]
    status, output, errors = await bench(
        *("-m", "tests.bench.queue", "--json", "--contenders", ",".join(there)),
        *("--jobs", str(JOBS), "--rounds", str(ROUNDS), "--concurrency", "3"),
        url=broker_url,
    )
    assert status == 0, errors
    return msgspec.json.decode(output, type=Report)


@pytest.mark.broker
@pytest.mark.parametrize("name", CONTENDERS)
def test_every_contender_gets_its_jobs_through(name: str, report: Report) -> None:
    if lacking := missing(name):
        pytest.skip(f"not installed: {', '.join(lacking)}")
    turns = [turn for turn in report.turns if turn.contender == name]
    assert [(turn.round, turn.jobs) for turn in turns] == [(1, JOBS), (2, JOBS)]
    assert all(turn.wall_s > 0 and turn.worker_cpu_s > 0 for turn in turns)


@pytest.mark.broker
def test_rounds_are_interleaved(report: Report) -> None:
    names = [turn.contender for turn in report.turns]
    assert names == [line.contender for line in report.lines] * ROUNDS


@pytest.mark.broker
def test_the_report_says_where_and_with_what(report: Report) -> None:
    text = "\n".join(render(report))
    assert report.machine.cpus >= 1
    for wanted in (report.machine.rabbitmq, report.machine.python, "aio-pika", "| sluicegate |"):
        assert wanted in text


async def test_an_unknown_contender_is_refused_with_the_known_names() -> None:
    # As a file, too, it must not be taken for the standard library's `queue`.
    status, _, errors = await bench("tests/bench/queue.py", "--contenders", "celery")
    assert status == 2
    assert all(name in errors for name in ("celery", *CONTENDERS))


def _turn(contender: str, number: int, wall_s: float) -> Turn:
    return Turn(
        contender=contender,
        round=number,
        jobs=100,
        wall_s=wall_s,
        worker_cpu_s=0.2,
        backend_cpu_s=0.1,
    )


def test_ratios_compare_turns_of_the_same_round() -> None:
    # The machine gets ten times slower in the second round; the ratio does not see it.
    turns = [
        *(_turn(BASELINE, 1, 1.0), _turn("sluicegate", 1, 2.0)),
        *(_turn(BASELINE, 2, 10.0), _turn("sluicegate", 2, 20.0)),
        *(_turn(BASELINE, 3, 1.0), _turn("sluicegate", 3, 4.0)),
    ]
    base, ours = summary(turns)
    assert (base.contender, base.ratio) == (BASELINE, Spread(1.0, 1.0, 1.0))
    assert ours.ratio == Spread(0.5, 0.25, 0.5)
    assert ours.jobs_per_s == Spread(25.0, 5.0, 50.0)
    assert (ours.worker_cpu_ms.median, ours.backend_cpu_ms.median) == (2.0, 1.0)


def test_without_the_baseline_there_is_no_ratio() -> None:
    (line,) = summary([_turn("sluicegate", 1, 1.0)])
    assert line.ratio is None
