"""Dead agent jobs of every kind, made for tests."""

from datetime import timedelta
from typing import Any

from sluicegate.schemas import (
    AgentContext,
    AgentJob,
    AgentRecord,
    Approval,
    Assessment,
    Budget,
    DeadLetter,
    Decision,
    GenerationResult,
    Origin,
    ParseFailure,
    Partial,
    Reason,
    Round,
    Stop,
    ToolCall,
    ToolResult,
    ToolStatus,
    Usage,
)
from sluicegate.schemas.agents import (
    Execution,
    Finding,
    LedgerEntry,
    Memory,
    Orchestration,
    Spent,
    effect_id,
    round_job_id,
)

from .dlq_letters import NOW

HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202egnp"
TASK = "Find the late orders, and write to each customer."


def agent_job(job_id: str = "agent-1", **more: Any) -> AgentJob:
    given: dict[str, Any] = {
        "id": job_id,
        "task": TASK,
        "system": "Never promise a refund.",
        "tools": ("query_orders", "send_mail"),
        "task_type": "analysis",
        "budget": Budget(tokens=50_000, rounds=9),
        "metadata": {"shop": "berlin"},
        **more,
    }
    return AgentJob(**given)


def call(job: AgentJob, number: int, **more: Any) -> ToolCall:
    given: dict[str, Any] = {
        "id": f"call-{number}-0",
        "name": "query_orders",
        "arguments": {"late": True},
        "effect_id": effect_id(job, number, 0),
        "result": ToolResult(status=ToolStatus.OK, content="17 orders", seconds=0.2),
        **more,
    }
    return ToolCall(**given)


def round_(job: AgentJob, number: int, **more: Any) -> Round:
    given: dict[str, Any] = {
        "number": number,
        "at": NOW - timedelta(seconds=100 - number),
        "job_id": round_job_id(job, number),
        "prose": f"Step {number}: I look at the orders.",
        "calls": (call(job, number),),
        "usage": Usage(prompt_tokens=400, completion_tokens=30),
        "engine_s": 1.5,
        "assessment": Assessment(round=number),
        **more,
    }
    return Round(**given)


def circling(job: AgentJob, number: int) -> Round:
    finding = Finding(metric="repeat", value=0.8, threshold=0.4, points=2, detail="the same call")
    worse = Finding(metric="cycle", value=3.0, threshold=2.0, points=3)
    return round_(
        job,
        number,
        assessment=Assessment(round=number, score=5, circling=True, findings=(finding, worse)),
        decision=Decision(state="warning", warnings=1, degree="warn", because="it repeats itself"),
        reminder="You asked query_orders three times.",
    )


def scene(
    job_id: str = "agent-1", *, rounds: tuple[Round, ...] | None = None, **more: Any
) -> AgentContext:
    """Five rounds: two summed up, one in order, one in circles, and one that came to nothing."""
    job = more.pop("job", None) or agent_job(job_id)
    if rounds is None:
        failed = (
            call(job, 5, result=ToolResult(status=ToolStatus.NOT_RUN, content="ended first")),
            call(
                job,
                5,
                id="b",
                name="send_mail",
                arguments={"to": "ann"},
                approval=Approval(state="denied", expires_at=NOW, by="bob"),
                result=ToolResult(status=ToolStatus.DENIED, content="bob said no"),
            ),
        )
        rounds = (round_(job, 3), circling(job, 4), round_(job, 5, calls=failed))
    memory = Memory(
        summary="Seventeen orders are late.",
        ledger=(
            LedgerEntry(
                round=1, tool="query_orders", arguments="{}", status=ToolStatus.OK, result="40"
            ),
            LedgerEntry(round=2, tool="query_orders", status=ToolStatus.TIMEOUT),
        ),
        through=2,
    )
    given: dict[str, Any] = {
        "revision": 11,
        "at": NOW,
        "by": "agents-1",
        "execution": Execution(memory=memory, rounds=rounds),
        "decision": Decision(state="tripped", degree="terminate", because="three warnings"),
        "orchestration": Orchestration(
            phase="finishing",
            started_at=NOW - timedelta(minutes=3),
            spent=Spent(
                usage=Usage(prompt_tokens=2_000, completion_tokens=150),
                tool_calls=4,
                by_tool={"query_orders": 4},
                rounds=5,
                engine_s=7.5,
                tools_s=0.8,
            ),
            stop=Stop(reason=Reason.BREAKER_TRIPPED, detail="three warnings in a row"),
        ),
        **more,
    }
    return AgentContext(id=job.id, job=job, **given)


def ended(job_id: str = "agent-1", **more: Any) -> DeadLetter:
    """The scene of an agent job that its service ended."""
    given: dict[str, Any] = {
        "id": f"letter-of-{job_id}",
        "job_id": job_id,
        "reason": Reason.BREAKER_TRIPPED,
        "detail": "three warnings in a row",
        "at": NOW,
        "origin": Origin(stage="agent", worker="agents-1", queue="sluice.v1.agents"),
        "agent": scene(job_id),
        **more,
    }
    return DeadLetter(**given)


def hostile() -> DeadLetter:
    """Everything that somebody else wrote drives a terminal."""
    job = agent_job("agent-h", task=HOSTILE, system=HOSTILE, metadata={HOSTILE: HOSTILE})
    rounds = (
        round_(
            job,
            1,
            prose=HOSTILE,
            calls=(
                call(
                    job,
                    1,
                    name=HOSTILE,
                    arguments={HOSTILE: HOSTILE},
                    result=ToolResult(status=ToolStatus.ERROR, content=HOSTILE),
                ),
            ),
            failure=ParseFailure(kind="malformed", detail=HOSTILE, quote=HOSTILE),
            reminder=HOSTILE,
            assessment=Assessment(
                round=1,
                score=3,
                findings=(Finding(metric=HOSTILE, value=1, threshold=0, points=3, detail=HOSTILE),),
            ),
            decision=Decision(state="warning", degree="warn", because=HOSTILE),
        ),
    )
    memory = Memory(
        summary=HOSTILE,
        ledger=(
            LedgerEntry(
                round=1, tool=HOSTILE, arguments=HOSTILE, status=ToolStatus.OK, result=HOSTILE
            ),
        ),
        through=1,
    )
    spent = Spent(by_tool={HOSTILE: 1}, rounds=1)
    return ended(
        "agent-h",
        detail=HOSTILE,
        agent=scene(
            job=job,
            by=HOSTILE,
            execution=Execution(memory=memory, rounds=rounds),
            decision=Decision(because=HOSTILE),
            orchestration=Orchestration(
                started_at=NOW, spent=spent, stop=Stop(reason=Reason.BUDGET_SPENT, detail=HOSTILE)
            ),
        ),
    )


def partial(job_id: str = "agent-1") -> GenerationResult:
    return GenerationResult(
        job_id=job_id,
        attempt=1,
        outcome=Partial(reason=Reason.BUDGET_SPENT, detail=f"tokens {HOSTILE}"),
        text="Seventeen orders are late; nobody was written to.",
        agent=AgentRecord(
            rounds=5,
            tool_calls=4,
            stopped=Stop(reason=Reason.BUDGET_SPENT),
            written_by="template",
            done=("round 1: query_orders gave 17",),
            not_done=(f"round 5: send_mail {HOSTILE} was not run",),
        ),
        finished_at=NOW,
    )
