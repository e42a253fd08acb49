"""The engine's benchmark still runs, and counts right. How fast anything is, no test asks."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

import msgspec
import pytest
from sluicegate.ops.embedded_model import resolve_model

from .engine_report import (
    GATED,
    PLAIN,
    EngineReport,
    EngineTurn,
    RollbackTurn,
    engine_lines,
    engine_tables,
    rollback_line,
)
from .report import Spread

ROOT: Final = Path(__file__).resolve().parents[2]


async def bench(*arguments: str, **environment: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.bench.engine", *arguments),
        cwd=ROOT,
        env=os.environ | environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()


@pytest.mark.engine
async def test_both_contenders_run_in_turns_on_one_engine() -> None:
    model = resolve_model(os.environ.get("SLUICE_MODEL"))
    status, output, errors = await bench(
        *("--json", "--eager", "--rounds", "2", "--tokens", "40", "--concurrency", "1,2"),
        SLUICE_MODEL=model,
    )
    assert status == 0, errors
    report = msgspec.json.decode(output, type=EngineReport)
    assert [(turn.round, turn.concurrency, turn.contender) for turn in report.turns] == [
        *((1, 1, PLAIN), (1, 1, GATED), (1, 2, PLAIN), (1, 2, GATED)),
        *((2, 1, GATED), (2, 1, PLAIN), (2, 2, GATED), (2, 2, PLAIN)),
    ]
    assert all(0 < turn.tokens <= 40 * turn.concurrency for turn in report.turns)
    # Alone on the engine, the same seed gives the same text, gates or none.
    alone = {turn.texts for turn in report.turns if turn.concurrency == 1}
    assert len(alone) == 1
    assert all(turn.cached_tokens >= 32 for turn in report.rollbacks)
    assert len(report.rollbacks) == 2
    shown = "\n".join(engine_tables(report))
    assert "| 2 |" in shown
    assert report.place.libraries["torch"] in shown


@pytest.mark.parametrize(
    "arguments",
    [("--concurrency", "1,x"), ("--concurrency", "0"), ("--tokens", "8", "--back", "8")],
)
async def test_what_makes_no_sense_is_refused(arguments: tuple[str, ...]) -> None:
    status, _, errors = await bench(*arguments)
    assert status == 2
    assert arguments[-2] in errors


def turn(contender: str, number: int, wall_s: float, **more: int) -> EngineTurn:
    texts = ("a", "b") if contender == PLAIN or number > 1 else ("a", "c")
    return EngineTurn(
        contender=contender,
        round=number,
        concurrency=2,
        tokens=100,
        wall_s=wall_s,
        texts=texts,
        **more,
    )


def test_ratios_compare_turns_of_the_same_round() -> None:
    # The machine gets ten times slower in the second round; the ratio does not see it.
    (line,) = engine_lines(
        [
            *(turn(PLAIN, 1, 1.0), turn(GATED, 1, 1.25, trips=1, wasted_tokens=7)),
            *(turn(GATED, 2, 10.0), turn(PLAIN, 2, 10.0)),
        ]
    )
    assert line.ratio == Spread(0.9, 0.8, 1.0)
    assert line.plain == Spread(55.0, 10.0, 100.0)
    assert (line.trips, line.wasted_tokens) == (1, 7)
    # One of four texts differs.
    assert line.same_texts == 0.75


def test_a_rollback_is_told_in_milliseconds() -> None:
    one = RollbackTurn(
        prompt_tokens=150,
        tokens=128,
        back=4,
        cached_tokens=128,
        resumed_s=0.05,
        uncached_s=0.25,
        again_s=4.0,
    )
    line = rollback_line([one])
    assert line.resumed_ms == Spread(50.0, 50.0, 50.0)
    assert line.again_ms.median == 4000.0
    assert line.cached_tokens.median == 128
