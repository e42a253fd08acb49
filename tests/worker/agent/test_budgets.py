"""Budgets that hold, whatever tools, gates and people do: on a real broker, with a model by script,
and as laws."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.producer.confirms import ConfirmedPublisher
from sluicegate.producer.connection import close, connect
from sluicegate.schemas import (
    AgentContext,
    AgentJob,
    Budget,
    GenerationJob,
    GenerationResult,
    Reason,
    Sampling,
    ToolCall,
    ToolResult,
    ToolSpec,
    ToolStatus,
    Usage,
    encode,
)
from sluicegate.schemas import results as outcomes
from sluicegate.schemas.agents import Execution, Orchestration, Spent
from sluicegate.schemas.limits import MAX_JOB_BYTES, MAX_PROMPT_CHARS
from sluicegate.worker.agent import rounds
from sluicegate.worker.agent.budget import Allowance, allowance, last_moment, left_s, token_limit
from sluicegate.worker.agent.calling import Calling
from sluicegate.worker.agent.effects import Effects, Ran
from sluicegate.worker.agent.generation import carried, generation_job
from sluicegate.worker.agent.monitoring import Monitor
from sluicegate.worker.agent.moves import Limits, Site
from sluicegate.worker.dialects.dialect import Prompt
from sluicegate.worker.engine import Segment
from sluicegate.worker.tools.tool import Tool, tool

from ..conftest import Desk
from .contexts import READ, WRITE, PlainDialect, a_round, call, context, later, replace
from .troupe import ENDED, WAIT_S, Troupe, answer, calls, job, round_of, script
from .troupe import call as says_call

Say = Callable[[Segment, str], str]
REAL = pytest.mark.broker
LAST = "This is what is known by now."


def used(result: GenerationResult) -> int:
    usage = result.usage
    return usage.prompt_tokens + usage.completion_tokens + usage.wasted_tokens


def ended(result: GenerationResult, reason: Reason, said: str) -> bool:
    """Ended for that reason, and in the model's own words."""
    assert isinstance(result.outcome, outcomes.Partial), result.outcome
    assert result.outcome.reason is reason, result.outcome
    assert said in result.outcome.detail, result.outcome
    assert result.agent is not None
    assert result.agent.written_by == "model", result.text
    assert result.text == LAST
    return True


@tool(idempotent=True)
async def look(number: int = 0) -> str:
    """Look something up."""
    return f"number {number}"


# --- time ---


@REAL
async def test_a_slow_tool_leaves_the_time_for_the_answer(troupe: Troupe) -> None:
    over: list[str] = []

    @tool(idempotent=True, timeout_s=20)
    async def dig() -> str:
        """Dig."""
        await asyncio.sleep(15)
        over.append("dug")
        return "gold"

    budget = Budget(wall_s=3.0, answer_share=0.5)
    this = job(tools=("dig",), budget=budget)
    result = await troupe.perform(this, lambda _n, _p: says_call("dig"), [dig], last=LAST)
    assert ended(result, Reason.BUDGET_SPENT, "of 3.0 s are used")
    assert not over
    assert result.agent is not None
    assert "not back in time" in result.agent.not_done[0]


@REAL
@pytest.mark.parametrize("by", ["wall time", "deadline"])
async def test_a_slow_answer_leaves_the_time_for_the_last_one(troupe: Troupe, by: str) -> None:
    def say(_segment: Segment, prompt: str) -> str:
        return LAST if ENDED in prompt else "word " * 4_000

    # A second for eighty bytes.
    await troupe.worker(say, chunk=4, step_s=0.05)
    await troupe.agents([])
    sampling = Sampling(max_tokens=8_000)
    if by == "wall time":
        budget = Budget(wall_s=4.0, answer_share=0.5)
        result = await troupe.result(job(budget=budget, sampling=sampling))
        assert ended(result, Reason.BUDGET_SPENT, "of 4.0 s are used")
    else:
        deadline = datetime.now(UTC) + timedelta(seconds=4)
        budget = Budget(answer_share=0.5)
        result = await troupe.result(job(budget=budget, sampling=sampling, deadline=deadline))
        assert ended(result, Reason.DEADLINE_PASSED, "round 1 was not answered in time")


