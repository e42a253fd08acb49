"""A RabbitMQ node of our own: for the demo, the tests, and trying things out.

It never touches the system's node: own name, own ports on the loopback interface, own port mapper,
own temporary folder for data, logs, cookie and configuration. It runs as the current user, root
included, and nothing of it outlives the process that started it (see `broker_guard`).
"""

import asyncio
import contextlib
import json
import os
import random
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import aio_pika
from aio_pika.exceptions import AMQPError

from ..schemas import SluiceError
from . import broker_guard
from .broker_program import BrokerNotInstalled, require_programs

__all__ = ["BrokerFailed", "BrokerNotInstalled", "PrivateBroker", "broker_or_private"]

# Below every usual range of ephemeral ports. A client that keeps reconnecting to a loopback port
# inside that range while the broker is down can end up connected to itself and hold the port.
PORT_RANGE: Final = range(20_000, 32_000)
PORT_TRIES: Final = 3
POLL_S: Final = 0.05
STOP_GRACE_S: Final = 8.0
END_LIMIT_S: Final = STOP_GRACE_S + broker_guard.REAP_LIMIT_S + 1
REGISTER_LIMIT_S: Final = 3.0
LOG_TAIL_BYTES: Final = 65_536
PLUGIN_NAME: Final = re.compile(r"rabbitmq_[a-z0-9_]+")
PORT_TAKEN: Final = re.compile(r"eaddrinuse|address already in use|already in use", re.IGNORECASE)


class BrokerFailed(SluiceError):
    """The private broker did not come up; the message ends with the last lines of its log."""


@dataclass(frozen=True)
class _Node:
    """What stays the same when a node is killed and started again."""

    folder: Path
    name: str
    amqp_port: int
    distribution_port: int
    mapper_port: int
    management_port: int

    @property
    def logs(self) -> tuple[Path, Path]:
        return self.folder / "console.log", self.folder / "log" / "node.log"


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
        start_timeout_s: float = 90.0,
    ) -> None:
        for plugin in plugins:
            if not PLUGIN_NAME.fullmatch(plugin):
                raise ValueError(f"{plugin!r} is not the name of a RabbitMQ plugin")
        self._config = config
        self._plugins = tuple(plugins)
        self._start_timeout_s = start_timeout_s
        self._node: _Node | None = None
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
        return _url(self._started_node())

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
        return _log_tail(self._node, lines) if self._node else ""

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
            node = await asyncio.to_thread(_prepare, self._config, self._plugins)
            try:
                await self._run(node, server, epmd)
            except BaseException as error:
                await asyncio.to_thread(shutil.rmtree, node.folder, ignore_errors=True)
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
        if node is not None and node.folder.exists():  # the guard was gone already
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
                    while not await asyncio.to_thread(_all_registered, self._node):
                        await asyncio.sleep(POLL_S)
        await self._end(broker_guard.KILL)

    async def restart(self) -> None:
        """End the node in good order and start it again on the same data and ports."""
        await self._end(broker_guard.PAUSE)
        await self.start()

    async def _run(self, node: _Node, server: Path, epmd: Path) -> None:
        guard = self._guard = _spawn(node, server, epmd)
        try:
            async with asyncio.timeout(self._start_timeout_s):
                await _wait_ready(node, guard)
        except TimeoutError as error:
            message = _failure(node, f"did not answer within {self._start_timeout_s:g} s")
            await self._end(broker_guard.KILL)
            raise BrokerFailed(message) from error
        except BaseException:
            await self._end(broker_guard.KILL)
            raise

    async def _end(self, word: bytes) -> None:
        guard, self._guard = self._guard, None
        if guard is None:
            return
        pipe = guard.stdin
        assert pipe is not None  # noqa: S101  opened by _spawn
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

    def _started_node(self) -> _Node:
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


def _url(node: _Node) -> str:
    return f"amqp://guest:guest@127.0.0.1:{node.amqp_port}/"


async def _wait_ready(node: _Node, guard: "subprocess.Popen[bytes]") -> None:
    while not await _answers(node):
        if guard.poll() is not None:
            raise BrokerFailed(_failure(node, "ended while starting"))
        await asyncio.sleep(POLL_S)


async def _answers(node: _Node) -> bool:
    """Whether the node takes AMQP connections."""
    try:
        # aiormq logs an error for each refused connection: knock first.
        async with asyncio.timeout(1):
            _, writer = await asyncio.open_connection("127.0.0.1", node.amqp_port)
        writer.close()
        connection = await aio_pika.connect(_url(node), timeout=5)
    except (OSError, TimeoutError, AMQPError):
        return False
    await connection.close()
    return True


