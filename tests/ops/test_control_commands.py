"""`sluice cancel`, `pause` and `resume` on a real broker, as programs see them."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from sluicegate.ops.cli import main
from sluicegate.ops.pausing import Duration
from sluicegate.producer import GenerationJob, Producer
from sluicegate.schemas.results import Cancelled
from sluicegate.worker.scripted import ScriptedEngine, echo
from sluicegate.worker.service import Worker

from ..worker.conftest import StartWorker, start_worker

__all__ = ["start_worker"]  # a fixture

pytestmark = pytest.mark.broker

WAIT_S = 20
TEXT = "a text that takes longer than anybody here has time for, letter by letter, word by word"


class Shell:
    """Calls commands in a thread, on one namespace."""

    def __init__(self, url: str, namespace: str) -> None:
        self._flags = ("--amqp-url", url, "--namespace", namespace)

    async def __call__(self, *words: str, stdin: str = "") -> Result:
        command, *rest = words
        arguments = [command, *self._flags, *rest]
        return await asyncio.to_thread(CliRunner().invoke, main, arguments, input=stdin)

    async def json(self, *words: str, stdin: str = "") -> dict[str, Any]:
        done = await self(*words, "--json", stdin=stdin)
        return json.loads(done.stdout)


@pytest.fixture
def shell(broker_url: str, namespace: str) -> Shell:
    return Shell(broker_url, namespace)


async def until_state(worker: Worker, wanted: str) -> None:
    async with asyncio.timeout(WAIT_S):
        while worker.state != wanted:
            await asyncio.sleep(0.01)


async def test_calling_off_what_runs_and_what_waits(
    broker_url: str,
    namespace: str,
    shell: Shell,
    start_worker: StartWorker,
) -> None:
    engine = ScriptedEngine(echo, chunk=1, step_s=0.2)
    await start_worker(engine, lanes="interactive=1").ready()
    async with Producer(broker_url, namespace=namespace) as producer:
        runs, waits = [await producer.publish(GenerationJob(prompt=TEXT)) for _ in range(2)]
        async with asyncio.timeout(WAIT_S):
            while not engine.running:
                await asyncio.sleep(0.01)
        done = await shell(
            "cancel", "-", "--reason", "no\x1b[31m longer", stdin=f"{waits.job_id}\n"
        )
        assert done.exit_code == 0
        assert done.stdout.startswith(f"{waits.job_id}: called off, if it is there")
        assert (await waits.result(timeout=WAIT_S)).outcome == Cancelled()
        done = await shell(
            "cancel", runs.job_id, waits.job_id, "--wait", "--timeout", "15", "--json"
        )
        assert done.exit_code == 0
        told = {each["job_id"]: each["outcome"] for each in json.loads(done.stdout)["cancel"]}
        assert told == {runs.job_id: "cancelled", waits.job_id: "cancelled"}
        late = await shell("cancel", "never-seen", "--wait", "--timeout", "0.3")
        assert late.exit_code == 1
        assert "nothing was heard of it within 0.3 s" in late.stdout


@pytest.mark.parametrize("words", [(), ("two words",), ("-",), ("a\x1b[2Jb",)])
async def test_what_is_no_job_id_is_bad_usage(shell: Shell, words: tuple[str, ...]) -> None:
    done = await shell("cancel", *words)
    assert done.exit_code == 2
    assert "\x1b" not in done.output


async def test_pausing_shows_what_is_paused_and_resuming_lifts_it(
    shell: Shell,
    start_worker: StartWorker,
) -> None:
    worker = start_worker().worker
    await until_state(worker, "ready")
    assert (await shell("pause")).stdout == "nothing is paused\n"
    done = await shell("pause", "--worker", "w1", "--reason", "new\ndriver", "--for", "10m")
    assert done.exit_code == 0
    await until_state(worker, "paused")
    (lane,) = (await shell.json("pause", "--lane", "batch"))["paused"]
    assert (lane["scope"], lane["until"]) == ("queue", None)
    told = (await shell.json("pause"))["paused"]
    assert [(each["scope"], each["reason"]) for each in told] == [
        ("service", "new?driver"),
        ("queue", ""),
    ]
    left_s = (datetime.fromisoformat(told[0]["until"]) - datetime.now(UTC)).total_seconds()
    assert 500 < left_s <= 600
    done = await shell("resume", "--worker", "w1")
    assert done.exit_code == 0
    assert "resumed: service w1" in done.stdout
    assert lane["name"] in done.stdout  # what is still paused
    await until_state(worker, "ready")
    assert (await shell("resume", "--kind", "checker")).exit_code == 1
    data = await shell.json("resume", "--all")
    assert (len(data["resumed"]), data["paused"]) == (1, [])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pause", "--all", "--lane", "batch"), "one target"),
        (("pause", "--queue", "dead"), "jobs.batch"),
        (("pause", "--reason", "x"), "Name what to pause"),
        (("pause", "--all", "--for", "soon"), "10m"),
        (("pause", "--all", "--for", "0s"), "10m"),
        (("pause", "--worker", " "), "not empty"),
        (("pause", "--worker", "x" * 300), "length <= 256"),
        (("resume",), "Name what to resume"),
    ],
)
async def test_bad_usage_says_what_to_do(shell: Shell, words: tuple[str, ...], said: str) -> None:
    done = await shell(*words)
    assert done.exit_code == 2
    assert said in done.output


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("1d", 86400)]
)
def test_durations(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds
    with pytest.raises(click.BadParameter):
        Duration().convert(f"-{text}", None, None)


async def test_without_a_broker_it_can_not_be_said() -> None:
    done = await Shell("amqp://127.0.0.1:1/", "x")("pause", "--all")
    assert done.exit_code == 3
