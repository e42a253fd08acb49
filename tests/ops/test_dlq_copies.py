"""`sluice dlq` on letters that lie there more than once or begin alike, and where its output has no
room: a program, a real broker."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from aio_pika.abc import AbstractRobustConnection
from msgspec import structs
from sluicegate.ops.dlq_queue import looking
from sluicegate.producer.connection import close, connect
from sluicegate.schemas import GenerationJob, Names, decode
from sluicegate.worker.config import Config

from .dlq_letters import (
    LIMIT_S,
    bury,
    drained,
    left,
    numbered,
    on_the_way,
    ready,
    rejected,
    written_again,
)
from .test_dlq_command import PROGRAM, Dlq

pytestmark = pytest.mark.broker


@pytest.fixture
def dlq(broker_url: str, namespace: str) -> Dlq:
    return Dlq(broker_url, namespace)


@pytest.fixture
def config(broker_url: str, namespace: str) -> Config:
    return Config(amqp_url=broker_url, namespace=namespace)


@pytest_asyncio.fixture
async def connection(broker_url: str) -> AsyncGenerator[AbstractRobustConnection]:
    made = await connect(broker_url, timeout_s=LIMIT_S, name="dlq tests")
    yield made
    await close(made)


class TestWrittenAgain:
    @pytest.mark.parametrize("asked", ["the-letter-of-order-1", "the-letter", "order-1", "--all"])
    async def test_looked_at_and_sent_back_once(
        self,
        dlq: Dlq,
        connection: AbstractRobustConnection,
        config: Config,
        namespace: str,
        asked: str,
    ) -> None:
        names = Names(namespace)
        await bury(connection, names, written_again("order-1", 3))
        if asked != "--all":
            shown = await dlq("show", asked, "--json")
            assert json.loads(shown.out)["message"]["job"]["metadata"] == {"time": 3}
            assert json.loads(shown.out)["copies"] == 3
            assert "copies    3, of which this is the newest" in (await dlq("show", asked)).out
        else:
            (line,) = (await dlq("list", "--json")).lines
            assert (line["id"], line["copies"]) == ("the-letter-of-order-1", 3)
            listed = await dlq("list")
            assert len(listed.out.splitlines()) == 2
            assert listed.err == "1 of 1 dead letters, and 2 more copies of them shown\n"
            assert json.loads((await dlq("stats", "--json")).out)["total"] == 1
            exported = (await dlq("export")).lines
            assert [each["id"] for each in exported] == ["order-1:1", "order-1:2"]
        done = await dlq("requeue", asked, "--yes")
        copies = " (and 2 more copies of the same letters)"
        assert (done.code, done.out.splitlines()) == (
            0,
            [
                f"1 dead letter to send back: 1 to jobs.interactive{copies}",
                "1 sent back",
            ],
        )
        (body,) = await drained(connection, on_the_way(names), 1)
        assert decode(body, GenerationJob).metadata == {"time": 3}
        assert await left(config) == []

    async def test_thrown_away_at_once(
        self, dlq: Dlq, connection: AbstractRobustConnection, config: Config, namespace: str
    ) -> None:
        await bury(connection, Names(namespace), [*written_again("order-1", 2), rejected("b")])
        done = await dlq("purge", "the-letter-of-order-1", "--yes")
        assert (done.code, done.out.splitlines()[-1]) == (0, "1 thrown away")
        assert await left(config) == ["b"]

    async def test_letters_of_one_attempt(
        self, dlq: Dlq, connection: AbstractRobustConnection, config: Config, namespace: str
    ) -> None:
        names = Names(namespace)
        await bury(connection, names, [rejected("order-1"), rejected("order-1"), rejected("b")])
        done = await dlq("requeue", "--all", "--yes")
        assert done.code == 0
        assert done.out.startswith(
            "2 dead letters to send back: 2 to jobs.interactive\n1 more tell"
        )
        assert done.out.endswith("2 sent back\n")
        assert len(await drained(connection, on_the_way(names), 2)) == 2
        assert await left(config) == []


async def test_a_whole_id_wins_over_many_that_begin_with_it(
    dlq: Dlq, connection: AbstractRobustConnection, namespace: str
) -> None:
    letters = [rejected(f"order-1{number}") for number in range(20)]
    letters += [structs.replace(rejected(f"j{n}"), id=f"abcdefgh-{n}") for n in range(20)]
    letters += [
        rejected("order-1"),
        structs.replace(rejected("j-last"), id="abcdefgh"),
        rejected("x"),
    ]
    await bury(connection, Names(namespace), letters)
    for asked, job_id in (("order-1", "order-1"), ("abcdefgh", "j-last"), ("x", "x")):
        shown = await dlq("show", asked, "--json")
        assert json.loads(shown.out)["job_id"] == job_id
        replayed = await dlq("replay", asked, "--engine", "scripted", "--attempt", "2")
        assert "text, from character 0 on" in replayed.out
    short = await dlq("show", "j")
    assert (short.code, "too short" in short.err) == (1, True)


class TestOutput:
    async def test_a_slow_reader_holds_up_no_look(
        self, dlq: Dlq, connection: AbstractRobustConnection, config: Config, namespace: str
    ) -> None:
        count = 300
        await bury(connection, Names(namespace), numbered(count))
        process = await asyncio.create_subprocess_exec(
            PROGRAM,
            "dlq",
            "export",
            "--raw",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=dlq.environment,
        )
        assert process.stdout is not None
        async with asyncio.timeout(60):
            first = await process.stdout.read(1)
            async with looking(config) as look:  # raises where somebody else looks still
                assert look.total == count
            assert process.returncode is None, "all of it went into the pipe at once"
            out = first + await process.stdout.read()
            assert await process.wait() == 0
        assert len(out.splitlines()) == count

    @pytest.mark.parametrize("command", ["list", "stats", "export", "show order-1"])
    async def test_a_full_disk(
        self, dlq: Dlq, connection: AbstractRobustConnection, namespace: str, command: str
    ) -> None:
        names = Names(namespace)
        await bury(connection, names, [rejected("order-1")])
        with Path("/dev/full").open("wb") as full:  # noqa: ASYNC230 - a device
            process = await asyncio.create_subprocess_exec(
                PROGRAM,
                "dlq",
                *command.split(),
                stdout=full,
                stderr=asyncio.subprocess.PIPE,
                env=dlq.environment,
            )
            async with asyncio.timeout(60):
                _, error = await process.communicate()
        assert "Error: the output can't be written: No space left on device\n" in error.decode()
        assert "unexpected" not in error.decode()
        assert process.returncode != 0
        assert await ready(connection, names.dead) == 1

    async def test_what_turns_the_direction_of_writing(
        self, dlq: Dlq, connection: AbstractRobustConnection, namespace: str
    ) -> None:
        turned = rejected("order-1", metadata={"tenant": "a\u202eb\u2066"})
        await bury(connection, Names(namespace), [turned])
        for command in ("list --json", "stats --json", "show order-1 --json", "export --raw"):
            out = (await dlq(*command.split())).out
            assert out
            assert not {"\u202e", "\u2066"} & set(out)

    async def test_a_reason_that_there_is_not(
        self, dlq: Dlq, connection: AbstractRobustConnection, namespace: str
    ) -> None:
        await bury(connection, Names(namespace), [rejected("order-1")])
        listed = await dlq("list", "--reason", "check_rejected")
        assert listed.code == 0
        assert "did you mean checks_rejected?" in listed.err
        assert "mean" not in (await dlq("list", "--reason", "check?_rejected")).err
