"""The benchmark of a cut still runs, and counts right. How fast anything is, no test asks."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

import msgspec
import pytest
from sluicegate.ops.embedded_model import resolve_model

from .engine_report import Place
from .reasoning_report import CutReport, CutTurn, cut_lines, cut_tables
from .report import Spread

ROOT: Final = Path(__file__).resolve().parents[2]


async def bench(*arguments: str, **environment: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.bench.reasoning", *arguments),
        cwd=ROOT,
        env=os.environ | environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()


@pytest.mark.engine
async def test_reasoning_is_cut_and_plain_requests_are_as_long() -> None:
    model = resolve_model(os.environ.get("SLUICE_MODEL"))
    status, output, errors = await bench(
        *("--json", "--eager", "--rounds", "2", "--kept", "8,30"), SLUICE_MODEL=model
    )
    assert status == 0, errors
    report = msgspec.json.decode(output, type=CutReport)
    assert [(turn.round, turn.kept) for turn in report.turns] == [(1, 8), (1, 30), (2, 8), (2, 30)]
    for turn in report.turns:
        # What was kept, in whole blocks.
        assert turn.kept // 32 * 32 <= turn.cached_tokens < turn.prompt_tokens
        assert min(turn.cut_s, turn.cut_uncached_s, turn.normal_s, turn.normal_uncached_s) > 0
        assert turn.behind_abort_s > 0
    shown = "\n".join(cut_tables(report))
    assert "| 30 |" in shown
    assert report.place.libraries["torch"] in shown


@pytest.mark.parametrize("kept", ["64,x", "0", "64,1000"])
async def test_what_makes_no_sense_is_refused(kept: str) -> None:
    status, _, errors = await bench("--kept", kept)
    assert status == 2
    assert kept in errors


def turn(number: int, kept: int, slow: float) -> CutTurn:
    return CutTurn(
        round=number,
        kept=kept,
        prompt_tokens=100 + kept,
        cached_tokens=96,
        cut_s=0.0625 * slow,
        normal_s=0.03125 * slow,
        cut_uncached_s=0.75 * slow,
        normal_uncached_s=0.5 * slow,
        behind_abort_s=0.125 * slow,
    )


def test_ratios_are_within_a_round() -> None:
    # The machine gets eight times slower in the second round; the ratios don't see it.
    turns = [turn(1, 64, 1), turn(1, 256, 1), turn(2, 64, 8), turn(2, 256, 8)]
    first, second = cut_lines(turns)
    assert (first.kept, second.kept) == (64, 256)
    for line in (first, second):
        assert line.ratio == Spread(2.0, 2.0, 2.0)
        assert line.uncached_ratio == Spread(1.5, 1.5, 1.5)
        assert line.behind_abort_ratio == Spread(0.5, 0.5, 0.5)
    assert first.cut_ms == Spread(281.25, 62.5, 500.0)


def test_the_table_shows_each_length() -> None:
    place = Place(
        cpu="some", cpus=2, system="Linux", load=0.5, model="m", device="cpu", libraries={"a": "1"}
    )
    turns = [turn(1, 64, 1), turn(1, 256, 1)]
    report = CutReport(rounds=1, place=place, lines=cut_lines(turns), turns=turns)
    lines = list(cut_tables(report))
    header, rule, *rows = [line for line in lines if line.startswith("|")]
    assert header.count("|") == rule.count("|") == rows[0].count("|")
    assert [row.split(" | ")[0] for row in rows] == ["| 64", "| 256"] * 2
    assert rows[0].startswith("| 64 | 164, 96 | 62 (62–62) | 31 (31–31) | 2.00 (")
    assert rows[2].startswith("| 64 | 164, 0 | 750 (750–750) | 500 (500–500) | 1.50 (")