def _prepare(config: str, plugins: Sequence[str]) -> _Node:
    folder = Path(tempfile.mkdtemp(prefix="sluice-broker-"))
    node = _Node(folder, f"sluice-{secrets.token_hex(4)}@localhost", *_free_ports(4))
    for name in ("conf.d", "data", "log"):
        (folder / name).mkdir()
    cookie = folder / ".erlang.cookie"
    cookie.write_text(secrets.token_hex(20))
    cookie.chmod(0o400)  # Erlang refuses a cookie that others can read
    (folder / "enabled_plugins").write_text(f"[{','.join(plugins)}].\n")
    (folder / "rabbitmq.conf").write_text(_configuration(node, plugins, config))
    return node


def _configuration(node: _Node, plugins: Sequence[str], extra: str) -> str:
    lines = [f"listeners.tcp.1 = 127.0.0.1:{node.amqp_port}"]
    if "rabbitmq_management" in plugins:
        lines += [
            "management.tcp.ip = 127.0.0.1",
            f"management.tcp.port = {node.management_port}",
        ]
    return "\n".join([*lines, extra, ""])


def _environment(node: _Node, inherited: Mapping[str, str]) -> dict[str, str]:
    """The node's environment: ours, less whatever could lead it to the system's configuration."""
    env = {
        name: value
        for name, value in inherited.items()
        if not name.startswith(("RABBITMQ_", "ERL_", "NOTIFY_SOCKET"))
    }
    folder = str(node.folder)
    return env | {
        "HOME": folder,  # the cookie
        "ERL_CRASH_DUMP_SECONDS": "0",
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(node.mapper_port),
        "RABBITMQ_ADVANCED_CONFIG_FILE": f"{folder}/advanced.config",
        "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
        "RABBITMQ_CONFIG_FILES": f"{folder}/conf.d",
        "RABBITMQ_CONF_ENV_FILE": f"{folder}/rabbitmq-env.conf",
        "RABBITMQ_DIST_PORT": str(node.distribution_port),
        "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/enabled_plugins",
        "RABBITMQ_FEATURE_FLAGS_FILE": f"{folder}/feature_flags",
        "RABBITMQ_GENERATED_CONFIG_DIR": f"{folder}/config",
        "RABBITMQ_LOGS": str(node.logs[1]),
        "RABBITMQ_LOG_BASE": f"{folder}/log",
        "RABBITMQ_MNESIA_BASE": f"{folder}/data",
        "RABBITMQ_NODENAME": node.name,
        "RABBITMQ_PID_FILE": f"{folder}/pid",
        "RABBITMQ_PLUGINS_EXPAND_DIR": f"{folder}/plugins",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        # Makes the start script become the node rather than wait for it as a shell: one process
        # less, and SIGTERM reaches the node itself.
        "RUNNING_UNDER_SYSTEMD": "true",
    }


def _spawn(node: _Node, server: Path, epmd: Path) -> "subprocess.Popen[bytes]":
    task = {
        "epmd": [str(epmd), "-address", "127.0.0.1", "-port", str(node.mapper_port)],
        "node": [str(server)],
        "folder": str(node.folder),
        "grace_s": STOP_GRACE_S,
    }
    with node.logs[0].open("wb") as console:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(broker_guard.__file__)), json.dumps(task)],
            stdin=subprocess.PIPE,
            stdout=console,
            stderr=console,
            cwd=node.folder,
            env=_environment(node, os.environ),
            start_new_session=True,
            bufsize=0,
        )


def _free_ports(count: int) -> list[int]:
    """Distinct ports of PORT_RANGE that nobody listens on now."""
    free: list[int] = []
    candidates = list(PORT_RANGE)
    random.SystemRandom().shuffle(candidates)
    for port in candidates:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # As the broker does: a port with old connections in TIME_WAIT is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        free.append(port)
        if len(free) == count:
            return free
    raise BrokerFailed(f"no {count} free ports between {PORT_RANGE.start} and {PORT_RANGE.stop}")


def _failure(node: _Node, what: str) -> str:
    console, _ = node.logs
    # The reason stands among the first errors; pages of crash reports follow it.
    errors = [line for line in _read_end(console) if "[error]" in line][:12]
    lines = [*errors, *_log_tail(node, 12).splitlines()]
    return "\n".join([f"The private broker {what}. From its log:", *dict.fromkeys(lines)])


def _log_tail(node: _Node, lines: int) -> str:
    return "\n".join(line for log in node.logs for line in _read_end(log)[-lines:])


def _read_end(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - LOG_TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []


def _all_registered(node: _Node) -> bool:
    """Whether the node's register of quorum queues on disk names each queue that it has."""
    for register in node.folder.glob("data/*/quorum/*/names.dets"):
        names = register.read_bytes()
        queues = [entry.name for entry in register.parent.iterdir() if entry.is_dir()]
        if any(queue.encode() not in names for queue in queues):
            return False
    return True
