"""No piece of what was asked, written, called or found is left in a letter without texts."""

import json
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sluicegate.schemas import (
    AgentContext,
    AgentJob,
    DeadLetter,
    GenerationJob,
    JobEvent,
    Origin,
    Reason,
    decode,
    encode,
)
from sluicegate.schemas.agents import (
    Assessment,
    CallSample,
    Decision,
    Ending,
    Execution,
    LedgerEntry,
    Memory,
    Monitoring,
    Orchestration,
    ParseFailure,
    Round,
    RoundSample,
    Spent,
    Stop,
)
from sluicegate.schemas.agents import Finding as AgentFinding
from sluicegate.schemas.events import (
    ApprovalWanted,
    Delta,
    Finished,
    Judged,
    Reasoned,
    Retrying,
    RoundEnded,
)
from sluicegate.schemas.flaws import Flaw, Level
from sluicegate.schemas.jobs import ChatMessage
from sluicegate.schemas.lineage import (
    AttemptRecord,
    FaultRecord,
    Lineage,
    SegmentRecord,
    TripRecord,
)
from sluicegate.schemas.mutations import Mutation
from sluicegate.schemas.progress import Progress
from sluicegate.schemas.reasoning import Reasoning, ReasoningRecord
from sluicegate.schemas.redacted import marker, redacted_event, redacted_letter
from sluicegate.schemas.results import Failed, GenerationResult, Partial, Rejected
from sluicegate.schemas.rules import Rules
from sluicegate.schemas.sampling import Sampling, StructuredOutput
from sluicegate.schemas.tools import Approval, ToolCall, ToolResult, ToolStatus
from sluicegate.schemas.verdicts import CheckRecord, Evidence, Verdict

AT = datetime(2026, 1, 2, tzinfo=UTC)
PIECE = 12
MARK = marker()

# Long enough that a piece of it is nobody's name; no controls, which messages may not have.
SECRETS = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "Zs")), min_size=PIECE, max_size=60
).filter(
    # In a path, a name of ours stays; tests draw those now and then.
    lambda text: text.strip() and len(set(text)) > 3 and text.strip("abcdefghijklmnopqrstuvwxyz_")
)


def verdict(secret: str) -> Verdict:
    check = CheckRecord(
        check="patterns",
        outcome="rejected",
        flaw=Flaw.FORBIDDEN_TEXT,
        score=1.0,
        threshold=0.5,
        detail=f"has {secret}",
        evidence=(Evidence(chars=(0, 3), quote=secret),),
        trace=f"ValueError: {secret}",
    )
    return Verdict(outcome="rejected", checks=(check,), checker="c1", at=AT)


def lineage(secret: str) -> Lineage:
    trip = TripRecord(
        segment=0,
        gate="runs",
        level=Level.TEXT,
        flaw=Flaw.CHARACTER_RUN,
        tokens=(1, 2),
        chars=(3, 4),
        score=9.0,
        threshold=8.0,
        detail=f"it says {secret}",
        quote=secret,
        action="rollback",
        banned=77,
    )
    attempt = AttemptRecord(
        attempt=1,
        worker="w1",
        started_at=AT,
        parameters={"temperature": 0.5, "stop": [secret], secret: 1},
        instruction=secret,
        segments=(SegmentRecord(seed=1, prompt_tokens=2, parameters={"bad_words": [secret]}),),
        trips=(trip,),
        reasoning=ReasoningRecord(mode="cut", effort="low", cap=5, text=secret),
        flaw=Flaw.CHARACTER_RUN,
        found_by="runs",
        detail=secret,
        verdict=verdict(secret),
        text=secret,
        text_chars=len(secret),
    )
    fault = FaultRecord(attempt=1, worker="w1", at=AT, detail=secret)
    return Lineage(attempts=(attempt,), faults=(fault,))


def sampling(secret: str) -> Sampling:
    return Sampling(
        temperature=0.25,
        stop=(secret,),
        bad_words=(secret,),
        logit_bias={5: 1.0},
        structured_output=StructuredOutput(choice=(secret,)),
    )


