"""`sluice top` as a user runs it: on a terminal, at a real broker, with a worker that does jobs."""

import asyncio
import fcntl
import json
import os
import pty
import re
import signal
import struct
import sys
import termios
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aio_pika.abc import AbstractRobustConnection
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.ops.service_process import ServiceProcess
from sluicegate.producer import GenerationJob, Producer
from sluicegate.producer.connection import close_channel, open_channel
from sluicegate.schemas import Names

from .dlq_letters import LIMIT_S, bury, rejected

pytestmark = pytest.mark.broker

PROGRAM = Path(sys.executable).parent / "sluice"
ENTER, LEAVE, HOME = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[H"
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def environment(url: str, namespace: str, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE")}
    return {**kept, "SLUICE_AMQP_URL": url, "SLUICE_NAMESPACE": namespace, "TERM": "xterm", **more}


class Terminal:
    """A terminal of 80 by 24 with `sluice top` on it."""

    def __init__(self, master: int, process: asyncio.subprocess.Process) -> None:
        self.master = master
        self.process = process
        self.out = bytearray()

    def read(self) -> None:
        try:
            self.out += os.read(self.master, 65_536)
        except BlockingIOError:
            return
        except OSError:  # nobody is at the other end any more
            asyncio.get_running_loop().remove_reader(self.master)

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)

    @property
    def screen(self) -> list[str]:
        """What stands there, after the last painting that is whole."""
        whole = bytes(self.out).rpartition(b"\x1b[J")[0]
        # The terminal itself adds a return to each new line.
        return re.split(r"\r+\n", ESCAPE.sub("", whole.rpartition(HOME)[2].decode()))

    async def shows(self, *parts: str) -> list[str]:
        """The screen, once each of the patterns is on it."""
        try:
            async with asyncio.timeout(LIMIT_S):
                while True:
                    screen = self.screen
                    if all(re.search(each, "\n".join(screen), re.MULTILINE) for each in parts):
                        return screen
                    assert self.process.returncode is None, bytes(self.out)
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pytest.fail(f"none of {parts} in:\n" + "\n".join(self.screen))

    async def ended(self) -> int:
        async with asyncio.timeout(LIMIT_S):
            return await self.process.wait()


@asynccontextmanager
async def terminal(env: dict[str, str], *arguments: str) -> AsyncGenerator[Terminal]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.set_blocking(master, False)
    before = termios.tcgetattr(slave)
    process = await asyncio.create_subprocess_exec(
        PROGRAM, "top", *arguments, stdin=slave, stdout=slave, stderr=slave, env=env
    )
    made = Terminal(master, process)
    loop = asyncio.get_running_loop()
    loop.add_reader(master, made.read)
    try:
        yield made
        # As it was before: keys are shown, lines are edited, Ctrl-C is a signal.
        assert termios.tcgetattr(slave) == before
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        loop.remove_reader(master)
        os.close(master)
        os.close(slave)


async def run(env: dict[str, str], *arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        PROGRAM,
        "top",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=env,
    )
    async with asyncio.timeout(LIMIT_S):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_it_shows_what_happens(
    broker_url: str, namespace: str, connection: AbstractRobustConnection, tmp_path: Path
) -> None:
    env = environment(broker_url, namespace)
    worker = ServiceProcess(
        tmp_path,
        {
            "amqp_url": broker_url,
            "namespace": namespace,
            "engine": "scripted",
            "worker_id": "gpu-eins",
            "lanes": "interactive=2,batch=2",
        },
    )
    await bury(connection, Names(namespace), [rejected("order-1")])
    async with (
        Producer(broker_url, namespace=namespace) as producer,
        terminal(env, "--every", "0.3") as top,
    ):
        handles = [
            await producer.publish(
                GenerationJob(id=f"job-{at}", prompt="Rivers carry rain and melted snow.")
            )
            for at in range(5)
        ]
        handles.append(
            await producer.publish(GenerationJob(id="loop", prompt="no " * 900, max_attempts=1))
        )
        await top.shows(
            r"^! queue jobs\.interactive: 6 waiting, nobody takes them; paused\? `sluice pause`$",
            r"^jobs\.interactive +6 +- +0 ",
            r"none heard of yet",
            r"^DEAD LETTERS 1$",
        )
        async with worker:
            await worker.ready(LIMIT_S)
            for handle in handles:
                await handle.result(timeout=LIMIT_S)
            screen = await top.shows(
                r"^Jobs, last \d+ s: completed 5 · rejected 0 · failed 1 ",
                r"^jobs\.interactive +0 +(<=)?0 +1 ",
                r"^gpu-eins +worker +ready +\d+s +0/4 ",
                r"^GATES [1-9]\d* trips",
                r"^text: loop \d+$",
                r"^DEAD LETTERS 2$",
                r"^ended badly since this began: gate_tripped 1 \(\+1\)$",
            )
            assert len(screen) <= 24
            assert all(len(line) <= 80 for line in screen)
            assert screen[-1] == "q quits"
            top.resize(60, 12)
            async with asyncio.timeout(LIMIT_S):
                while len(top.screen) > 12 or max(map(len, top.screen)) > 60:
                    await asyncio.sleep(0.05)
        await top.shows(r"gpu-eins +worker +stop")
        assert top.out.count(ENTER) == 1
        assert LEAVE not in top.out
        top.type(b"q")
        assert await top.ended() == 0
        top.read()
        assert top.out.endswith(b"\x1b[?25h" + LEAVE)


async def test_every_way_out_leaves_the_terminal_as_it_was(broker_url: str, namespace: str) -> None:
    ways: tuple[Callable[[Terminal], None], ...] = (
        lambda top: top.type(b"\x04"),
        lambda top: top.process.send_signal(signal.SIGINT),
        lambda top: top.process.send_signal(signal.SIGTERM),
    )
    for way in ways:
        async with terminal(environment(broker_url, namespace), "--every", "60") as top:
            await top.shows("SERVICE")
            way(top)
            assert await top.ended() == 0
            top.read()
            assert top.out.endswith(LEAVE)


async def test_a_terminal_that_only_scrolls_gets_lines(broker_url: str, namespace: str) -> None:
    env = environment(broker_url, namespace, TERM="dumb")
    async with terminal(env, "--every", "0.2", "--listen", "0") as top:
        async with asyncio.timeout(LIMIT_S):
            while top.out.count(b"sluice top") < 3:
                await asyncio.sleep(0.05)
        assert b"\x1b" not in top.out
        top.process.send_signal(signal.SIGINT)
        assert await top.ended() == 130


async def test_text_and_json_for_other_programs(
    broker_url: str, namespace: str, connection: AbstractRobustConnection
) -> None:
    env = environment(broker_url, namespace)
    channel = await open_channel(connection, timeout_s=LIMIT_S)
    await channel.queue_delete(Names(namespace).checks)
    await close_channel(channel)

    code, text, _ = await run(env, "--listen", "0")  # no terminal: as with --once
    assert code == 0
    assert "\x1b" not in text
    assert re.search(r"^checks +missing", text, re.MULTILINE)
    assert "! queue checks is missing: `sluice topology apply` creates it" in text

    code, lines, _ = await run(env, "--json", "--once", "--listen", "0")
    assert code == 0
    picture = json.loads(lines)
    queues = {each["name"]: each for each in picture["queues"]}
    assert queues["checks"]["ready"] is None
    assert queues["jobs.batch"] == {
        **queues["jobs.batch"],
        "role": "work",
        "ready": 0,
        "consumers": 0,
        "limit": 1_000_000,
    }
    assert "agents.journal" not in queues


async def test_what_stands_in_the_way_is_said(broker_url: str, bare_namespace: str) -> None:
    code, out, err = await run(environment(broker_url, bare_namespace), "--once")
    assert (code, out) == (3, "")
    assert "sluice topology apply" in err
    assert f"exchange '{bare_namespace}.events'" in err
    nowhere = environment("amqp://127.0.0.1:9/", bare_namespace)
    code, _, err = await run(nowhere, "--once", "--connect-timeout-s", "2")
    assert code == 3
    assert "127.0.0.1:9" in err


async def test_a_broker_that_goes_and_comes_back(
    killable_broker: PrivateBroker, killable_namespace: str
) -> None:
    env = environment(killable_broker.url, killable_namespace)
    async with terminal(env, "--every", "0.3") as top:
        await top.shows(r"^dead +0 ", r"^No trouble\.$")
        await killable_broker.kill()
        await top.shows(r"^! the broker: ")
        await killable_broker.start()
        await top.shows(r"(?s)\A(?!.*! the broker: ).*dead +0 ")
        top.type(b"q")
        assert await top.ended() == 0
        # What is logged of it would push the picture out of its place.
        assert b"subscribing again" not in top.out


@pytest.mark.parametrize("said", ["nan", "-1", "inf"])
async def test_how_long_to_listen_is_a_duration(said: str) -> None:
    code, out, err = await run(environment("amqp://127.0.0.1:9/", "none"), "--listen", said)
    assert (code, out) == (2, "")
    assert "--listen" in err
