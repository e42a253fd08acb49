"""`sluice agent approvals` as a user runs it, on a real broker."""

import asyncio
import getpass
import json
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from aio_pika.abc import AbstractRobustConnection
from click.testing import CliRunner
from sluicegate.ops import cli, cmd_agent_approvals
from sluicegate.schemas import Names
from sluicegate.worker.agent.approval_queue import in_hand
from sluicegate.worker.agent.approvals import WaitingCall

from ..worker.agent.waiting_jobs import (
    LIMIT_S,
    call,
    context,
    contexts,
    everywhere,
    many,
    now,
    publish,
    states,
)

ESCAPE = "\x1b[2J\u202e\x07\n"


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Approvals:
    """Runs the command on one namespace."""

    def __init__(self, url: str, namespace: str) -> None:
        self.environment = {"SLUICE_AMQP_URL": url, "SLUICE_NAMESPACE": namespace}

    async def __call__(self, *arguments: str) -> Ended:
        return await asyncio.to_thread(self.run, *arguments)

    def run(self, *arguments: str) -> Ended:
        runner = CliRunner(env=self.environment)
        ended = runner.invoke(cli.main, ["agent_approvals", *arguments])
        return Ended(ended.exit_code, ended.stdout, ended.stderr)


@pytest.fixture(autouse=True)
def _reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group by itself, below the program's own mapping of errors to exit codes."""
    monkeypatch.setitem(cli.COMMANDS, "agent_approvals", "")


@pytest.fixture
def approvals(broker_url: str, namespace: str) -> Approvals:
    return Approvals(broker_url, namespace)


@pytest.mark.broker
class TestListing:
    @pytest.mark.parametrize("command", [[], ["list"]])
    async def test_a_table(
        self,
        connection: AbstractRobustConnection,
        names: Names,
        approvals: Approvals,
        command: list[str],
    ) -> None:
        calls = [call("order-7:2:a", 7200.5), call("order-7:2:b", -1, name="mail")]
        await publish(connection, names.approvals, [context("order-7", *calls), context("x-2")])
        ended = await approvals(*command)
        assert (ended.code, ended.err) == (0, "3 calls of 2 jobs waiting\n")
        rows = [line.split() for line in ended.out.splitlines()]
        assert [row[:-1] for row in rows[1:]] == [
            ["order-7", "2", "a", "pay", "1m", "2h"],
            ["order-7", "2", "b", "mail", "1m", "over"],
            ["x-2", "2", "a", "pay", "1m", "10m"],
        ]
        assert rows[1][-1] == '{"euros":5}'
        waits = await contexts(connection, names.approvals)
        assert [each.id for each in waits] == ["order-7", "x-2"]

    async def test_for_a_program(
        self, connection: AbstractRobustConnection, names: Names, approvals: Approvals
    ) -> None:
        long = {"note": "x" * 5000}
        given = context("order-7", call("order-7:2:a", 100, arguments=long))
        await publish(connection, names.approvals, [given, b"{"])
        ended = await approvals("--json")
        (line,) = ended.lines
        assert 60 < line.pop("expires_in_s") <= 100
        approval = given.execution.rounds[-1].calls[0].approval
        assert approval is not None
        assert line.pop("expires_at")[:19] == approval.expires_at.isoformat()[:19]
        assert given.orchestration.waiting_since is not None
        since = given.orchestration.waiting_since.isoformat()
        assert line.pop("waiting_since")[:19] == since[:19]
        assert line == {
            "job_id": "order-7",
            "revision": 7,
            "round": 2,
            "call_id": "a",
            "effect_id": "order-7:2:a",
            "tool": "pay",
            "arguments": long,
            "task": "Pay the bills.",
        }
        assert "1 of the messages there can't be read" in ended.err

    async def test_what_a_model_said_drives_no_terminal(
        self, connection: AbstractRobustConnection, names: Names, approvals: Approvals
    ) -> None:
        bad = call("j:2:0", id=f"id{ESCAPE}", name=f"n{ESCAPE}", arguments={ESCAPE: ESCAPE * 90})
        await publish(connection, names.approvals, [context("j", bad)])
        table, data = await approvals(), await approvals("list", "--json")
        assert json.loads(data.out)["arguments"] == {ESCAPE: ESCAPE * 90}
        # By a name that can't be typed nobody could decide: its effect id stands there.
        assert table.out.splitlines()[1].split()[2] == "j:2:0"
        assert len(table.out.splitlines()) == 2
        assert len(table.out.splitlines()[1]) < 200
        done = await approvals("deny", "j", "j:2:0", "--why", f"no{ESCAPE}", "--by", f"k{ESCAPE}")
        again = await approvals("deny", f"j{ESCAPE}")
        assert (done.code, again.code) == (0, 1)
        for said in (table, data, done, again):
            for character in "\x1b\u202e\x07":
                assert character not in said.out + said.err
        (after,) = await contexts(connection, names.agents)
        approval = after.execution.rounds[-1].calls[0].approval
        assert approval is not None
        assert "\x1b" not in approval.why + approval.by