def jobs(secret: str) -> list[GenerationJob]:
    common: dict[str, Any] = {
        "sampling": sampling(secret),
        "gates": {"own": secret},
        "exempt": ((secret, secret),),
        "reasoning": Reasoning(wrap_up=secret),
        "rules": Rules(
            must_include=(secret,), must_match=("x",), json_schema={"enum": [secret], secret: 1}
        ),
        "metadata": {secret: {"deep": [secret]}},
        "mutation": Mutation(sampling=sampling(secret), instruction=secret),
        "lineage": lineage(secret),
    }
    turn = ChatMessage(role="user", content=secret)
    return [
        GenerationJob(id="j1", prompt=secret, **common),
        GenerationJob(id="j1", messages=(turn, turn), **common),
        GenerationJob(id="j1", prompt_token_ids=(11, 22, 33), **common),
    ]


def context(secret: str) -> AgentContext:
    name = secret[:60]
    job = AgentJob(
        id="a1",
        task=secret,
        system=secret,
        tools=("search",),
        watchdog={"x": secret},
        metadata={"m": secret},
    )
    call = ToolCall(
        id=secret,
        name=name,
        arguments={secret: secret},
        effect_id="a1:1:1:0",
        approval=Approval(expires_at=AT, why=secret),
        result=ToolResult(status=ToolStatus.OK, content=secret, fingerprint=name),
    )
    known = msgspec.structs.replace(call, name="search")
    assessment = Assessment(
        round=1, findings=(AgentFinding(metric="same", value=1, threshold=1, detail=secret),)
    )
    round_ = Round(
        number=1,
        at=AT,
        said=secret,
        prose=secret,
        calls=(call, known),
        failure=ParseFailure(kind="malformed", detail=secret, quote=secret),
        reminder=secret,
        assessment=assessment,
        decision=Decision(because=secret),
    )
    sample = CallSample(tool=name, key=name, fingerprint=name, at=AT, words=(secret,))
    entry = LedgerEntry(round=1, tool=name, arguments=secret, status=ToolStatus.OK, result=secret)
    return AgentContext(
        id="a1",
        at=AT,
        job=job,
        execution=Execution(memory=Memory(summary=secret, ledger=(entry,)), rounds=(round_,)),
        monitoring=Monitoring(
            samples=(RoundSample(number=1, at=AT, prose=secret, calls=(sample,)),)
        ),
        orchestration=Orchestration(
            started_at=AT,
            spent=Spent(by_tool={"search": 2, name: 3}),
            stop=Stop(reason=Reason.BUDGET_SPENT, detail=secret),
            ending=Ending(text=secret),
        ),
    )


def letters(secret: str) -> list[DeadLetter]:
    common: dict[str, Any] = {
        "reason": Reason.GATE_TRIPPED,
        "detail": f"found {secret}",
        "field": f"$.metadata.{secret}",
        "at": AT,
        "origin": Origin(
            stage="generate", worker="w1", queue="q", message_id=secret, correlation_id=secret
        ),
    }
    result = GenerationResult(
        job_id="j1",
        attempt=1,
        outcome=Rejected(reason=Reason.CHECKS_REJECTED, detail=secret, field=secret),
        text=secret,
        reasoning=secret,
        stop_string=secret,
        lineage=lineage(secret),
        finished_at=AT,
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03",
        metadata={"m": secret},
    )
    return [
        *(DeadLetter(job=job, job_id="j1", **common) for job in jobs(secret)),
        DeadLetter(agent=context(secret), **common),
        DeadLetter(raw_body=secret.encode(), **common),
        DeadLetter(result=result, **common),
    ]


def events(secret: str) -> list[Any]:
    return [
        Retrying(next_attempt=2, detail=secret, wait_s=1.0),
        Reasoned(record=ReasoningRecord(mode="cut", effort=5, cap=5, text=secret)),
        Judged(verdict=verdict(secret)),
        RoundEnded(round=1, calls=(secret,), decision=Decision(because=secret)),
        ApprovalWanted(round=1, calls=(secret,), expires_at=AT),
        Finished(outcome=Failed(reason=Reason.ENGINE_FAULT, detail=secret)),
        Finished(outcome=Partial(reason=Reason.BUDGET_SPENT, detail=secret)),
    ]


def pieces_in(body: bytes, secret: str) -> list[str]:
    """Pieces of the secret that stand in what the body says, keys included, however JSON escapes
    them, and in its base64."""
    said: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            for key, item in cast("dict[str, Any]", value).items():
                said.append(key)
                walk(item)
        elif isinstance(value, list):
            for item in cast("list[Any]", value):
                walk(item)
        else:
            said.append(str(value))

    walk(json.loads(body))
    whole = "\n".join([*said, body.decode()])
    return [
        piece
        for start in range(len(secret) - PIECE + 1)
        if (piece := secret[start : start + PIECE]) in whole
    ]