@REAL
async def test_a_job_whose_time_is_over_makes_no_more_calls(troupe: Troupe) -> None:
    made: list[int] = []

    @tool(changes_state=True)
    async def pay(number: int) -> str:
        """Pay."""
        made.append(number)
        return "paid"

    await troupe.worker(script(lambda _n, _p: answer("no"), last=LAST))
    await troupe.agents([pay])
    budget = Budget(wall_s=100.0, answer_share=0.5)
    this = replace(job(tools=("pay",), budget=budget, reply_to="default"), id="late")
    now = datetime.now(UTC)
    asked = ToolCall(id="c", name="pay", arguments={"number": 1}, effect_id="late:1:1:0")
    late = AgentContext(
        id=this.id,
        at=now,
        job=this,
        execution=Execution(rounds=(replace(a_round(1, asked), at=now),)),
        orchestration=Orchestration(
            phase="calling", started_at=now - timedelta(seconds=60), spent=Spent(rounds=1)
        ),
    )
    result = await published(troupe, late)
    assert ended(result, Reason.BUDGET_SPENT, "of 100.0 s are used")
    assert not made
    assert result.agent is not None
    assert ["it was not run" in each for each in result.agent.not_done] == [True]


async def published(troupe: Troupe, this: AgentContext) -> GenerationResult:
    """What comes of a job under way."""
    connection = await connect(troupe.url, timeout_s=WAIT_S, name="agent tests")
    try:
        await ConfirmedPublisher(connection).publish(
            troupe.names.jobs,
            troupe.names.agents_key,
            encode(this),
            kind="agent_context",
            correlation_id=this.id,
            timeout_s=WAIT_S,
        )
        return await Desk(connection, troupe.names).result()
    finally:
        await close(connection)


class Past:
    """Calls as another left them: the first came back, the second may have."""

    async def run(
        self,
        context: AgentContext,
        calls: Sequence[ToolCall],
        specs: Mapping[str, ToolSpec],
        *,
        again: bool,
        limit_s: float,
        **_: Any,
    ) -> Ran:
        del context
        assert again
        assert limit_s == 0.0
        first, second, third = calls
        assert not specs[second.name].idempotent
        done = ToolResult(status=ToolStatus.OK, content="done")
        unknown = ToolResult(status=ToolStatus.UNKNOWN)
        not_run = ToolResult(status=ToolStatus.NOT_RUN)
        three = (done, unknown, not_run)
        both = zip((first, second, third), three, strict=True)
        return Ran(tuple(replace(call, result=result) for call, result in both), 0.0)


async def test_what_another_did_of_a_round_is_told_when_the_time_is_over() -> None:
    open_calls = [call(1, index, status=None) for index in range(3)]
    this = context(a_round(1, *open_calls), budget=Budget(wall_s=10.0), spent=Spent(rounds=1))
    limits = Limits(max_model_len=8_000, step_timeout_s=60.0, keep_rounds=5, fold_after=8)
    site = cast("Site", SimpleSite())
    calling = Calling(cast("Effects", Past()), cast("Monitor", None), limits, lambda: later(60.0))
    move = await calling.step(this, site, again=True)
    after = rounds.last_round(move.context).calls
    assert [each.result.status if each.result else None for each in after] == [
        ToolStatus.OK,
        ToolStatus.UNKNOWN,
        None,
    ]
    assert move.context.orchestration.phase == "finishing"
    assert move.context.orchestration.spent.tool_calls == 2


class SimpleSite:
    """Tools that may be called twice."""

    by_name: Mapping[str, ToolSpec] = {
        spec.name: replace(spec, idempotent=True) for spec in (READ, WRITE)
    }


@REAL
async def test_nobody_is_waited_for_behind_the_deadline(troupe: Troupe, desk: Desk) -> None:
    made: list[str] = []

    @tool(needs_approval=True, approval_timeout_s=3_600)
    async def pay() -> str:
        """Pay."""
        made.append("paid")
        return "paid"

    deadline = datetime.now(UTC) + timedelta(seconds=4)
    this = job(tools=("pay",), deadline=deadline, budget=Budget(answer_share=0.5))
    result = await troupe.perform(this, lambda _n, _p: says_call("pay"), [pay], last=LAST)
    assert ended(result, Reason.DEADLINE_PASSED, "are kept for the final answer")
    assert result.finished_at < deadline
    assert not made
    assert await desk.depth(desk.names.approvals) == 0


