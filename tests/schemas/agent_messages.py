"""Strategies for agent jobs, tools, and all that travels with them."""

from typing import Any, get_args

from hypothesis import strategies as st
from sluicegate.schemas import (
    AgentContext,
    AgentJob,
    AgentRecord,
    Approval,
    ApprovalWanted,
    Assessment,
    Budget,
    CallSample,
    Decision,
    JournalEntry,
    Lane,
    Monitoring,
    ParseFailure,
    Reason,
    Reasoning,
    Round,
    RoundEnded,
    RoundSample,
    Sampling,
    Stop,
    ToolCall,
    ToolReply,
    ToolRequest,
    ToolResult,
    ToolSpec,
    ToolStatus,
    Usage,
)
from sluicegate.schemas.agents import (
    BreakerState,
    Closed,
    Degree,
    Dispatched,
    Ended,
    Execution,
    Finding,
    LedgerEntry,
    Memory,
    Orchestration,
    Phase,
    Returned,
    Spent,
)

from .values import clean, counts, maybe, moments, objects, seconds, short, spoken, text

agent_ids = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_:-]{0,99}", fullmatch=True)
tool_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", fullmatch=True)
# As a model may have said them.
said_names = st.text(clean, max_size=64)
nothing: dict[str, Any] = {}
effects = st.text(clean, min_size=1, max_size=40)
small = st.integers(0, 10_000)
statuses = st.sampled_from(ToolStatus)
measures = st.floats(-1e9, 1e9)


def few(strategy: st.SearchStrategy[Any], most: int = 2) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=most).map(tuple)


