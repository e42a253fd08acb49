"""The demo of a runaway: stopped with its work kept, and what it would have cost, measured."""

import json

import msgspec
import pytest
import pytest_asyncio
from click.testing import CliRunner
from sluicegate.ops import demo_agent_script as script
from sluicegate.ops.cli import main
from sluicegate.ops.demo_agent import AgentDemo, run_demo
from sluicegate.ops.demo_agent_view import as_data, lines
from sluicegate.schemas import Budget
from sluicegate.worker.config import Config

ROUNDS = 16


@pytest_asyncio.fixture(scope="module")
async def demo(broker_url: str) -> AgentDemo:
    return await run_demo(
        Config(amqp_url=broker_url),
        broker_is_given=True,
        say=lambda _: None,
        rounds=ROUNDS,
        step_s=0.0,
    )


@pytest.mark.broker
def test_the_runaway_is_stopped_with_its_work_kept(demo: AgentDemo) -> None:
    assert demo.ok
    assert (demo.stopped.outcome, demo.stopped.reason) == ("partial", "breaker_tripped")
    assert "16.1 million" in demo.stopped.text
    degrees = [each.round.decision.degree for each in demo.trace.rounds if each.round is not None]
    assert "warn" in degrees
    assert degrees[-2:] == ["degrade", "terminate"]
    assert demo.trace.ended is not None
    assert demo.trace.ended.record.done


@pytest.mark.broker
def test_without_a_watchdog_it_runs_until_its_budget_is_spent(demo: AgentDemo) -> None:
    stopped, runaway = demo.stopped, demo.runaway
    assert (runaway.outcome, runaway.reason) == ("partial", "budget_spent")
    assert runaway.rounds == ROUNDS > stopped.rounds
    assert runaway.tool_calls > stopped.tool_calls
    assert runaway.tokens > stopped.tokens


@pytest.mark.broker
def test_every_number_shown_was_measured(demo: AgentDemo) -> None:
    said = " ".join(" ".join(lines(demo)).split())
    for run in (demo.stopped, demo.runaway):
        for number in (run.rounds, run.tool_calls, run.prompt_tokens, run.completion_tokens):
            assert f"{number:,}" in said
        assert f"{run.seconds:.1f}" in said
    hourly = round(demo.runaway.tokens * 3_600 / demo.runaway.seconds)
    assert f"{hourly:,} tokens" in said
    assert "The model is played by a script: it shows the watchdog, not a model." in said
    shown = json.loads(msgspec.json.encode(as_data(demo)))
    assert shown["played_by_script"] is True
    assert shown["watchdog_off"]["tokens"] == demo.runaway.tokens
    assert shown["watchdog_off"]["in_an_hour"]["tokens"] == hourly
    assert len(shown["trace"]["rounds"]) == demo.stopped.rounds


@pytest.mark.broker
def test_it_is_drawn_for_eighty_columns(demo: AgentDemo) -> None:
    assert max(map(len, lines(demo))) <= 80


def test_two_demos_at_once_are_none() -> None:
    result = CliRunner().invoke(main, ["demo", "--agent", "--inject", "nan"])
    assert result.exit_code == 2
    assert "--agent and --inject" in result.stderr


def test_the_script_helps_and_then_gets_stuck() -> None:
    def said(prompt: str) -> str:
        return script.play(None, prompt)

    rounds = [said(f"[Round {number} of at most 50 is over]") for number in range(1, 9)]
    assert "Paris" in said("the task alone")
    assert "Tokyo" in rounds[0]
    assert "calculator" in rounds[1]
    assert len(set(rounds[2:])) == 1
    assert "Action" not in said("[This task must be ended now: ...]")


def test_the_budget_is_no_smaller_than_a_jobs_own() -> None:
    own, job = Budget(), script.job(watchdog=False, rounds=script.ROUNDS)
    assert job.budget.rounds == own.rounds
    assert job.budget.tokens >= own.tokens
    assert job.watchdog
    assert not script.job(watchdog=True, rounds=1).watchdog
