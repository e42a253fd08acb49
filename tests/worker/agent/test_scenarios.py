"""Agent jobs on a real broker, with a model by script: what loops is ended with its work kept, and
what only looks like it is left alone."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from sluicegate.schemas import (
    Budget,
    DeadLetter,
    GenerationResult,
    Reason,
    Sampling,
    ToolStatus,
    decode,
)
from sluicegate.schemas import results as outcomes
from sluicegate.schemas.agents import Begun, Closed, Dispatched, Ended, Returned, Round
from sluicegate.worker.tools.tool import Tool, tool

from ..conftest import Desk
from .troupe import Troupe, answer, call, calls, job, script

pytestmark = pytest.mark.broker


class Bench:
    """Tools that count how often they were called."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()
        self.arguments: list[dict[str, Any]] = []

    def tools(self, *names: str, **options: Any) -> list[Tool]:
        """Tools of these names, which look something up."""
        return [self._lookup(name, **options) for name in names]

    def _lookup(self, name: str, **options: Any) -> Tool:
        async def look(query: str = "", page: int = 0) -> str:
            """Look something up."""
            self.made[name] += 1
            self.arguments.append({"query": query, "page": page})
            return f"{name} knows {query or 'nothing'} {page or ''}".strip()

        return tool(name=name, **options)(look)


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def rounds(troupe: Troupe, job_id: str) -> list[Round]:
    lines = await troupe.journal(job_id)
    return [line.entry.round for line in lines if isinstance(line.entry, Closed)]


def is_partial(result: GenerationResult, reason: Reason, said: str = "") -> bool:
    assert not result.ok
    assert isinstance(result.outcome, outcomes.Partial), result.outcome
    assert result.outcome.reason is reason, result.outcome
    assert said in result.outcome.detail
    assert result.agent is not None
    assert result.agent.stopped is not None
    return True


async def test_a_task_with_two_tools_comes_to_its_answer(
    troupe: Troupe, bench: Bench, desk: Desk
) -> None:
    def play(number: int, prompt: str) -> str:
        match number:
            case 1:
                return call("find", query="the sky")
            case 2:
                assert "find knows the sky" in prompt
                return call("read", query="why")
            case _:
                assert "read knows why" in prompt
                return answer("Because of Rayleigh.")

    this = job(tools=("find", "read"))
    result = await troupe.perform(this, play, bench.tools("find", "read"))
    assert result.ok
    assert result.text == "Because of Rayleigh."
    assert result.agent is not None
    assert (result.agent.rounds, result.agent.tool_calls) == (3, 2)
    assert len(result.agent.done) == 2
    assert not result.agent.not_done
    assert result.usage.completion_tokens > 0
    entries = [line.entry for line in await troupe.journal(this.id)]
    assert [each.job.task for each in entries if isinstance(each, Begun)] == [this.task]
    kinds = [type(each) for each in entries if not isinstance(each, Begun)]
    assert kinds == [Dispatched, Returned, Closed, Dispatched, Returned, Closed, Closed, Ended]
    assert await desk.depth(desk.names.dead) == 0
    for queue in (desk.names.agents, desk.names.new_agents, desk.names.approvals):
        assert await desk.depth(queue) == 0


LOOPS: dict[str, Callable[[int], str]] = {
    "the same call": lambda _: call("find", query="x"),
    "A-B-A-B": lambda n: call(["find", "read"][n % 2], query="x"),
    "period 3": lambda n: call(["find", "read", "list"][n % 3], query="x"),
    "reordered keys": lambda n: (
        'Thought: again\nAction: find\nAction Input: {"query": "x", "page": 1}'
        if n % 2
        else 'Thought: again\nAction: find\nAction Input: {"page": 1, "query": "x"}'
    ),
    "an unknown tool": lambda n: call("search_the_web", query=f"x{n}"),
    "invalid arguments": lambda n: call("find", question=f"x{n}"),
    "nothing to read": lambda n: f"I wonder what I should do, {n} times.",
}


