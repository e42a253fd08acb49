"""docs/architecture.md against the code: settlement by calling it, states, rooms, exit codes."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sluicegate.ops import cli, console
from sluicegate.producer.subscription import Delivery
from sluicegate.schemas import (
    AttemptRecord,
    DeadLetter,
    GenerationJob,
    GenerationResult,
    InvalidMessage,
    Names,
    Reason,
    Timings,
    Usage,
)
from sluicegate.schemas.limits import MAX_JOB_BYTES, MAX_OUTCOME_BYTES
from sluicegate.schemas.results import Outcome
from sluicegate.schemas.topology import DELIVERY_LIMIT
from sluicegate.worker import endings, registry
from sluicegate.worker.service import ExitCode
from sluicegate.worker.settlement import Identity, Settlement, Verb, bury, plan

from ..test_rooms import FORBIDDEN
from .pages import blocks, read, section, table

TEXT = read("docs/architecture.md")
WHO = Identity(worker="w", model="m", names=Names())
NOW = datetime.now(UTC)
SETTLEMENT = {row[0]: row[1:] for row in table(TEXT, "how the run ended").rows}


def delivery(body: bytes = b"{}", returned: int = 0) -> Delivery:
    """A delivery of which only what deciding needs is there."""
    properties = SimpleNamespace(
        headers={"x-delivery-count": returned}, message_id="m", correlation_id="c"
    )
    message = SimpleNamespace(
        header=SimpleNamespace(properties=properties),
        routing_key="jobs.interactive",
        redelivered=returned > 0,
    )
    return Delivery(body, cast("Any", message), "q")


def planned(ending: endings.Ending, *, returned: int = 0, text: str = "text") -> Settlement:
    report = endings.Report(
        ending=ending,
        text=text,
        record=AttemptRecord(attempt=1, worker="w", started_at=NOW),
        usage=Usage(),
        timings=Timings(),
    )
    return plan(WHO, GenerationJob(prompt="x"), delivery(returned=returned), report)


def buried(body: bytes, reason: Reason = Reason.INVALID_FIELD) -> Settlement:
    return bury(WHO, delivery(body), InvalidMessage(reason, "$.id", "no"))


REFUSAL = InvalidMessage(Reason.PROMPT_TOO_LONG, "$.prompt", "too long")
ANSWERED = endings.Answered("stop")
LARGE = b'{"id": "a", "x": "' + b"x" * MAX_JOB_BYTES + b'"}'
ROWS: dict[str, Callable[[], Settlement]] = {
    "`Answered`": lambda: planned(ANSWERED),
    "`Answered`, result over 4 MiB": lambda: planned(ANSWERED, text="x" * MAX_OUTCOME_BYTES),
    "`GaveUp`": lambda: planned(endings.GaveUp("a loop")),
    "`Refused`": lambda: planned(endings.Refused(REFUSAL)),
    "`DeadlinePassed`": lambda: planned(endings.DeadlinePassed(NOW)),
    "`TimedOut`": lambda: planned(endings.TimedOut(1.0)),
    "`Cancelled`": lambda: planned(endings.Cancelled()),
    "`Faulted`": lambda: planned(endings.Faulted("x"), returned=DELIVERY_LIMIT - 1),
    "`EngineLost`": lambda: planned(endings.EngineLost("x"), returned=DELIVERY_LIMIT - 1),
    "`Faulted`, returned 5 times": lambda: planned(endings.Faulted("x"), returned=5),
    "`EngineLost`, returned 5 times": lambda: planned(endings.EngineLost("x"), returned=5),
    "`Interrupted`": lambda: planned(endings.Interrupted("x"), returned=DELIVERY_LIMIT - 2),
    "`Interrupted`, returned 4 times": lambda: planned(endings.Interrupted("x"), returned=4),
    "can't be decoded, id readable": lambda: buried(b'{"id": "a"}'),
    "can't be decoded, id unreadable": lambda: buried(b"?"),
    "body over 1 MiB, id readable": lambda: buried(LARGE, Reason.TOO_LARGE),
}


WORDS: dict[type[object], str] = {
    DeadLetter: "dead letter",
    GenerationResult: "result",
    GenerationJob: "job",
}


def test_the_settlement_table_has_these_rows() -> None:
    assert list(SETTLEMENT) == list(ROWS)
    told = {name for row in SETTLEMENT for name in re.findall(r"`(\w+)`", row)}
    assert told == {kind.__name__ for kind in endings.Ending.__args__}


@pytest.mark.parametrize("name", ROWS)
def test_each_row_is_what_the_code_does(name: str) -> None:
    published, verb, outcome = SETTLEMENT[name]
    settlement = ROWS[name]()
    words = [WORDS[type(each.message)] for each in settlement.publications]
    assert published == (", ".join(words) or "nothing")
    assert verb == settlement.verb.value
    assert outcome.partition(":")[0] == _kind(settlement)
    if code := re.search(r"`(\w+)`", outcome):
        assert getattr(settlement.outcome, "reason", None) == code[1]


def _kind(settlement: Settlement) -> str:
    if settlement.outcome is None:
        return "none"
    return str(settlement.outcome.__struct_config__.tag)


def test_every_verb_is_explained() -> None:
    for verb in Verb:
        assert f"*{verb.value}*" in section(TEXT, "Settlement")


def test_what_is_remembered_is_told() -> None:
    assert f"{registry._REMEMBERED:,} characters" in TEXT  # pyright: ignore[reportPrivateUsage]


def edges() -> list[tuple[str, str]]:
    (diagram,) = blocks(TEXT, "mermaid")
    first, *lines = diagram.strip().splitlines()
    assert first == "stateDiagram-v2"
    found = [re.fullmatch(r"\s+(\S+) --> (\w+|\[\*\])(: .+)?", line) for line in lines]
    return [(each[1], each[2]) for each in found if each]


def test_the_diagram_is_one_and_leads_somewhere() -> None:
    (diagram,) = blocks(TEXT, "mermaid")
    assert len(edges()) == len(diagram.strip().splitlines()) - 1
    states = {state for edge in edges() for state in edge} - {"[*]"}
    reachable = {"[*]"}
    for _ in states:
        reachable |= {to for origin, to in edges() if origin in reachable}
    assert states <= reachable
    assert {origin for origin, _ in edges()} >= states, "a state without a way out"


def test_the_diagram_has_every_outcome_of_a_run() -> None:
    outcomes = {str(kind.__struct_config__.tag) for kind in Outcome.__args__}
    for outcome in outcomes:
        assert ("running", outcome) in edges()
        assert (outcome, "received") in edges()
    # By the table: whatever is not completed leaves a dead letter.
    for name, (published, _, outcome) in SETTLEMENT.items():
        kind = outcome.partition(":")[0]
        if kind not in ("none", "completed"):
            assert "dead letter" in published, name
            assert (kind, "dead_letter") in edges()
    assert ("interrupted", "queued") in edges()


def test_what_a_room_must_not_import_is_told() -> None:
    rooms = {row[0].strip("`/"): row[2] for row in table(TEXT, "folder").rows}
    told = {room: {word for word in names.split(", ") if word} for room, names in rooms.items()}
    assert told == FORBIDDEN


def test_every_exit_code_is_told() -> None:
    codes = {int(row[0]) for row in table(section(TEXT, "Exit codes"), "status").rows}
    of_commands = {console.OK, console.FAILED, console.USAGE, console.CANNOT_START, cli.INTERRUPTED}
    assert codes == of_commands | set(ExitCode)