@pytest.mark.broker
class TestDeciding:
    async def test_yes(
        self, connection: AbstractRobustConnection, names: Names, approvals: Approvals
    ) -> None:
        await publish(connection, names.approvals, many(2))
        done = await approvals("approve", "job-0001")
        assert done == (0, "1 call of job job-0001 approved: pay (a)\nThe job goes on.\n", "")
        (after,) = await contexts(connection, names.agents)
        approval = after.execution.rounds[-1].calls[0].approval
        assert approval is not None
        assert (approval.state, approval.by) == ("approved", getpass.getuser())
        again = await approvals("approve", "job-0001")
        assert (again.code, again.out) == (1, "")
        assert "job-0001 waits for nobody; the jobs that do: job-0000" in again.err

    async def test_no_to_one_of_several(
        self, connection: AbstractRobustConnection, names: Names, approvals: Approvals
    ) -> None:
        calls = [call(f"j:2:{each}") for each in "abc"]
        await publish(connection, names.approvals, [context("j", *calls)])
        said = ("--why", "not on a Friday", "--by", "Kim")
        done = await approvals("deny", "j", "a", "j:2:c", *said)
        assert done.out.splitlines() == [
            "2 calls of job j denied: pay (a), pay (c)",
            "1 call waiting yet, and the job with it: pay (b)",
        ]
        wrong = await approvals("approve", "j", "b", "zz")
        assert (wrong.code, "'zz' is no call that waits of job j" in wrong.err) == (1, True)
        assert (await approvals("approve", "j", "b")).code == 0
        waits, goes = await everywhere(connection, names)
        assert (waits, [states(each) for each in goes]) == ([], [["denied", "approved", "denied"]])
        approval = goes[0].execution.rounds[-1].calls[0].approval
        assert approval is not None
        assert (approval.why, approval.by) == ("not on a Friday", "Kim")

    async def test_too_late(
        self, connection: AbstractRobustConnection, names: Names, approvals: Approvals
    ) -> None:
        given = context("j", call("j:2:a", -1), call("j:2:b"))
        await publish(connection, names.approvals, [given])
        late = await approvals("approve", "j", "a")
        assert (late.code, late.out) == (1, "")
        assert "timed out at 20" in late.err
        done = await approvals("approve", "j")
        assert done.out.splitlines()[1] == "1 call had timed out, which means no: pay (a)"

    async def test_somebody_else_looks(
        self, names: Names, approvals: Approvals, broker_url: str
    ) -> None:
        async with in_hand(broker_url, names, timeout_s=LIMIT_S):
            ended = await approvals()
        assert (ended.code, "somebody else is looking" in ended.err) == (1, True)


class TestTrouble:
    @pytest.mark.broker
    @pytest.mark.parametrize("command", [[], ["approve", "j"], ["deny", "j"]])
    async def test_no_queue(self, broker_url: str, bare_namespace: str, command: list[str]) -> None:
        ended = await Approvals(broker_url, bare_namespace)(*command)
        assert (ended.code, ended.out) == (3, "")
        assert "sluice topology apply" in ended.err

    def test_no_broker(self) -> None:
        ended = Approvals("amqp://me:secret@127.0.0.1:1/", "x").run("--connect-timeout-s", "2")
        assert (ended.code, "secret" in ended.err) == (3, False)

    @pytest.mark.parametrize("command", [["approve"], ["deny"], ["aprove", "j"], ["--jsonn"]])
    def test_bad_usage(self, command: list[str]) -> None:
        assert Approvals("amqp://127.0.0.1:1/", "x").run(*command).code == 2

    @pytest.mark.parametrize("command", [[], ["list"], ["approve"], ["deny"]])
    def test_help(self, command: list[str]) -> None:
        ended = Approvals("amqp://127.0.0.1:1/", "x").run(*command, "--help")
        assert (ended.code, "Examples:" in ended.out) == (0, True)

    def test_a_user_without_a_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def nobody() -> str:
            raise KeyError("getpwuid(): uid not found: 4711")

        monkeypatch.setattr(getpass, "getuser", nobody)
        assert cmd_agent_approvals.login() == ""


def test_what_to_type() -> None:
    def waits(*ids: str) -> list[WaitingCall]:
        return [
            WaitingCall(1, call(f"j:1:{number}", id=each), now() + timedelta(hours=1))
            for number, each in enumerate(ids)
        ]

    several = waits("call_1", "twice", "twice", "-x", "a b", "$(x)", "x" * 100, "ü")
    typed = [cmd_agent_approvals.typed(each, several) for each in several]
    assert typed == ["call_1", *(f"j:1:{number}" for number in range(1, 8))]