@pytest.mark.parametrize("name", LOOPS)
async def test_a_loop_is_ended_with_its_work_kept(
    troupe: Troupe, bench: Bench, desk: Desk, name: str
) -> None:
    play = LOOPS[name]
    this = job(tools=("find", "read", "list", "spare"))
    result = await troupe.perform(
        this, lambda n, _: play(n), bench.tools("find", "read", "list", "spare"), last="I know x."
    )
    assert is_partial(result, Reason.BREAKER_TRIPPED)
    assert result.text == "I know x."
    assert result.agent is not None
    assert result.agent.written_by == "model"
    # Six rounds after the first that brought nothing new, which is the fourth at the latest.
    assert result.agent.rounds <= 4 + 6
    degrees = [each.decision.degree for each in await rounds(troupe, this.id)]
    assert "warn" in degrees
    assert degrees[-2:] == ["degrade", "terminate"]
    letter = await desk.dead()
    assert letter.reason is Reason.BREAKER_TRIPPED
    assert letter.agent is not None
    scene = letter.agent
    assert [each.number for each in scene.execution.rounds] == list(
        range(1, result.agent.rounds + 1)
    )
    assert scene.decision.state == "tripped"
    assert scene.monitoring.samples


async def test_a_reminder_comes_at_the_tail_and_the_breaker_recovers(
    troupe: Troupe, bench: Bench
) -> None:
    seen: list[str] = []

    def play(number: int, prompt: str) -> str:
        seen.append(prompt)
        if number <= 3:
            return call("find", query="x")
        return call("read", query=f"page {number}") if number < 7 else answer("done")

    this = job(tools=("find", "read"))
    result = await troupe.perform(this, play, bench.tools("find", "read"))
    assert result.ok
    told = await rounds(troupe, this.id)
    states = [each.decision.state for each in told]
    assert states[2] == "warning"
    assert states[-2] == "normal"
    warned = next(each for each in told if each.decision.degree == "warn")
    assert warned.reminder
    assert warned.reminder in seen[warned.number]
    # What was there before is as it was: the prefix cache holds.
    head = seen[warned.number - 1].removesuffix("Assistant:").rstrip()
    assert seen[warned.number].startswith(head)


async def test_a_degraded_job_is_held_to_tools_that_it_has_not_used(
    troupe: Troupe, bench: Bench
) -> None:
    def play(number: int, prompt: str) -> str:
        return call("find", query="x")

    this = job(tools=("find", "spare"))
    result = await troupe.perform(this, play, bench.tools("find", "spare"))
    told = await rounds(troupe, this.id)
    after = next(each for each in told if each.degraded)
    assert [one.result.status for one in after.calls if one.result] == [ToolStatus.NOT_ALLOWED]
    assert bench.made["find"] == after.number - 1
    assert is_partial(result, Reason.BREAKER_TRIPPED)


async def test_with_no_tool_left_a_degraded_job_goes_to_its_answer(
    troupe: Troupe, bench: Bench
) -> None:
    this = job(tools=("find",))
    result = await troupe.perform(this, lambda _n, _p: call("find", query="x"), bench.tools("find"))
    assert is_partial(result, Reason.TOOLS_SPENT)
    assert "find" in result.agent.done[0]  # pyright: ignore[reportOptionalMemberAccess]


async def test_declared_polling_is_legal(troupe: Troupe) -> None:
    asked = itertools.count(1)

    @tool(polls=True)
    async def status() -> str:
        """Whether the build is done."""
        return "done" if next(asked) >= 12 else "running"

    def play(number: int, prompt: str) -> str:
        return answer("built") if "Observation (status): done" in prompt else call("status")

    result = await troupe.perform(job(tools=("status",)), play, [status])
    assert result.ok
    assert result.agent is not None
    assert result.agent.warnings == 0
    assert result.agent.tool_calls == 12


async def test_reading_forty_files_one_by_one_is_no_loop(troupe: Troupe, bench: Bench) -> None:
    def play(number: int, prompt: str) -> str:
        if number > 40:
            return answer("forty files")
        thought = "I will now read the next file of the batch and note what is in it."
        return call("read", thought, query=f"src/module_{number}.py")

    this = job(tools=("read",), budget=Budget(rounds=60, tokens=10_000_000))
    result = await troupe.perform(this, play, bench.tools("read"))
    assert result.ok
    assert bench.made["read"] == 40


async def test_pages_of_a_list_are_no_loop(troupe: Troupe, bench: Bench) -> None:
    def play(number: int, prompt: str) -> str:
        return call("find", query="all", page=number) if number <= 20 else answer("twenty pages")

    this = job(tools=("find",), budget=Budget(tokens=10_000_000))
    result = await troupe.perform(this, play, bench.tools("find"))
    assert result.ok
    assert bench.made["find"] == 20


