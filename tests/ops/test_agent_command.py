"""`sluice agent run`, `submit` and `trace` as a user runs them."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from click.testing import CliRunner
from sluicegate.ops import cmd_agent_run
from sluicegate.ops.agent_job_file import agent_job
from sluicegate.ops.cli import main
from sluicegate.ops.dlq_queue import looking
from sluicegate.producer.confirms import ConfirmedPublisher
from sluicegate.producer.connection import close, connect
from sluicegate.producer.declare import one_channel
from sluicegate.schemas import (
    AgentRecord,
    DeadLetter,
    GenerationResult,
    InvalidMessage,
    Names,
    Origin,
    Reason,
    ToolCall,
    decode,
    encode,
)
from sluicegate.schemas.agents import Begun, Closed, Dispatched, Ended, round_job_id
from sluicegate.worker.agent import service
from sluicegate.worker.agent.journal import Journal
from sluicegate.worker.config import Config
from sluicegate.worker.tools.tool import tool

from ..worker.agent.contexts import a_round, context
from ..worker.agent.troupe import Troupe, answer, call, script

PROGRAM = Path(sys.executable).parent / "sluice"
LIMIT_S = 60


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


class Cli:
    """Runs `sluice` against one namespace."""

    def __init__(self, url: str, namespace: str, folder: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
        self.env = {**kept, "SLUICE_AMQP_URL": url, "SLUICE_NAMESPACE": namespace, "COLUMNS": "80"}
        self._folder = folder

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            PROGRAM,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.env,
            cwd=self._folder,
        )

    async def run(self, *arguments: str, stdin: str = "") -> Done:
        return await ended(await self.start(*arguments), stdin)


async def ended(process: asyncio.subprocess.Process, stdin: str = "") -> Done:
    async with asyncio.timeout(LIMIT_S):
        out, err = await process.communicate(stdin.encode())
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), err.decode())


@pytest.fixture
def cli(broker_url: str, namespace: str, tmp_path: Path) -> Cli:
    return Cli(broker_url, namespace, tmp_path)


@tool
async def find(query: str) -> str:
    """Look something up."""
    return f"found {query} \x1b[31mred\x1b]0;title\x07"


@tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount}"


@tool
async def spare() -> str:
    """Not called."""
    return ""


def play(number: int, prompt: str) -> str:
    if "LOOP" in prompt:
        return call("find", query="x")
    if "PAY" in prompt:
        return call("pay", amount=7) if number == 1 else answer("It is paid.")
    return call("find", query="the sky") if number == 1 else answer("It is \x1b[31mblue.")


@pytest_asyncio.fixture
async def troupe(broker_url: str, namespace: str) -> AsyncGenerator[Troupe]:
    config = Config(
        amqp_url=broker_url,
        namespace=namespace,
        engine="scripted",
        metrics_port=0,
        max_model_len=100_000,
        drain_grace_s=5.0,
    )
    one = Troupe(broker_url, namespace, config)
    await one.worker(script(play, last="As far as I came."))
    await one.agents([find, pay, spare])
    yield one
    await one.stop()


# --- run ---


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """The configurations that a service was to run with."""
    seen: list[Config] = []

    def run(config: Config) -> int:
        seen.append(config)
        return 0

    monkeypatch.setattr(service, "run_agents", run)
    monkeypatch.setattr(cmd_agent_run, "with_tokenizer", _same)
    return seen


def _same(config: Config) -> Config:
    return config


@pytest.mark.parametrize(
    ("arguments", "environment", "port"),
    [
        ((), {}, 9466),
        (("--metrics-port", "9464"), {}, 9464),
        ((), {"SLUICE_METRICS_PORT": "7000"}, 7000),
    ],
)
def test_a_worker_and_a_checker_can_run_beside_it(
    arguments: tuple[str, ...], environment: dict[str, Any], port: int, started: list[Config]
) -> None:
    result = CliRunner().invoke(main, ["agent", "run", *arguments], env=environment)
    assert result.exit_code == 0, result.output
    assert [config.metrics_port for config in started] == [port]


def test_its_settings_reach_it(started: list[Config]) -> None:
    said = ["--agent-tools", "a.b", "--agent-slots", "3", "--watchdog-file", "w.toml"]
    assert CliRunner().invoke(main, ["agent", "run", *said]).exit_code == 0
    (config,) = started
    assert (config.agent_tools, config.agent_slots, config.watchdog_file) == ("a.b", 3, "w.toml")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--agent-keep-rounds", "9", "--agent-fold-after", "9"), "agent_fold_after"),
        (("--agent-step-timeout-s", "1700"), "consumer_timeout_s"),
        (("--agent-tools", "no.such.module"), "no.such.module"),
        (("--watchdog-file", "/nowhere/w.toml"), "watchdog_file"),
    ],
)
def test_settings_that_can_not_be_used_are_bad_usage(arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(main, ["agent", "run", "--engine", "scripted", *arguments])
    assert result.exit_code == 2, result.output
    assert said in result.stderr


# --- the job of a file and flags ---


def test_what_is_left_out_is_as_by_default() -> None:
    job = agent_job(None, {"task": "x"}, {"budget": {}, "sampling": {}})
    assert (job.task, job.tools, job.attempt) == ("x", (), 1)
    assert job.id != agent_job(None, {"task": "x"}, {}).id


def test_flags_are_stronger_and_tools_come_together() -> None:
    body = b'{"task": "x", "tools": ["a"], "budget": {"rounds": 3, "tokens": 9}, "id": "one"}'
    job = agent_job(body, {"task": "y"}, {"budget": {"rounds": 4}}, ["b", "a"])
    assert (job.id, job.task, job.tools) == ("one", "y", ("a", "b"))
    assert (job.budget.rounds, job.budget.tokens) == (4, 9)


@pytest.mark.parametrize(
    ("body", "field", "hint"),
    [
        (b'{"task": "x", "tool": ["a"]}', "$.tool", "did you mean tools?"),
        (b'{"task": "x", "budget": {"round": 1}}', "$.budget.round", "did you mean rounds?"),
        (b'{"task": "x", "attempt": 2}', "$.attempt", "written by the system"),
        (b'{"task": "x", "budget": 1}', "$.budget", "object"),
        (b'{"task": "x", "tools": "find"}', "$.tools", "array"),
        (b'{"task": "  "}', "$.task", "nothing to do"),
        (b"{}", "$.task", "required"),
        (b"[]", "$", "JSON object"),
        (b"{", "$", "truncated"),
        (b"[" * 100_000, "$", "too deeply"),
        (b'{"task": "' + b"x" * 2_000_000 + b'"}', "$", "limit"),
    ],
)
def test_what_is_wrong_is_named(body: bytes, field: str, hint: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        agent_job(body, {}, {"budget": {"tokens": 5}}, ["find"])
    assert caught.value.field == field
    assert hint in caught.value.detail


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--task"),
        (("--task", "-", "--file", "-"), "standard input"),
        (("--task", "x", "--timeout", "5"), "--wait"),
        (("--task", "x", "--tool", "no tool!"), "$.tools"),
        (("--file", "/nowhere/job.json"), "/nowhere/job.json"),
        (("--task", "x", "--deadline-in", "1e18"), "--deadline-in"),
    ],
)
def test_bad_input_ends_here(arguments: tuple[str, ...], said: str) -> None:
    # No broker is there: none is asked.
    env = {"SLUICE_AMQP_URL": "amqp://127.0.0.1:1/"}
    result = CliRunner().invoke(main, ["agent", "submit", *arguments], env=env, input="x")
    assert result.exit_code == 2, result.output
    assert said in result.stderr


# --- submit ---


@pytest.mark.broker
async def test_a_job_is_followed_to_its_answer(troupe: Troupe, cli: Cli) -> None:
    assert troupe.namespace
    asked = ("--task", "Why is it blue?", "--tool", "find", "--profile", "off", "--wait")
    done = await cli.run("agent", "submit", *asked)
    assert done.code == 0, done.err
    assert done.out == "It is blue.\n"
    assert "round 1: find ok" in done.err
    assert "2 rounds, 1 call" in done.err
    assert "\x1b" not in done.err


@pytest.mark.broker
async def test_a_runaway_comes_back_as_partial(troupe: Troupe, cli: Cli) -> None:
    assert troupe.namespace
    job = {"id": "loop-1", "task": "LOOP", "tools": ["find"], "profile": "off"}
    done = await cli.run(
        "agent", "submit", "--file", "-", "--tool", "spare", "--wait", stdin=json.dumps(job)
    )
    assert done.code == 1
    assert done.out == "As far as I came.\n"
    assert "loop-1 was partial (breaker_tripped)" in done.err
    assert "degrade" in done.err
    assert "not done" in done.err
    drawn = await cli.run("agent", "trace", "loop-1")
    assert drawn.code == 0, drawn.err
    for part in ("→ warn", "→ degrade", "→ terminate", "partial after", "As far as I came."):
        assert part in drawn.out, part
    assert "\x1b" not in drawn.out
    assert max(map(len, drawn.out.splitlines())) <= 80


@pytest.mark.broker
async def test_the_whole_result_as_json(troupe: Troupe, cli: Cli) -> None:
    assert troupe.namespace
    asked = ("--task", "Why?", "--tool", "find", "--profile", "off", "--wait", "--json")
    done = await cli.run("agent", "submit", *asked)
    assert "\x1b" not in done.out
    result = decode(done.out.encode(), GenerationResult)
    assert result.text == "It is \x1b[31mblue."
    assert result.agent is not None


@pytest.mark.broker
async def test_publishing_alone_prints_the_id(cli: Cli, broker_url: str, namespace: str) -> None:
    done = await cli.run("agent", "submit", "--task", "-", "--id", "later", stdin="Do it.")
    assert (done.code, done.out) == (0, "later\n")
    assert "without tools it can only answer" in done.err
    some = await cli.run("agent", "submit", "--task", "x", "--tool", "find", "--reply", "default")
    assert "without tools" not in some.err
    as_json = await cli.run("agent", "submit", "--task", "x", "--json", "--reply", "default")
    assert json.loads(as_json.out)["reply_to"] == "default"
    connection = await connect(broker_url, timeout_s=LIMIT_S, name="tests")
    try:
        async with one_channel(connection, LIMIT_S) as channel:
            there = await channel.queue_declare(Names(namespace).new_agents, passive=True)
            assert there.message_count == 3
    finally:
        await close(connection)


@pytest.mark.broker
async def test_who_stops_waiting_stops_nothing(cli: Cli) -> None:
    done = await cli.run("agent", "submit", "--task", "x", "--wait", "--timeout", "0.2")
    assert done.code == 1
    assert "The job goes on: `sluice agent trace" in done.err


@pytest.mark.broker
async def test_ctrl_c_stops_waiting_and_says_how_to_go_on(cli: Cli) -> None:
    process = await cli.start(
        "agent", "submit", "--task", "x", "--tool", "find", "--id", "on-1", "--wait"
    )
    assert process.stderr is not None
    async with asyncio.timeout(LIMIT_S):
        assert b"job on-1" in await process.stderr.readline()
    process.send_signal(signal.SIGINT)
    done = await ended(process)
    assert done.code == 130
    assert "the job goes on: `sluice agent trace on-1 --follow`" in done.err
    assert "Traceback" not in done.err


@pytest.mark.broker
async def test_a_call_that_waits_for_a_person(troupe: Troupe, cli: Cli) -> None:
    assert troupe.namespace
    asked = ("--task", "PAY", "--tool", "pay", "--id", "pay-1", "--profile", "off", "--wait")
    process = await cli.start("agent", "submit", *asked)
    assert process.stderr is not None
    async with asyncio.timeout(LIMIT_S):
        said = b""
        while b"waits for a person" not in said:
            said = await process.stderr.readline()
            assert said
    drawn = await cli.run("agent", "trace", "pay-1")
    assert 'waits: pay {"amount":7}' in drawn.out
    shown = json.loads((await cli.run("agent", "trace", "pay-1", "--json")).out)
    assert [one["tool"] for one in shown["waiting"]] == ["pay"]
    assert (await cli.run("agent", "approvals", "approve", "pay-1", "--by", "kim")).code == 0
    done = await ended(process)
    assert (done.code, done.out) == (0, "It is paid.\n")
    assert "approval approved by kim" in (await cli.run("agent", "trace", "pay-1")).out


# --- trace ---


@pytest.mark.broker
async def test_a_job_that_is_followed_from_before_it_begins(troupe: Troupe, cli: Cli) -> None:
    assert troupe.namespace
    process = await cli.start("agent", "trace", "loop-2", "--follow")
    assert process.stderr is not None
    async with asyncio.timeout(LIMIT_S):
        assert b"waiting for it" in await process.stderr.readline()
    asked = ("--task", "LOOP", "--id", "loop-2", "--profile", "off")
    await cli.run("agent", "submit", *asked, "--tool", "find", "--tool", "spare")
    done = await ended(process)
    assert done.code == 0, done.err
    assert done.out.count("── round 1,") == 1
    assert "partial after" in done.out
    lines = (await cli.run("agent", "trace", "loop-2", "--follow", "--json")).out.splitlines()
    assert {"begun", "dispatched"} <= {json.loads(line)["entry"]["kind"] for line in lines}
    assert {json.loads(line)["attempt"] for line in lines} == {1}
    assert json.loads(lines[-1])["entry"]["outcome"] == "partial"


@pytest.mark.broker
async def test_a_job_that_was_refused_says_why(troupe: Troupe, cli: Cli) -> None:
    assert troupe.namespace
    done = await cli.run("agent", "submit", "--task", "x", "--tool", "fly", "--id", "f1", "--wait")
    assert done.code == 1
    drawn = await cli.run("agent", "trace", "f1")
    assert drawn.code == 0, drawn.err
    assert "rejected" in drawn.out
    assert "tool_unavailable" in drawn.out
    assert "fly" in drawn.out


@pytest.mark.broker
async def test_a_call_that_never_came_back_is_unknown(
    cli: Cli, broker_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = await connect(broker_url, timeout_s=LIMIT_S, name="tests")
    try:
        journal = Journal(connection, ConfirmedPublisher(connection), Names(namespace))
        lost = ToolCall(id="c", name="find", effect_id="lost-1:1:1:0", arguments={"q": "x"})
        await journal.write("lost-1", Dispatched(effect_id=lost.effect_id, round=1, call=lost))
    finally:
        await close(connection)
    drawn = await cli.run("agent", "trace", "lost-1")
    assert drawn.code == 0
    assert "running for" in drawn.out
    monkeypatch.setitem(cli.env, "SLUICE_AGENT_STEP_TIMEOUT_S", "0.01")
    drawn = await cli.run("agent", "trace", "lost-1")
    assert "nothing came back: unknown" in drawn.out
    shown = json.loads((await cli.run("agent", "trace", "lost-1", "--json", "--since", "1h")).out)
    (attempt,) = shown["attempts"]
    assert attempt["rounds"][0]["calls"][0]["lost"] is True
    assert datetime.fromisoformat(attempt["first"]) <= datetime.now(UTC)


@pytest.mark.broker
async def test_the_end_of_an_attempt_before_is_not_that_of_the_next(
    cli: Cli, broker_url: str, namespace: str
) -> None:
    connection = await connect(broker_url, timeout_s=LIMIT_S, name="tests")
    try:
        journal = Journal(connection, ConfirmedPublisher(connection), Names(namespace))

        async def write(attempt: int, *, begins: bool) -> None:
            scene = context(a_round(1), id="again-1")
            job = msgspec.structs.replace(scene.job, attempt=attempt)
            scene = msgspec.structs.replace(scene, job=job)
            record = AgentRecord(rounds=1)
            over = Ended(context=scene, outcome="partial", record=record, text=f"end {attempt}")
            await journal.write("again-1", Begun(job=job) if begins else over)

        await write(1, begins=False)
        process = await cli.start("agent", "trace", "again-1", "--follow")
        assert process.stdout is not None
        async with asyncio.timeout(LIMIT_S):
            said = b""
            while b"end 1" not in said:
                said = await process.stdout.readline()
                assert said
        await write(2, begins=True)
        await write(2, begins=False)
        done = await ended(process)
    finally:
        await close(connection)
    assert done.code == 0, done.err
    assert "attempt 2" in done.out
    assert "end 2" in done.out


@pytest.mark.broker
async def test_a_job_that_died_without_an_end_says_why(
    cli: Cli, broker_url: str, namespace: str
) -> None:
    names = Names(namespace)
    scene = context(a_round(1), id="died-1")
    letter = DeadLetter(
        job_id="died-1",
        reason=Reason.CONTEXT_FULL,
        detail="no room at all",
        at=datetime.now(UTC),
        origin=Origin(stage="agent", worker="a1", queue=names.agents),
        agent=scene,
    )
    connection = await connect(broker_url, timeout_s=LIMIT_S, name="tests")
    try:
        publisher = ConfirmedPublisher(connection)
        journal = Journal(connection, publisher, names)
        this = a_round(1, job_id=round_job_id(scene.job, 1))
        await journal.write("died-1", Closed(round=this))
        await publisher.publish(
            names.dlx,
            "agent",
            encode(letter),
            kind="dead_letter",
            correlation_id="died-1",
            timeout_s=LIMIT_S,
        )
    finally:
        await close(connection)
    drawn = await cli.run("agent", "trace", "died-1")
    assert drawn.code == 0, drawn.err
    assert "died after 1 round" in drawn.out
    assert "context_full: no room at all" in drawn.out
    assert "from its dead letter" not in drawn.out
    # Somebody who has the dead letters in hand is in nobody's way.
    there = Config(amqp_url=broker_url, namespace=namespace)
    async with looking(there):
        alone = await cli.run("agent", "trace", "died-1")
        assert (alone.code, "not over" in alone.out) == (0, True), alone.err
        assert (await cli.run("agent", "trace", "nobody")).code == 1


@pytest.mark.broker
async def test_what_is_not_there_is_said(cli: Cli) -> None:
    done = await cli.run("agent", "trace", "nobody")
    assert (done.code, done.out) == (1, "")
    assert "nothing of an agent job nobody" in done.err
    assert (await cli.run("agent", "trace", "not an id")).code == 2
