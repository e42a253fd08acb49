"""`sluice dlq` as a user runs it: a program, a real broker."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from aio_pika.abc import AbstractRobustConnection
from click.testing import CliRunner
from sluicegate.ops.cli import main
from sluicegate.ops.dlq_queue import looking
from sluicegate.producer import Producer
from sluicegate.producer.connection import close, connect
from sluicegate.schemas import GenerationJob, Names, decode
from sluicegate.worker.config import Config

from .dlq_letters import LIMIT_S, NOW, bury, drained, job, moved, ready, rejected, unroutable

PROGRAM = Path(sys.executable).parent / "sluice"


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Dlq:
    """Runs `sluice dlq` on one namespace."""

    def __init__(self, url: str, namespace: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE")}
        self.url = url
        self.environment = {**kept, "SLUICE_AMQP_URL": url, "SLUICE_NAMESPACE": namespace}

    async def __call__(self, *arguments: str, answer: str = "") -> Ended:
        process = await asyncio.create_subprocess_exec(
            PROGRAM,
            "dlq",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment,
        )
        async with asyncio.timeout(60):
            out, err = await process.communicate(answer.encode())
        assert process.returncode is not None
        return Ended(process.returncode, out.decode(), err.decode())


@pytest.fixture
def dlq(broker_url: str, namespace: str) -> Dlq:
    return Dlq(broker_url, namespace)


@pytest_asyncio.fixture
async def connection(broker_url: str) -> AsyncGenerator[AbstractRobustConnection]:
    made = await connect(broker_url, timeout_s=LIMIT_S, name="dlq tests")
    yield made
    await close(made)


@pytest_asyncio.fixture
async def five(connection: AbstractRobustConnection, namespace: str) -> list[str]:
    """The ids of five letters: two of the checks, one unroutable, one moved, one raw."""
    names = Names(namespace)
    ours = [
        rejected("order-1", metadata={"tenant": "acme"}),
        rejected("order-2", lane="batch", deadline=NOW),
        unroutable("order-3"),
    ]
    await bury(connection, names, ours)
    await bury(connection, names, [job("order-4"), b"\x1b[2J{"], moved("delivery_limit"))
    return [each.id for each in ours]


@pytest.mark.broker
class TestLooks:
    async def test_all_of_them(self, dlq: Dlq, five: list[str], tmp_path: Path) -> None:
        listed = await dlq("list")
        assert listed.code == 0
        assert listed.out.splitlines()[1].startswith(five[0]) or five[0] in listed.out
        assert len(listed.out.splitlines()) == 6
        assert "\x1b" not in listed.out
        assert listed.err == "5 of 5 dead letters shown\n"

        some = await dlq("list", "--metadata", "tenant=acme", "--json")
        assert [line["job_id"] for line in some.lines] == ["order-1"]
        assert some.err == "1 of 1 dead letters shown that fit, of 5 in all\n"

        stats = await dlq("stats", "--json", "--gate", "perplexity")
        assert json.loads(stats.out)["reasons"] == {"checks_rejected": 2}

        shown = await dlq("show", "order-1")
        assert shown.code == 0
        assert "⟦qzx vvk qqq⟧" in shown.out
        as_json = json.loads((await dlq("show", five[0], "--json")).out)
        assert as_json["message"]["job"]["id"] == "order-1"
        assert as_json["advice"]

        vague = await dlq("show", "order-")
        assert (vague.code, vague.out) == (1, "")
        assert "4 dead letters" in vague.err

        out = tmp_path / "dead.jsonl"
        assert (await dlq("export", "-o", str(out))).code == 0
        # Somebody may have labelled what is in it.
        again = await dlq("export", "-o", str(out))
        assert (again.code, "--force" in again.err) == (2, True)
        assert (await dlq("export", "-o", str(out), "--force")).code == 0
        texts = [json.loads(line) for line in out.read_text().splitlines()]
        assert [text["id"] for text in texts] == [
            "order-1:1",
            "order-1:2",
            "order-2:1",
            "order-2:2",
        ]
        raw = await dlq("export", "--raw")
        assert [line["kind"] for line in raw.lines] == ["letter"] * 3 + ["job", "raw"]

    @pytest.mark.usefixtures("five")
    async def test_a_replay(self, dlq: Dlq) -> None:
        replayed = await dlq("replay", "order-1", "--engine", "scripted", "--attempt", "2")
        assert replayed.code == 1
        assert "text, from character 0 on" in replayed.out
        assert "▸Tell me of rivers." in replayed.out
        nothing = await dlq("replay", "order-4", "--engine", "scripted")
        assert (nothing.code, "died before" in nothing.err) == (1, True)

    @pytest.mark.usefixtures("five")
    async def test_the_second_is_told(self, dlq: Dlq, broker_url: str, namespace: str) -> None:
        async with looking(Config(amqp_url=broker_url, namespace=namespace)):
            second = await dlq("list")
        assert (second.code, second.out) == (1, "")
        assert "somebody else is looking" in second.err


@pytest.mark.broker
class TestTakes:
    @pytest.mark.usefixtures("five")
    async def test_requeue(
        self, dlq: Dlq, connection: AbstractRobustConnection, namespace: str
    ) -> None:
        names = Names(namespace)
        planned = await dlq("requeue", "--all", "--dry-run", "--set", "sampling.temperature=0.3")
        assert planned.code == 1
        assert planned.out == (
            "2 dead letters to send back: 2 to jobs.interactive; with sampling.temperature=0.3\n"
        )
        for said in ("its deadline passed", "finished result", "can't be read"):
            assert said in planned.err
        assert "\x1b" not in planned.err

        no = await dlq("requeue", "order-1", answer="n\n")
        assert (no.code, await ready(connection, names.dead)) == (1, 5)

        yes = await dlq("requeue", "order-1", "order-4", "--profile", "code", answer="y\n")
        assert yes.code == 0
        assert yes.out.endswith("2 sent back\n")
        ways = [names.retry_queue("5s"), names.jobs_queue("interactive")]
        sent = [decode(body, GenerationJob) for body in await drained(connection, ways, 2)]
        assert [(each.id, each.attempt, each.profile) for each in sent] == [
            ("order-1", 3, "code"),
            ("order-4", 2, "code"),
        ]
        assert await ready(connection, names.dead) == 3

        some = await dlq("requeue", "--all", "--no-deadline", "--yes")
        assert some.code == 1
        assert some.out.endswith("1 sent back\n")
        assert "routing key 'nobody'" in some.err
        assert await ready(connection, names.dead) == 2

    async def test_whose_results_nobody_waits_for(
        self, dlq: Dlq, connection: AbstractRobustConnection, namespace: str
    ) -> None:
        names = Names(namespace)
        async with Producer(dlq.url, "orders", namespace=namespace):
            pass  # its queue stays
        gone = [job(f"gone-{number}", reply_to="private-0123") for number in (1, 2)]
        await bury(connection, names, [*gone, job("kept", reply_to="orders")])

        planned = await dlq("requeue", "--all", "--dry-run")
        assert planned.out == "3 dead letters to send back: 3 to jobs.interactive\n"
        assert planned.err == (
            "Warning: of 2 of them nobody is there for the result: the queue of reply key "
            "private-0123 is gone. It would be a dead letter, unless `sluice results --reply "
            "private-0123` makes the queue before\n"
        )
        assert (await dlq("requeue", "kept", "--yes")).err == ""

    @pytest.mark.usefixtures("five")
    async def test_purge(
        self, dlq: Dlq, connection: AbstractRobustConnection, namespace: str
    ) -> None:
        dead = Names(namespace).dead
        assert (await dlq("purge", "--yes")).code == 2
        dry = await dlq("purge", "--flaw", "high_*", "--dry-run")
        assert dry.out == "2 dead letters to throw away: 2 checks_rejected\n"
        asked = await dlq("purge", "--flaw", "high_*")  # nobody answers
        assert (asked.code, await ready(connection, dead)) == (1, 5)
        done = await dlq("purge", "--flaw", "high_*", "--yes")
        assert (done.code, done.out.splitlines()[-1]) == (0, "2 thrown away")
        assert await ready(connection, dead) == 3
        assert (await dlq("purge", "--reason", "cancelled", "--yes")).code == 0
        assert await ready(connection, dead) == 3


class TestUsage:
    @pytest.mark.parametrize(
        "name", ["list", "stats", "show", "export", "replay", "requeue", "purge"]
    )
    def test_help(self, name: str) -> None:
        result = CliRunner().invoke(main, ["dlq", name, "--help"])
        assert result.exit_code == 0
        assert "sluice dlq" in result.output

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["requeue"], "say which"),
            (["requeue", "abcdef", "--all"], "say which"),
            (["purge", "--all", "--reason", "x"], "say which"),
            (["requeue", "abcdef", "--set", "temperature"], "NAME=VALUE"),
            (["requeue", "abcdef", "--set", "sampling.temprature=1"], "sampling.temperature"),
            (["requeue", "abcdef", "--no-deadline", "--deadline-in", "5m"], "one too many"),
            (["requeue", "abcdef", "--deadline-in", "soon"], "no duration"),
            (["requeue", "abcdef", "--deadline-in", "999999999w"], "too long"),
            (["requeue", "abcdef", "--set", "gates.min_lenght=5"], "min_length"),
            (["requeue", "abcdef", "--set", "sampling.min_tokens=99999999"], "min_tokens"),
            (["list", "--older-than", "1y"], "no duration"),
            (["list", "--older-than", "999999999w"], "too long"),
            (["list", "--metadata", "tenant"], "NAME=VALUE"),
        ],
    )
    def test_what_makes_no_sense(self, arguments: list[str], said: str) -> None:
        result = CliRunner().invoke(main, ["dlq", *arguments])
        assert result.exit_code == 2
        assert said in result.output

    def test_no_broker(self) -> None:
        result = CliRunner().invoke(
            main, ["dlq", "list", "--amqp-url", "amqp://u:secret@127.0.0.1:1/"]
        )
        assert result.exit_code == 3
        assert "secret" not in result.output
