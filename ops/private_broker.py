"""A RabbitMQ node of our own: for the demo, the tests, and trying things out.

It never touches the system's node: own name, own ports on the loopback interface, own port mapper,
own temporary folder for data, logs, cookie and configuration. It runs as the current user, root
included, and nothing of it outlives the process that started it (see `broker_guard`).
"""

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import aio_pika
from aio_pika.exceptions import AMQPError

from . import broker_guard
from .broker_node import BrokerFailed, BrokerNode
from .broker_program import BrokerNotInstalled, require_programs

__all__ = ["BrokerFailed", "BrokerNotInstalled", "PrivateBroker", "broker_or_private"]

PORT_TRIES: Final = 3
POLL_S: Final = 0.05
STOP_GRACE_S: Final = 8.0
END_LIMIT_S: Final = STOP_GRACE_S + broker_guard.REAP_LIMIT_S + 1
REGISTER_LIMIT_S: Final = 3.0
CONTROL_LIMIT_S: Final = 60.0
PORT_TAKEN: Final = re.compile(r"eaddrinuse|already in use", re.IGNORECASE)


class PrivateBroker:
    """One private node. `async with PrivateBroker() as broker:` starts and stops it.

    `config` is added to the node's rabbitmq.conf (`consumer_timeout = 5000`), `plugins` are enabled
    from the start. Its methods are not meant to be called from several tasks at once.
    """

    def __init__(
        self,
        *,
        config: str = "",
        plugins: Sequence[str] = (),
        start_timeout_s: float = 180.0,
    ) -> None:
        self._config = config
        self._plugins = tuple(plugins)
        self._start_timeout_s = start_timeout_s
        self._node: BrokerNode | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        where = f"127.0.0.1:{self._node.amqp_port}" if self._node else "no node"
        return f"<PrivateBroker {where} {'running' if self.running else 'stopped'}>"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def running(self) -> bool:
        return self._guard is not None and self._guard.poll() is None

    @property
    def url(self) -> str:
        """Where to connect. Stays the same from the first start to `stop`."""
        return self._started_node().url

    @property
    def management_url(self) -> str:
        """The management API, where the plugin `rabbitmq_management` was asked for."""
        if "rabbitmq_management" not in self._plugins:
            raise ValueError("this broker was not given the plugin rabbitmq_management")
        return f"http://127.0.0.1:{self._started_node().management_port}/"

    @property
    def folder(self) -> Path:
        """Everything the node writes. Removed by `stop`."""
        return self._started_node().folder

    def log_tail(self, lines: int = 30) -> str:
        """The last lines the node wrote; empty before the first start."""
        return self._node.log_tail(lines) if self._node else ""

    async def start(self) -> None:
        """Start a fresh node, or the killed one on its old data, and wait until it takes
        connections.

        Raises `BrokerNotInstalled` or `BrokerFailed`, and leaves nothing running then.
        """
        if self.running:
            return
        server, epmd = require_programs()
        if self._node is not None:
            await self._run(self._node, server, epmd)
            return
        for attempt in range(1, PORT_TRIES + 1):
            node = BrokerNode.prepare(self._config, self._plugins)
            try:
                await self._run(node, server, epmd)
            except BaseException as error:
                shutil.rmtree(node.folder, ignore_errors=True)
                # Between choosing a free port and using it someone else may have taken it.
                port_lost = isinstance(error, BrokerFailed) and PORT_TAKEN.search(str(error))
                if not port_lost or attempt == PORT_TRIES:
                    raise
            else:
                self._node = node
                return

    async def stop(self) -> None:
        """End the node in good order and remove its folder; harmless when repeated."""
        node, self._node = self._node, None
        await self._end(broker_guard.STOP)
        if node is not None and node.folder.exists():  # there was no guard left to do it
            await asyncio.to_thread(shutil.rmtree, node.folder, ignore_errors=True)

    async def kill(self) -> None:
        """End the node with SIGKILL, as a crash would. `start` brings it back with its data.

        Waits first, 3 s at most, until the quorum queues declared a moment ago are registered on
        disk. RabbitMQ does that about a second after it has confirmed them (seen with 3.10), and a
        queue missing there never answers again.
        """
        if self.running and self._node is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REGISTER_LIMIT_S):
                    while not await asyncio.to_thread(self._node.queues_registered):  # noqa: ASYNC110  files send no event
                        await asyncio.sleep(POLL_S)
        await self._end(broker_guard.KILL)

    async def restart(self) -> None:
        """End the node in good order and start it again on the same data and ports."""
        await self._end(broker_guard.PAUSE)
        await self.start()

    async def control(self, *arguments: str) -> str:
        """What `rabbitmqctl` with these arguments says of this node. Raises `BrokerFailed`."""
        node = self._started_node()
        server, _ = require_programs()
        process = await asyncio.create_subprocess_exec(
            str(server.with_name("rabbitmqctl")),
            *("--quiet", "--node", node.name, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=node.environment(os.environ),
        )
        try:
            async with asyncio.timeout(CONTROL_LIMIT_S):
                said, trouble = await process.communicate()
        except BaseException:
            if process.returncode is None:
                process.kill()
                await process.wait()
            raise
        if process.returncode:
            why = trouble.decode(errors="replace").strip()
            raise BrokerFailed(f"the private broker refused {' '.join(arguments)}: {why}")
        return said.decode()

    async def _run(self, node: BrokerNode, server: Path, epmd: Path) -> None:
        guard = self._guard = spawn_guard(node, server, epmd)
        try:
            async with asyncio.timeout(self._start_timeout_s):
                await _wait_ready(node, guard)
        except TimeoutError as error:
            failure = node.failure(f"did not answer within {self._start_timeout_s:g} s")
            await self._end(broker_guard.KILL)
            raise failure from error
        except BaseException:
            await self._end(broker_guard.KILL)
            raise

    async def _end(self, word: bytes) -> None:
        guard, self._guard = self._guard, None
        if guard is None:
            return
        pipe = guard.stdin
        assert pipe is not None  # noqa: S101  opened by spawn_guard
        try:
            with contextlib.suppress(BrokenPipeError):  # it has ended by itself
                pipe.write(word)
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(guard.wait, END_LIMIT_S)
        finally:
            # Where the wait was cut short, closing the pipe makes the guard kill everything within
            # milliseconds; where even the guard is stuck, its own death does it.
            pipe.close()
            try:
                guard.wait(broker_guard.REAP_LIMIT_S + 1)
            except subprocess.TimeoutExpired:
                guard.kill()
                guard.wait()

    def _started_node(self) -> BrokerNode:
        if self._node is None:
            raise BrokerFailed("the private broker has not been started")
        return self._node


@contextlib.asynccontextmanager
async def broker_or_private(url: str | None) -> AsyncGenerator[str]:
    """The given broker's URL (say, from SLUICE_AMQP_URL), or that of a private one for as long as
    the context lasts."""
    if url:
        yield url
        return
    async with PrivateBroker() as broker:
        yield broker.url


def spawn_guard(node: BrokerNode, server: Path, epmd: Path) -> "subprocess.Popen[bytes]":
    """Start the guard, which starts the node. Its standard input is ours to hold and to end it."""
    task = {
        "epmd": [str(epmd), "-address", "127.0.0.1", "-port", str(node.mapper_port)],
        "node": [str(server)],
        "folder": str(node.folder),
        "grace_s": STOP_GRACE_S,
    }
    with node.console_log.open("wb") as console:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(broker_guard.__file__)), json.dumps(task)],
            stdin=subprocess.PIPE,
            stdout=console,
            stderr=console,
            cwd=node.folder,
            env=node.environment(os.environ),
            start_new_session=True,
            bufsize=0,
        )


async def _wait_ready(node: BrokerNode, guard: "subprocess.Popen[bytes]") -> None:
    while not await _answers(node):
        if guard.poll() is not None:
            raise node.failure("ended while starting")
        await asyncio.sleep(POLL_S)


async def _answers(node: BrokerNode) -> bool:
    """Whether the node takes AMQP connections."""
    try:
        # aiormq logs an error for each refused connection: knock first. No `wait_for` here: on
        # Python 3.11 it loses a cancellation that arrives together with the refusal.
        async with asyncio.timeout(1):
            _, writer = await asyncio.open_connection("127.0.0.1", node.amqp_port)
        writer.close()
        connection = await aio_pika.connect(node.url, timeout=5)
    except (OSError, TimeoutError, AMQPError):
        return False
    await connection.close()
    return True
