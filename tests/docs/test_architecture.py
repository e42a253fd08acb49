"""docs/architecture.md against the code: settlement by calling it, states, rooms, exit codes."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sluicegate.ops import cli, console
from sluicegate.producer.subscription import Delivery
from sluicegate.rollback import default_retry_table
from sluicegate.schemas import (
    AgentJob,
    AgentRecord,
    AttemptRecord,
    Candidate,
    CheckRecord,
    Completed,
    DeadLetter,
    FaultRecord,
    Flaw,
    GenerationJob,
    GenerationResult,
    InvalidMessage,
    Lineage,
    Mutation,
    Names,
    Partial,
    Progress,
    Reason,
    Sampling,
    Timings,
    Verdict,
)
from sluicegate.schemas.limits import MAX_JOB_BYTES, MAX_OUTCOME_BYTES
from sluicegate.schemas.results import Outcome
from sluicegate.schemas.topology import DELIVERY_LIMIT
from sluicegate.worker import endings, registry
from sluicegate.worker.agent import endings as agent_endings
from sluicegate.worker.agent.moves import Over, called_off
from sluicegate.worker.agent.rounds import begun
from sluicegate.worker.publications import Identity, Publication, Settlement, Verb, bury
from sluicegate.worker.service import ExitCode
from sluicegate.worker.settlement import Moment, plan
from sluicegate.worker.verdict_settlement import plan_cancelled, plan_expired, plan_verdict

from ..test_rooms import FORBIDDEN
from .pages import blocks, read, section, table

TEXT = read("docs/architecture.md")
WHO = Identity(worker="w", model="m", names=Names())
NOW = datetime.now(UTC)
SETTLEMENT = {row[0]: row[1:] for row in table(TEXT, "how the run ended").rows}
JUDGED = {row[0]: row[1:] for row in table(TEXT, "verdict").rows}
STEPPED = {row[0]: row[1:] for row in table(TEXT, "what the step came to").rows}


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


def planned(
    ending: endings.Ending,
    *,
    returned: int = 0,
    text: str = "text",
    progress: Progress | None = None,
    **fields: Any,
) -> Settlement:
    flaw = ending.flaw if isinstance(ending, endings.GaveUp) else None
    report = endings.Report(
        ending=ending,
        text=text,
        record=AttemptRecord(attempt=1, worker="w", started_at=NOW, flaw=flaw),
        timings=Timings(),
        progress=progress,
    )
    job = GenerationJob(prompt="x", **fields)
    moment = Moment(NOW, 0.5)
    return plan(WHO, job, delivery(returned=returned), report, default_retry_table(), moment)


def judged(outcome: Any, **fields: Any) -> Settlement:
    """What is planned for a candidate with this verdict."""
    record = CheckRecord(check="rules", outcome=outcome, flaw=Flaw.MISSING_TEXT)
    verdict = Verdict(outcome=outcome, checks=(record,), checker="c", at=NOW)
    return plan_verdict(WHO, candidate(**fields), delivery(), verdict, default_retry_table(), NOW)


def candidate(**fields: Any) -> Candidate:
    asked: dict[str, Any] = {"prompt": "x", "checks": "block", **fields}
    job = GenerationJob(**asked)
    attempt = AttemptRecord(attempt=1, worker="w", started_at=NOW)
    result = GenerationResult(
        job_id=job.id,
        attempt=1,
        outcome=Completed(),
        text="text",
        lineage=Lineage(attempts=(attempt,)),
        finished_at=NOW,
    )
    return Candidate(job=job, result=result)


PROGRESS = Progress(
    attempt=1,
    model="m",
    vocabulary_size=9,
    digest="0" * 32,
    started_at=NOW,
    at=NOW,
    tokens=(1, 2, 3),
    seed=1,
)


def faults(number: int, *, lost: bool = False) -> Lineage:
    fault = FaultRecord(attempt=1, worker="w", at=NOW, lost=lost)
    return Lineage(faults=(fault,) * number)


def buried(body: bytes, reason: Reason = Reason.INVALID_FIELD) -> Settlement:
    return bury(WHO, delivery(body), InvalidMessage(reason, "$.id", "no"))


REFUSAL = InvalidMessage(Reason.PROMPT_TOO_LONG, "$.prompt", "too long")
ANSWERED = endings.Answered("stop")
LARGE = b'{"id": "a", "x": "' + b"x" * MAX_JOB_BYTES + b'"}'
LOOP = endings.GaveUp("a loop", flaw=Flaw.LOOP, found_by="loop")
RUNAWAY = endings.GaveUp("no end", flaw=Flaw.REASONING_NO_ANSWER, found_by="reasoning")
ROWS: dict[str, Callable[[], Settlement]] = {
    "`Answered`, checks off": lambda: planned(ANSWERED),
    "`Answered`, checks observe": lambda: planned(ANSWERED, checks="observe"),
    "`Answered`, checks block": lambda: planned(ANSWERED, checks="block"),
    "`Answered`, result over 4 MiB": lambda: planned(ANSWERED, text="x" * MAX_OUTCOME_BYTES),
    "`GaveUp`, attempts left": lambda: planned(LOOP),
    "`GaveUp`, the last attempt": lambda: planned(LOOP, max_attempts=1),
    "`GaveUp`, the last attempt, over its reasoning": lambda: planned(RUNAWAY, max_attempts=1),
    "`Refused`, for what a retry changed": lambda: planned(
        endings.Refused(REFUSAL), mutation=Mutation(sampling=Sampling(), instruction="In German.")
    ),
    "`Refused`": lambda: planned(endings.Refused(REFUSAL)),
    "`DeadlinePassed`": lambda: planned(endings.DeadlinePassed(NOW)),
    "`TimedOut`": lambda: planned(endings.TimedOut(1.0)),
    "`Cancelled`": lambda: planned(endings.Cancelled()),
    "`Faulted`": lambda: planned(endings.Faulted("x"), lineage=faults(4)),
    "`EngineLost`": lambda: planned(endings.EngineLost("x"), lineage=faults(1, lost=True)),
    "`Faulted`, the sixth time": lambda: planned(endings.Faulted("x"), lineage=faults(5)),
    "`EngineLost`, the third time": lambda: planned(
        endings.EngineLost("x"), lineage=faults(2, lost=True)
    ),
    "`Interrupted`, with tokens to hand on": lambda: planned(
        endings.Interrupted("x"), progress=PROGRESS
    ),
    "`Interrupted`": lambda: planned(endings.Interrupted("x"), returned=DELIVERY_LIMIT - 2),
    "`Interrupted`, returned 4 times": lambda: planned(endings.Interrupted("x"), returned=4),
    "can't be decoded, id readable": lambda: buried(b'{"id": "a"}'),
    "can't be decoded, id unreadable": lambda: buried(b"?"),
    "body over 1 MiB, id readable": lambda: buried(LARGE, Reason.TOO_LARGE),
}
VERDICTS: dict[str, Callable[[], Settlement]] = {
    "passed": lambda: judged("passed"),
    "rejected, attempts left": lambda: judged("rejected"),
    "rejected, the last attempt": lambda: judged("rejected", max_attempts=1),
    "rejected, deadline passed": lambda: judged("rejected", deadline=NOW),
    "a check broke, attempts left": lambda: judged("failed"),
    "a check broke, the last attempt": lambda: judged("failed", max_attempts=1),
    "any, checks observe": lambda: judged("rejected", checks="observe"),
    "none yet, deadline passed": lambda: plan_expired(WHO, candidate(), delivery(), NOW),
    "any or none, called off, checks block": lambda: plan_cancelled(WHO, candidate(), delivery()),
    "none, for the checker failed": lambda: Settlement((), Verb.REJECT),
    "none, for the checker stops": lambda: Settlement((), Verb.NACK),
}


def over(outcome: Outcome) -> Settlement:
    """What is planned for an agent job that is over."""
    move = Over(AGENT, outcome, "text", AgentRecord())
    return agent_endings.ended(WHO, move, delivery(), NOW)


AGENT_JOB = AgentJob(task="x", deadline=NOW)
AGENT = begun(AGENT_JOB, NOW, "a")
MISSING = InvalidMessage(Reason.TOOL_UNAVAILABLE, "$.tools", "no such tool")
# Those that end a job; the others publish no message, or one in a transaction.
STEPS: dict[str, Callable[[], Settlement]] = {
    "the model answered": lambda: over(Completed()),
    "ended before that": lambda: over(Partial(reason=Reason.BREAKER_TRIPPED, detail="circles")),
    "can't be begun here": lambda: agent_endings.refused(WHO, AGENT_JOB, MISSING, delivery(), NOW),
    "its deadline passed before it was begun": lambda: agent_endings.too_late(
        WHO, AGENT_JOB, delivery(), NOW
    ),
    "called off before it was begun": lambda: agent_endings.not_wanted(
        WHO, AGENT_JOB, delivery(), NOW
    ),
    "called off, the last answer not yet decided on": lambda: agent_endings.ended(
        WHO, called_off(AGENT), delivery(), NOW
    ),
    "can't be decoded, its id readable": lambda: buried(b'{"id": "a"}'),
    "the same, on the last delivery": lambda: over(
        Partial(reason=Reason.GENERATION_FAILED, detail="its step failed")
    ),
    "its state can't be right": lambda: over(Partial(reason=Reason.INVALID_FIELD, detail="no")),
    "a copy of a job under way, for another reply key": lambda: agent_endings.under_way(
        WHO, AGENT_JOB, "orders", NOW
    ),
}

WORDS: dict[type[object], str] = {
    DeadLetter: "dead letter",
    GenerationResult: "result",
    GenerationJob: "job",
    Candidate: "candidate",
}


def test_the_settlement_table_has_these_rows() -> None:
    assert list(SETTLEMENT) == list(ROWS)
    told = {name for row in SETTLEMENT for name in re.findall(r"`(\w+)`", row)}
    assert told == {kind.__name__ for kind in endings.Ending.__args__}


def test_the_table_of_verdicts_has_these_rows() -> None:
    assert list(JUDGED) == list(VERDICTS)


def test_the_table_of_steps_has_every_end() -> None:
    ends = [name for name, row in STEPPED.items() if not row[2].startswith("none")]
    assert ends == list(STEPS)
    for name, (published, verb, _) in STEPPED.items():
        if name not in STEPS:
            assert published == "nothing" or "in a transaction" in published, name
            assert verb.split(",")[0] in {each.value for each in Verb}


@pytest.mark.parametrize("name", [*ROWS, *VERDICTS, *STEPS])
def test_each_row_is_what_the_code_does(name: str) -> None:
    published, verb, outcome = {**SETTLEMENT, **JUDGED, **STEPPED}[name]
    settlement = {**ROWS, **VERDICTS, **STEPS}[name]()
    words = [word(each) for each in settlement.publications]
    assert published == (", ".join(words) or "nothing")
    assert verb == settlement.verb.value
    assert outcome.partition(":")[0] == _kind(settlement)
    if code := re.search(r"`(\w+)`", outcome):
        assert getattr(settlement.outcome, "reason", None) == code[1]


def word(publication: Publication) -> str:
    said = WORDS[type(publication.message)]
    return f"{said} to retry" if publication.exchange == WHO.names.retry else said


def _kind(settlement: Settlement) -> str:
    if settlement.outcome is None:
        return "none"
    return str(settlement.outcome.__struct_config__.tag)


def test_every_verb_is_explained() -> None:
    for verb in Verb:
        assert f"*{verb.value}*" in section(TEXT, "Settlement")


def test_what_is_remembered_is_told() -> None:
    assert f"{registry._REMEMBERED:,} bytes" in TEXT  # pyright: ignore[reportPrivateUsage]


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
    # An agent job ends as `partial`, and no run of a generation job does.
    outcomes = {str(kind.__struct_config__.tag) for kind in Outcome.__args__} - {"partial"}
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
