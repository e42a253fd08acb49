"""docs/operations.md: every reason has its place, and says what `sluice dlq` says."""

import re
import time
from collections.abc import Iterator
from typing import Final

import click
import pytest
from sluicegate.ops import cmd_dlq
from sluicegate.ops.dlq_advice import ADVICE, BROKER_REASONS, UNDECODABLE, UNKNOWN
from sluicegate.schemas import Flaw, Names, Reason
from sluicegate.schemas.topology import DEAD_DELIVERY_LIMIT, DELIVERY_LIMIT, LANES
from sluicegate.worker import metrics, sickness

from . import night
from .pages import blocks, code_spans, headings, read, section, table

TEXT: Final = read("docs/operations.md")
REASONS: Final = (*map(str, Reason), *BROKER_REASONS, UNDECODABLE, UNKNOWN)
# Of the advice: what a person types or sets.
TYPED: Final = re.compile(
    r"--[a-z][a-z-]+|`sluice [a-z]+(?: [a-z]+)?|\b(?:sampling|rules)\.[a-z_]+|\bmax_tokens\b"
)


def told(key: str) -> str:
    """What the page says of a reason, or of a flaw: a section, or the rest of a row."""
    if key in REASONS:
        return section(TEXT, f"`{key}`")
    (row,) = [row for row in table(TEXT, "flaw").rows if row[0] == f"`{key}`"]
    return " ".join(row)


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Times are printed in the zone of whoever looks."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_says_what_it_means_how_it_is_seen_and_what_to_do(reason: str) -> None:
    said = re.findall(r"^- \*\*(\w+):\*\* \S", told(reason), re.MULTILINE)
    assert said == ["Means", "See", "Do"]


def test_no_heading_tells_of_a_reason_that_is_gone() -> None:
    found = [heading.strip("`") for heading in headings(TEXT) if re.fullmatch("`[a-z_]+`", heading)]
    assert sorted(found) == sorted(REASONS)


@pytest.mark.parametrize("key", [str(key) for key in ADVICE])
def test_the_page_advises_what_the_tool_advises(key: str) -> None:
    wanted = {each.strip("`") for each in TYPED.findall(ADVICE[key])}
    assert {each for each in wanted if each not in told(key)} == set()


def test_flaws_of_the_table_exist_each_once_in_their_order() -> None:
    codes = [row[0].strip("`") for row in table(TEXT, "flaw").rows]
    assert codes == [flaw for flaw in map(str, Flaw) if flaw in codes]
    assert all(row[1] and row[2] for row in table(TEXT, "flaw").rows)


@pytest.mark.usefixtures("utc")
def test_the_output_is_what_the_commands_print() -> None:
    printed = {block.partition("\n")[0]: block for block in blocks(TEXT, "console")}
    for command, lines in night.outputs():
        wanted = "\n".join([f"$ {command}", *lines, ""])
        assert printed[f"$ {command}"] == wanted, "python -m tests.docs.night prints it anew"


def test_the_night_shows_what_the_page_says_of_it() -> None:
    counts = [letter.head.reason for letter in night.letters()]
    assert counts.count(Reason.ENGINE_FAULT) == night.FAULTS
    # One was sent back alone before the others.
    assert f"{night.FAULTS - 1} sent back" in TEXT


def test_what_is_sent_back_is_announced_as_the_command_does() -> None:
    """tests/docs/test_permissions.py holds the command to the same words."""
    said = [line for block in blocks(TEXT, "console") for line in block.splitlines()]
    announced = [line for line in said if " to send back: " in line]
    assert len(announced) == 3
    for line in announced:
        match = re.fullmatch(r"(\d+) dead letters? to send back: \1 to jobs\.(\w+)", line)
        assert match is not None, line
        assert f"{match[1]} sent back" in said
        assert match[2] in LANES


def test_every_command_of_the_dead_letters_is_told() -> None:
    group = cmd_dlq.command
    rows = {row[0]: row for row in table(TEXT, "command").rows}
    named = {re.sub(r"`sluice dlq (\w+).*`", r"\1", cell) for cell in rows}
    assert named == set(group.commands)
    takes = {name for name in named if "--yes" in _flags(group.commands[name])}
    changing = {cell.split()[2].strip("`") for cell, row in rows.items() if row[2] != "no"}
    assert changing == takes


def test_every_filter_is_told() -> None:
    commands = cmd_dlq.command.commands
    # What a command is given besides: the broker, and where its settings are.
    others = {"--amqp-url", "--namespace", "--connect-timeout-s", "--config", "--dlq-key-file"}
    wanted = (_names(commands["list"]) & _names(commands["requeue"])) - others
    rows = [row[0].strip("`").split() for row in table(TEXT, "filter").rows]
    assert {row[0] for row in rows} == wanted
    metavars = {each.opts[0]: each.metavar for each in commands["list"].params}
    assert all(metavars[flag] in (metavar, None) for flag, metavar in rows)


def _names(command: click.Command) -> set[str]:
    """The flags of a command, each by its first name."""
    return {each.opts[0] for each in command.params}


def _flags(command: click.Command) -> set[str]:
    return {flag for each in command.params for flag in each.opts if flag.startswith("--")}


def test_the_numbers_and_names_are_those_of_the_topology() -> None:
    names = Names()
    assert f"the queue's delivery limit is {DEAD_DELIVERY_LIMIT:,}" in TEXT
    assert DELIVERY_LIMIT + 1 == 6
    assert "it was delivered six times" in section(TEXT, "`delivery_limit`")
    agents = (names.new_agents, names.approvals)
    for queue in (names.dead, names.checks, names.retry_queue("10m"), *agents):
        assert f"`{queue}`" in TEXT


def test_what_is_watched_is_measured() -> None:
    known = {
        name.removesuffix("_total")
        for each in vars(metrics).values()
        if (name := getattr(each, "_name", "")).startswith("sluice_")
    }
    spans = [span for span in code_spans(TEXT) if span.startswith("sluice_")]
    assert len(spans) > 8
    for span in spans:
        assert re.split(r"[{]", span)[0].removesuffix("_total") in known, span


def test_every_ailment_of_an_engine_is_told_with_the_workers_own_advice() -> None:
    rows = table(section(TEXT, "A sick engine"), "reason").rows
    assert {row[0]: row[2] for row in rows} == {
        f"`{ailment.value}`": advice for ailment, advice in sickness.ADVICE.items()
    }
    assert all(row[1] for row in rows)