def test_time_that_is_left() -> None:
    this = context(budget=Budget(wall_s=100.0, answer_share=0.2))
    assert left_s(this, later(30.0)) == 50.0
    final = replace(this, orchestration=replace(this.orchestration, phase="finishing"))
    assert left_s(final, later(30.0)) == 70.0
    waited = replace(this.orchestration, spent=Spent(waited_s=10.0), waiting_since=later(25.0))
    assert left_s(replace(this, orchestration=waited), later(30.0)) == 65.0
    soon = replace(this, job=replace(this.job, deadline=later(50.0)))
    assert last_moment(soon) == later(40.0)
    assert left_s(soon, later(30.0)) == 10.0


# --- tokens ---


def circling(_segment: Segment, prompt: str) -> str:
    if ENDED in prompt:
        return LAST
    return says_call("look", number=1) if round_of(prompt) == 1 else "loop and loop again. " * 400


@REAL
async def test_no_loop_that_is_tried_again_costs_more_than_the_budget(troupe: Troupe) -> None:
    await troupe.worker(circling)
    await troupe.agents([look])
    for tokens in (2_000, 3_000, 4_500, 6_000, 12_000):
        this = AgentJob(
            task="Find it.",
            tools=("look",),
            profile="chat",
            budget=Budget(tokens=tokens, answer_share=0.3),
            sampling=Sampling(max_tokens=2_000),
        )
        result = await troupe.result(this, 60)
        assert used(result) <= tokens, (tokens, result.usage)
        if tokens >= 6_000:
            assert ended(result, Reason.GENERATION_FAILED, "round 2")


def test_only_what_is_less_is_asked_for() -> None:
    def made(wasted: int, **fields: Any) -> GenerationJob:
        return generation_job(
            context(**fields),
            "r1",
            Prompt(text="x", tokens=1),
            PlainDialect(),
            allowance=Allowance(30, 2, wasted),
            deadline=later(10.0),
        )

    usual = made(2_048)
    assert (usual.sampling.max_tokens, usual.max_attempts, usual.gates) == (30, 2, {})
    assert made(100).gates == {"max_wasted_tokens": 100}
    assert made(100, gates={"max_wasted_tokens": 90}).gates == {"max_wasted_tokens": 90}
    # What makes no sense is for the worker to refuse.
    assert made(2_048, profile="none").profile == "none"


@REAL
async def test_where_a_round_cant_be_generated_and_the_end_can_neither(troupe: Troupe) -> None:
    def say(_segment: Segment, _prompt: str) -> str:
        return "loop and loop again. " * 400

    await troupe.worker(say)
    await troupe.agents([])
    this = replace(job(budget=Budget(tokens=6_000, answer_share=0.4)), profile="chat")
    result = await troupe.result(this, 60)
    assert isinstance(result.outcome, outcomes.Partial)
    assert result.outcome.reason is Reason.GENERATION_FAILED
    assert result.agent is not None
    assert result.agent.written_by == "template"
    assert used(result) <= 6_000


@REAL
@pytest.mark.parametrize("spent", [9_990, 14_000])
async def test_a_budget_that_was_overspent_has_its_reserve_yet(troupe: Troupe, spent: int) -> None:
    await troupe.worker(script(lambda _n, _p: answer("no"), last=LAST))
    await troupe.agents([])
    now = datetime.now(UTC)
    this = replace(job(budget=Budget(tokens=10_000, answer_share=0.5)), id="dear")
    dear = AgentContext(
        id=this.id,
        at=now,
        job=this,
        orchestration=Orchestration(
            started_at=now, spent=Spent(usage=Usage(prompt_tokens=1, wasted_tokens=spent - 1))
        ),
    )
    result = await published(troupe, dear)
    assert ended(result, Reason.BUDGET_SPENT, f"{spent:,} of 10,000 tokens are used")
    assert used(result) <= spent + 5_000