@settings(max_examples=60, deadline=None)
@given(SECRETS)
@example("redacted: 12 characters of mine")
@example("my secret prompt, with numbers 4711 0815")
def test_no_piece_of_a_text_is_left(secret: str) -> None:
    # What the marks themselves are made of is no piece of anybody's text.
    if any(
        secret[start : start + PIECE] in "[redacted: 0123456789 characters, tokens]"
        for start in range(len(secret) - PIECE + 1)
    ):
        return
    for letter in letters(secret):
        assert pieces_in(msgspec.json.encode(letter), secret) or letter.raw_body is not None
        body = encode(redacted_letter(letter, MARK))
        assert pieces_in(body, secret) == []
        assert secret.encode() not in body
    for happening in events(secret):
        event = JobEvent(job_id="j1", attempt=1, seq=1, at=AT, worker="w1", event=happening)
        assert pieces_in(encode(redacted_event(event, MARK)), secret) == []


def test_it_decodes_as_what_it_was_and_what_is_no_text_stays() -> None:
    secret = "the quick brown fox jumps"
    letter = letters(secret)[0]
    read = decode(encode(redacted_letter(letter, MARK)), DeadLetter)
    assert read.texts == "redacted"
    assert read.job is not None
    assert read.job.prompt == f"[redacted: {len(secret)} characters]"
    assert (read.job.id, read.job.sampling.temperature, read.job.lane) == (
        "j1",
        0.25,
        "interactive",
    )
    (attempt,) = read.job.lineage.attempts
    assert (attempt.worker, attempt.flaw, attempt.found_by) == ("w1", Flaw.CHARACTER_RUN, "runs")
    assert attempt.parameters == {"temperature": 0.5}
    (trip,) = attempt.trips
    assert (trip.gate, trip.score, trip.chars, trip.banned) == ("runs", 9.0, (3, 4), None)
    assert attempt.reasoning is not None
    assert attempt.reasoning.effort == "low"
    assert read.field == "$.metadata.[redacted]"


def test_of_tools_those_of_the_job_are_named() -> None:
    agent = redacted_letter(letters("the quick brown fox jumps")[3], MARK).agent
    assert agent is not None
    made_up, known = agent.execution.rounds[0].calls
    assert known.name == "search"
    assert made_up.name.startswith("[redacted")
    assert agent.orchestration.spent.by_tool == {"search": 2, "[redacted]": 3}


def test_what_was_written_before_it_was_handed_on_is_gone() -> None:
    """Its tokens are the text, and its digest a hash of text and prompt without a key."""
    letter = letters("the quick brown fox jumps")[0]
    assert letter.job is not None
    progress = Progress(
        attempt=1,
        model="m",
        vocabulary_size=100,
        digest="0" * 32,
        started_at=AT,
        at=AT,
        tokens=(1, 2, 3, 4),
        seed=1,
    )
    letter = msgspec.structs.replace(
        letter, job=msgspec.structs.replace(letter.job, progress=progress)
    )
    hidden = redacted_letter(letter, MARK)
    assert hidden.job is not None
    assert hidden.job.progress is None


def test_token_ids_are_a_text() -> None:
    job = redacted_letter(letters("the quick brown fox jumps")[2], MARK).job
    assert job is not None
    assert (job.prompt, job.prompt_token_ids) == ("[redacted: 3 tokens]", None)
    assert job.sampling.logit_bias == {}


@pytest.mark.parametrize("reason", [Reason.ATTEMPT_TIMEOUT, Reason.DEADLINE_PASSED])
def test_what_the_system_says_by_itself_stays(reason: Reason) -> None:
    letter = msgspec.structs.replace(
        letters("the quick brown fox")[0], reason=reason, detail="600 s"
    )
    assert redacted_letter(letter, MARK).detail == "600 s"


def test_equal_texts_have_equal_marks_under_a_key_alone() -> None:
    keyed, other = marker(b"a key of this deployment"), marker(b"a key of another one....")
    assert keyed("hello") == keyed("hello") != keyed("hallo")
    assert keyed("hello") != other("hello")
    assert MARK("hello") == MARK("hallo") == "[redacted: 5 characters]"


def test_a_client_gets_the_pieces_that_it_asked_for() -> None:
    delta = Delta(offset=0, text="hello there, how are you")
    event = JobEvent(job_id="j1", attempt=1, seq=1, at=AT, worker="w1", event=delta)
    assert redacted_event(event, MARK) == event