specs = st.builds(
    ToolSpec,
    name=tool_names,
    description=text,
    parameters=objects.map(lambda more: {**more, "type": "object"}) | st.just(nothing),
    quota=maybe(st.integers(0, 1_000_000)),
    timeout_s=st.floats(0, 3_600, exclude_min=True),
    needs_approval=st.booleans(),
    approval_timeout_s=st.floats(0, 1e6, exclude_min=True),
    idempotent=st.booleans(),
    polls=st.booleans(),
    changes_state=st.booleans(),
    loop_key=maybe(few(tool_names)),
    volatile=few(tool_names),
    remote=st.booleans(),
)
tool_results = st.builds(
    ToolResult,
    status=statuses,
    content=text,
    whole_chars=maybe(counts),
    fingerprint=text,
    seconds=seconds,
    abandoned=st.booleans(),
)
approvals = st.builds(
    Approval,
    state=st.sampled_from(["waiting", "approved", "denied", "timed_out"]),
    expires_at=moments,
    by=text,
    why=text,
    at=maybe(moments),
)
tool_calls = st.builds(
    ToolCall,
    id=short,
    name=said_names,
    arguments=objects,
    effect_id=effects,
    approval=maybe(approvals),
    result=maybe(tool_results),
)
requests = st.builds(
    ToolRequest,
    id=agent_ids,
    job_id=agent_ids,
    name=tool_names,
    arguments=objects,
    effect_id=effects,
    expires_at=moments,
)
replies = st.builds(ToolReply, id=agent_ids, effect_id=effects, result=tool_results, server=text)
usages = st.builds(Usage, prompt_tokens=counts, completion_tokens=counts, wasted_tokens=counts)
decisions = st.builds(
    Decision,
    state=st.sampled_from(get_args(BreakerState)),
    warnings=counts,
    degree=st.sampled_from(get_args(Degree)),
    because=text,
)
assessments = st.builds(
    Assessment,
    round=counts,
    score=st.integers(0, 1_000),
    circling=st.booleans(),
    findings=few(
        st.builds(
            Finding,
            metric=text,
            value=measures,
            threshold=measures,
            points=st.integers(0, 1_000),
            detail=text,
        )
    ),
    measured=st.dictionaries(text, measures, max_size=3),
)
stops = st.builds(Stop, reason=st.sampled_from(Reason), detail=text)
rounds = st.builds(
    Round,
    number=counts,
    at=moments,
    job_id=text,
    said=text,
    prose=text,
    calls=few(tool_calls),
    failure=maybe(
        st.builds(
            ParseFailure,
            kind=st.sampled_from(["truncated", "malformed", "nothing", "mixed"]),
            detail=text,
            quote=text,
        )
    ),
    reminder=text,
    degraded=st.booleans(),
    usage=usages,
    engine_s=seconds,
    tools_s=seconds,
    assessment=maybe(assessments),
    decision=decisions,
)
samples = st.builds(
    RoundSample,
    number=counts,
    at=moments,
    tokens=counts,
    wall_s=seconds,
    prose=text,
    calls=few(
        st.builds(
            CallSample,
            tool=said_names,
            key=text,
            fingerprint=text,
            status=statuses,
            at=moments,
            words=few(text),
            polls=st.booleans(),
            changes_state=st.booleans(),
        )
    ),
    failed=st.booleans(),
)
memories = st.builds(
    Memory,
    summary=text,
    ledger=few(
        st.builds(
            LedgerEntry, round=counts, tool=said_names, arguments=text, status=statuses, result=text
        )
    ),
    through=counts,
    ledger_dropped=counts,
)
budgets = st.builds(
    Budget,
    tokens=st.integers(1, 10**9),
    tool_calls=st.integers(0, 100_000),
    rounds=st.integers(1, 10_000),
    wall_s=st.floats(0, 600_000, exclude_min=True),
    answer_share=st.floats(0.01, 0.99),
)
agent_jobs = st.builds(
    AgentJob,
    id=agent_ids,
    task=spoken,
    system=text,
    tools=st.lists(tool_names, max_size=3, unique=True).map(tuple),
    task_type=st.from_regex(r"[a-z][a-z0-9_-]{0,63}", fullmatch=True),
    budget=budgets,
    watchdog=objects,
    format=st.sampled_from(["auto", "text", "grammar"]),
    sampling=st.builds(Sampling, temperature=st.floats(0, 2), max_tokens=st.integers(1, 131_072)),
    profile=st.from_regex(r"[a-z][a-z0-9_-]{0,63}", fullmatch=True),
    gates=objects,
    reasoning=st.builds(Reasoning, effort=maybe(st.integers(0, 131_072))),
    lane=st.sampled_from(get_args(Lane)),
    deadline=maybe(moments),
    reply_to=agent_ids,
    metadata=objects,
    attempt=st.integers(1, 10_000),
    enqueued_at=maybe(moments),
)
executions = st.builds(Execution, memory=memories, rounds=few(rounds))
orchestrations = st.builds(
    Orchestration,
    phase=st.sampled_from(get_args(Phase)),
    started_at=moments,
    spent=st.builds(
        Spent,
        usage=usages,
        tool_calls=counts,
        by_tool=st.dictionaries(said_names, counts, max_size=3),
        rounds=counts,
        engine_s=seconds,
        tools_s=seconds,
        waited_s=seconds,
    ),
    waiting_since=maybe(moments),
    stop=maybe(stops),
)


@st.composite
def contexts(draw: st.DrawFn) -> AgentContext:
    job = draw(agent_jobs)
    return AgentContext(
        id=job.id,
        revision=draw(counts),
        at=draw(moments),
        by=draw(text),
        job=job,
        execution=draw(executions),
        monitoring=draw(st.builds(Monitoring, samples=few(samples))),
        decision=draw(decisions),
        orchestration=draw(orchestrations),
    )


records = st.builds(
    AgentRecord,
    rounds=counts,
    tool_calls=counts,
    warnings=counts,
    stopped=maybe(stops),
    written_by=st.sampled_from(["model", "template"]),
    done=few(text),
    not_done=few(text),
)
entries = st.builds(
    JournalEntry,
    job_id=agent_ids,
    at=moments,
    by=text,
    entry=st.one_of(
        st.builds(Dispatched, effect_id=effects, round=counts, call=tool_calls),
        st.builds(Returned, effect_id=effects, result=tool_results),
        st.builds(Closed, round=rounds),
        st.builds(
            Ended,
            context=contexts(),
            outcome=st.sampled_from(["completed", "partial", "failed"]),
            record=records,
            text=text,
        ),
    ),
)
happenings = st.one_of(
    st.builds(
        RoundEnded, round=counts, calls=few(text), tokens=counts, score=small, decision=decisions
    ),
    st.builds(ApprovalWanted, round=counts, calls=few(text), expires_at=moments),
)
messages = st.one_of(agent_jobs, contexts(), entries, requests, replies)