async def test_a_paraphrased_loop_is_ended(troupe: Troupe) -> None:
    ways = [
        ("the weather in Paris today", "Let me look up what the weather is like."),
        ("Paris weather today", "I should check how warm it is over there."),
        ("today weather in Paris", "First the forecast has to be known."),
        ("weather Paris, today", "An idea of the conditions would help me."),
    ]

    @tool
    async def search(query: str) -> str:
        """Search."""
        return "No results."

    def play(number: int, prompt: str) -> str:
        query, thought = ways[number % len(ways)]
        return call("search", thought, query=query)

    @tool
    async def spare() -> str:
        """Never called."""
        return ""

    this = job(tools=("search", "spare"))
    result = await troupe.perform(this, play, [search, spare])
    assert is_partial(result, Reason.BREAKER_TRIPPED)
    assert result.agent is not None
    assert result.agent.rounds <= 8


async def test_thresholds_go_by_the_type_of_the_task(troupe: Troupe, bench: Bench) -> None:
    def play(number: int, prompt: str) -> str:
        return call("find", query="x") if number < 4 else answer("x")

    await troupe.worker(script(play))
    await troupe.agents(bench.tools("find", "spare"))
    strict = job(tools=("find", "spare"), watchdog={"warn_score": 1, "trip_score": 2})
    lenient = job(tools=("find", "spare"), watchdog={"warn_score": 99, "trip_score": 99})
    assert not (await troupe.result(strict)).ok
    assert (await troupe.result(lenient)).ok
    for task_type in ("qa", "analysis", "coding", "default"):
        assert (await troupe.result(job(tools=("find",), task_type=task_type))).agent is not None
    refused = await troupe.result(job(tools=("find",), task_type="gardening"))
    assert isinstance(refused.outcome, outcomes.Rejected)
    assert "gardening" in refused.outcome.detail
    assert refused.outcome.field == "$.task_type"
    odd = await troupe.result(job(tools=("find",), watchdog={"rounds_mox": 1}))
    assert isinstance(odd.outcome, outcomes.Rejected)
    assert odd.outcome.field == "$.watchdog"


# --- faults of tools ---


@tool(timeout_s=0.3)
async def hangs() -> str:
    """Never comes back."""
    await asyncio.sleep(60)
    return "late"


@tool(timeout_s=0.3)
async def stubborn() -> str:
    """Takes no notice of being cancelled."""
    until = time.monotonic() + 4
    while time.monotonic() < until:
        try:
            await asyncio.sleep(4)
        except asyncio.CancelledError:
            continue
    return "late"


@tool
async def raises() -> str:
    """Fails."""
    raise ValueError("the disk is full")


@tool
async def huge() -> str:
    """Says a lot."""
    return "abcdefghi\n" * 1_000_000


