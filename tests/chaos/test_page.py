"""docs/reliability.md names tests that exist, and faults as the schedule does."""

import re
from pathlib import Path

from .schedule import FAULTS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")


def test_each_pitfall_is_held_by_tests_that_are_there() -> None:
    rows = [
        line
        for line in PAGE.partition("## What bites in RabbitMQ")[2].splitlines()
        if line.startswith("| ") and not line.startswith("| what bites")
    ]
    assert len(rows) == 40
    for row in rows:
        held = re.findall(r"`(tests/[\w/.]+)` `(test_\w+)`", row)
        assert held, row
        for file, name in held:
            assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), row


def test_every_fault_is_told() -> None:
    for fault in FAULTS:
        assert re.search(rf"^\| {fault} \| ", PAGE, re.MULTILINE), fault