@given(
    limit=st.integers(1, 300_000),
    spent=st.integers(0, 400_000),
    prompt=st.integers(0, 100_000),
    most=st.integers(1, 20_000),
    wasted=st.integers(0, 5_000),
    phase=st.sampled_from(["thinking", "finishing"]),
)
def test_all_that_a_job_may_cost_is_left(
    limit: int, spent: int, prompt: int, most: int, wasted: int, phase: str
) -> None:
    this = context(budget=Budget(tokens=limit), spent=Spent(usage=Usage(prompt_tokens=spent)))
    this = replace(this, orchestration=replace(this.orchestration, phase=phase))
    may = allowance(this, prompt, most, wasted)
    assert 1 <= may.tokens <= most
    assert 0 <= may.wasted <= wasted
    assert 1 <= may.attempts <= 3
    left = token_limit(this) - spent
    if left - prompt >= 16:
        # One token less was thrown away than is allowed, then a whole answer, and one was given.
        thrown = may.wasted - 1 + may.tokens if may.wasted else 0
        assert may.attempts * (prompt + thrown + may.tokens) <= left
    elif phase == "thinking":
        assert (may.tokens, may.attempts) == (1, 1) or may.tokens <= max(1, left - prompt)


def test_an_allowance_is_whole_where_there_is_plenty_and_gives_way_step_by_step() -> None:
    def of(left: int) -> Allowance:
        this = context(budget=Budget(tokens=left * 2, answer_share=0.5), spent=Spent())
        return allowance(this, 1_000, 2_000, 2_048)

    assert of(100_000) == Allowance(2_000, 3, 2_048)
    assert of(3 * (1_000 + 4_000 + 2_048)) == Allowance(2_000, 3, 2_048)
    assert of(3 * (1_000 + 4_000 + 2_048) - 1) == Allowance(2_000, 2, 2_048)
    assert of(1_000 + 4_000 + 2_048 - 1) == Allowance(2_000, 1, 2_047)
    assert of(1_000 + 4_001) == Allowance(2_000, 1, 1)
    assert of(1_000 + 3_001) == Allowance(1_500, 1, 1)
    assert of(1_000 + 1_024) == Allowance(1_024, 1, 0)
    assert of(1_000 + 300) == Allowance(300, 1, 0)


# --- what a body carries, and what is text ---


def test_a_job_carries_what_its_context_is_bounded_to() -> None:
    assert carried(8_192, text=True) == carried(8_192, text=False) == 8_192
    ids = (999_999,) * carried(10**9, text=False)
    gates = {f"key{index}": "x" * 100 for index in range(140)}
    body = encode(GenerationJob(prompt_token_ids=ids, gates=gates))
    assert MAX_JOB_BYTES * 3 // 4 < len(body) < MAX_JOB_BYTES
    text = '"\n' * (carried(10**9, text=True) // 2)
    body = encode(GenerationJob(prompt=text, gates=gates))
    assert MAX_JOB_BYTES * 3 // 4 < len(body) < MAX_JOB_BYTES
    assert len(text) <= MAX_PROMPT_CHARS


@REAL
async def test_a_history_longer_than_a_body_is_folded(troupe: Troupe) -> None:
    @tool(idempotent=True)
    async def read(number: int) -> str:
        """Read."""
        return f"{number} is a number. " * 900

    def play(number: int, _prompt: str) -> str:
        if number > 5:
            return answer("All is read.")
        return calls(*(("read", {"number": 100 * number + index}) for index in range(10)))

    tools: list[Tool] = [read]
    await troupe.worker(script(play), length=900_000, max_model_len=900_000)
    await troupe.agents(tools, max_model_len=900_000)
    this = job(tools=("read",), budget=Budget(tokens=10**8), sampling=Sampling(max_tokens=2_000))
    result = await troupe.result(this, 60)
    assert result.ok, result.outcome
    assert result.agent is not None
    assert result.agent.tool_calls == 50


@REAL
async def test_what_is_no_text_ends_no_job(troupe: Troupe) -> None:
    def play(number: int, prompt: str) -> str:
        if number == 1:
            return 'Thought: a\x00b\nAction: lo\x00ok\nAction Input: {"number": 1}'
        assert "a\ufffdb" in prompt
        return answer("It is\x00known.")

    await troupe.worker(script(play, last="It is\x00not known."))
    await troupe.agents([look])
    result = await troupe.result(job(tools=("look",)))
    assert result.ok, result.outcome
    assert result.text == "It is\ufffdknown."
    result = await troupe.result(job(tools=("look",), budget=Budget(rounds=1)))
    assert isinstance(result.outcome, outcomes.Partial)
    assert result.text == "It is\ufffdnot known."
    assert rounds.clean("\ud800a\udfff\x00") == "\ufffda\ufffd\ufffd"
