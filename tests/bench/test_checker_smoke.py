"""The benchmark of the scoring model still runs, and counts right. How fast it is, no test asks."""

import msgspec
import pytest

from . import checker
from .report import Spread

pytestmark = pytest.mark.engine


def test_every_way_is_measured_in_every_round(capsys: pytest.CaptureFixture[str]) -> None:
    checker.main(["--candidates", "2", "--batch", "2", "--rounds", "2", "--json"])
    told = msgspec.json.decode(capsys.readouterr().out, type=checker.Report)
    assert [line.batch for line in told.lines] == [1, 0, 2]
    assert [(turn.round, turn.batch) for turn in told.turns] == [
        (number, batch) for number in range(2) for batch in (1, 0, 2)
    ]
    assert told.lines[0].ratio == Spread(1, 1, 1)
    assert 2 * 19 <= told.tokens <= 2 * 201
    peaks = [told.loaded_mib, *(line.peak_mib for line in told.lines)]
    assert peaks == sorted(peaks)
    checker.show(told)
    assert "batches of 2" in capsys.readouterr().out


def test_the_candidates_are_the_same_in_every_run() -> None:
    assert checker.candidates(4) == checker.candidates(4)
    lengths = {len(each.text) for each in checker.candidates(20)}
    assert max(lengths) > 4 * min(lengths)