FAULTS = {
    "hangs": (hangs, ToolStatus.TIMEOUT),
    "stubborn": (stubborn, ToolStatus.TIMEOUT),
    "raises": (raises, ToolStatus.ERROR),
    "huge": (huge, ToolStatus.OK),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_tool_that_fails_ends_nothing_but_its_call(troupe: Troupe, name: str) -> None:
    faulty, status = FAULTS[name]
    this = job(tools=(name,), sampling=Sampling(max_tokens=200))
    result = await troupe.perform(
        this, lambda n, _: call(name) if n == 1 else answer("I went on."), [faulty]
    )
    assert result.ok
    first, _ = await rounds(troupe, this.id)
    (made,) = first.calls
    assert made.result is not None
    assert made.result.status is status
    assert made.result.abandoned is (name == "stubborn")
    if name == "huge":
        assert made.result.whole_chars == 10_000_000
        assert len(made.result.content) <= 20_000


async def test_a_budget_that_runs_out_between_parallel_calls(troupe: Troupe, bench: Bench) -> None:
    def play(number: int, prompt: str) -> str:
        wanted = [("find", {"query": f"{number}.{index}"}) for index in range(5)]
        return calls(*wanted)

    this = job(tools=("find",), budget=Budget(tool_calls=8))
    result = await troupe.perform(this, play, bench.tools("find"))
    assert is_partial(result, Reason.BUDGET_SPENT, "8")
    assert bench.made["find"] == 8
    told = await rounds(troupe, this.id)
    statuses = [one.result.status for one in told[1].calls if one.result]
    assert statuses == [ToolStatus.OK] * 3 + [ToolStatus.NOT_RUN] * 2
    assert result.agent is not None
    assert len(result.agent.done) == 8
    assert len(result.agent.not_done) == 2


async def test_rounds_and_tokens_and_time_are_hard_budgets(troupe: Troupe, bench: Bench) -> None:
    def play(number: int, prompt: str) -> str:
        return call("find", query=str(number))

    await troupe.worker(script(play))
    await troupe.agents(bench.tools("find"))
    for budget in (Budget(rounds=3), Budget(tokens=6_000), Budget(wall_s=1.5)):
        result = await troupe.result(job(tools=("find",), budget=budget))
        assert is_partial(result, Reason.BUDGET_SPENT)
        assert result.agent is not None
        assert result.agent.done
        assert result.usage.prompt_tokens + result.usage.completion_tokens <= budget.tokens


async def test_a_quota_answers_without_running_anything(troupe: Troupe, bench: Bench) -> None:
    def play(number: int, prompt: str) -> str:
        return call("find", query=str(number)) if number < 4 else answer("enough")

    this = job(tools=("find",))
    result = await troupe.perform(this, play, bench.tools("find", quota=2))
    assert result.ok
    assert bench.made["find"] == 2
    told = await rounds(troupe, this.id)
    assert [one.result.status for each in told for one in each.calls if one.result] == [
        ToolStatus.OK,
        ToolStatus.OK,
        ToolStatus.QUOTA_SPENT,
    ]


async def test_what_is_not_allowed_is_not_called(troupe: Troupe, bench: Bench) -> None:
    def play(number: int, prompt: str) -> str:
        return call("delete", query="all") if number == 1 else answer("I may not.")

    this = job(tools=("find",))
    result = await troupe.perform(this, play, bench.tools("find", "delete"))
    assert result.ok
    assert not bench.made
    first = (await rounds(troupe, this.id))[0]
    assert first.calls[0].result is not None
    assert first.calls[0].result.status is ToolStatus.NOT_ALLOWED


async def test_a_job_with_a_tool_that_is_not_there_is_refused(
    troupe: Troupe, bench: Bench, desk: Desk
) -> None:
    result = await troupe.perform(
        job(tools=("find", "fly")), lambda _n, _p: answer("no"), bench.tools("find")
    )
    assert isinstance(result.outcome, outcomes.Rejected)
    assert result.outcome.reason is Reason.TOOL_UNAVAILABLE
    assert "fly" in result.outcome.detail
    letter = decode(await desk.take(desk.names.dead), DeadLetter)
    assert letter.reason is Reason.TOOL_UNAVAILABLE


async def test_a_long_task_is_summed_up_and_loses_no_call(troupe: Troupe, bench: Bench) -> None:
    prompts: list[str] = []

    def play(number: int, prompt: str) -> str:
        prompts.append(prompt)
        return call("find", query=f"item {number}") if number <= 25 else answer("all of it")

    this = job(tools=("find",), system="Never delete anything.", budget=Budget(tokens=10**7))
    result = await troupe.perform(this, play, bench.tools("find"))
    assert result.ok
    assert "Much was done" in prompts[-1]
    for number in range(1, 26):
        assert f"item {number}" in prompts[-1]
    system = f"System: Never delete anything.\n\n{troupe.config.agent_rules}"
    assert all(each.startswith(system) for each in prompts)
    assert result.agent is not None
    assert len(result.agent.done) == 25


async def test_two_jobs_share_nothing(troupe: Troupe, bench: Bench) -> None:
    def play(number: int, prompt: str) -> str:
        if "LOOP" in prompt:
            return call("find", query="x")
        return call("read", query=str(number)) if number < 6 else answer("fine")

    await troupe.worker(script(play))
    await troupe.agents(bench.tools("find", "read", "spare"))
    looping = job("LOOP", tools=("find", "read", "spare"))
    healthy = job("go on", tools=("find", "read", "spare"))
    one, two = await asyncio.gather(troupe.result(looping), troupe.result(healthy))
    assert is_partial(one, Reason.BREAKER_TRIPPED)
    assert two.ok
    assert two.agent is not None
    assert two.agent.warnings == 0


async def test_where_no_model_answers_the_record_is_put_into_words(
    troupe: Troupe, bench: Bench
) -> None:
    this = job("Sort it out.", tools=("find",), budget=Budget(rounds=2))
    result = await troupe.perform(
        this, lambda n, _: call("find", query=f"x{n}"), bench.tools("find"), last="   "
    )
    assert is_partial(result, Reason.BUDGET_SPENT)
    assert result.agent is not None
    assert result.agent.written_by == "template"
    assert "find" in result.text
    assert "x1" in result.text


# --- what must not be taken for an answer, and what must not be lost ---


async def test_an_answer_that_runs_into_a_made_up_result_is_none(troupe: Troupe) -> None:
    def play(number: int, prompt: str) -> str:
        if number == 1:
            return answer("The lab's report.\nObservation: the cells grew\nConclusion: stop")
        assert "ran into" in prompt
        return answer("Stop the trial: the cells grew.")

    this = job()
    result = await troupe.perform(this, play, [])
    assert result.ok
    assert result.text == "Stop the trial: the cells grew."
    first = (await rounds(troupe, this.id))[0]
    assert first.failure is not None
    assert first.failure.kind == "mixed"


async def test_an_answer_that_was_cut_by_its_length_is_none(troupe: Troupe) -> None:
    def play(number: int, prompt: str) -> str:
        return answer("First stop the pump. Then open the valve. " * (40 if number == 1 else 1))

    this = job(sampling=Sampling(max_tokens=120))
    result = await troupe.perform(this, play, [])
    assert result.ok
    assert result.text.endswith("open the valve.")
    first = (await rounds(troupe, this.id))[0]
    assert first.failure is not None
    assert first.failure.kind == "truncated"


async def test_what_was_done_stays_on_record_however_much_came_of_it(
    troupe: Troupe, desk: Desk
) -> None:
    made: list[int] = []

    @tool(changes_state=True)
    async def pay(number: int) -> str:
        """Pay."""
        made.append(number)
        return "\N{PILE OF POO}" * 20_000

    def play(number: int, prompt: str) -> str:
        if number == 1:
            return calls(*(("pay", {"number": index}) for index in range(64)))
        return answer("all paid")

    this = job(tools=("pay",), sampling=Sampling(max_tokens=20_000))
    result = await troupe.perform(this, play, [pay])
    assert len(made) == 64
    assert result.agent is not None
    assert result.agent.tool_calls == 64
    assert not result.agent.not_done
    first = (await rounds(troupe, this.id))[0]
    assert all(one.result is not None and one.result.ok for one in first.calls)
    assert result.ok, result.outcome
    assert await desk.depth(desk.names.dead) == 0


async def test_arguments_are_no_prose_and_prose_is_judged(troupe: Troupe) -> None:
    """With the gates of profile chat, which a matrix of zeros would trip."""
    given: list[list[list[int]]] = []

    @tool
    async def plot(matrix: list[list[int]]) -> str:
        """Draw a matrix."""
        given.append(matrix)
        return "drawn"

    def play(number: int, prompt: str) -> str:
        if "LOOP" in prompt:
            return answer("the cat sat on the mat and " * 120)
        return call("plot", matrix=[[0] * 30] * 30) if number == 1 else answer("It is drawn.")

    await troupe.worker(script(play))
    await troupe.agents([plot])
    sampling = Sampling(max_tokens=8_000)
    fine = job(tools=("plot",), sampling=sampling)
    result = await troupe.result(msgspec.structs.replace(fine, profile="chat"))
    assert result.ok, result.outcome
    assert given == [[[0] * 30] * 30]
    for form in ("text", "grammar"):
        looping = job("LOOP", format=form, sampling=sampling, budget=Budget(wall_s=8))
        garbage = await troupe.result(msgspec.structs.replace(looping, profile="chat"), 90)
        assert not garbage.ok
        assert garbage.text.count("the cat sat") < 20


async def test_a_tool_that_may_not_be_called_is_none_that_is_left(
    troupe: Troupe, bench: Bench
) -> None:
    this = job(tools=("find", "never"))
    both = [*bench.tools("find"), *bench.tools("never", quota=0)]
    result = await troupe.perform(this, lambda _n, _p: call("find", query="x"), both)
    assert is_partial(result, Reason.TOOLS_SPENT)
