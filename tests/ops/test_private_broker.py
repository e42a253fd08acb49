"""The private broker, on the real server program."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel
from sluicegate.ops import broker_node, broker_program, private_broker
from sluicegate.ops.broker_node import BrokerNode
from sluicegate.ops.private_broker import (
    BrokerFailed,
    BrokerNotInstalled,
    PrivateBroker,
    broker_or_private,
)

pytestmark = pytest.mark.broker


async def publish(channel: AbstractChannel, queue: str, body: bytes) -> None:
    """A persistent message on a quorum queue, confirmed."""
    await channel.declare_queue(queue, durable=True, arguments={"x-queue-type": "quorum"})
    message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
    await channel.default_exchange.publish(message, queue, timeout=20)


def processes_of(folder: str) -> list[str]:
    """Living processes whose command line or environment names the folder: the whole broker."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if command and folder.encode() in command + environment:
            found.append(command.replace(b"\0", b" ").decode(errors="replace"))
    return found


def exists(path: str | Path) -> bool:
    return Path(path).exists()


async def eventually(condition: Callable[[], bool], within_s: float) -> bool:
    """Poll from outside: other processes' deaths send us no event."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.05)
    return True


async def test_a_confirmed_message_survives_a_kill_and_a_restart() -> None:
    async with PrivateBroker() as broker:
        first_url, folder = broker.url, str(broker.folder)
        connection = await aio_pika.connect(broker.url)
        await publish(await connection.channel(), "kept", b"before the crash")

        closed = asyncio.Event()

        def on_close(_connection: object, _error: object = None) -> None:
            closed.set()

        connection.close_callbacks.add(on_close)
        await broker.kill()
        await asyncio.wait_for(closed.wait(), 10)
        assert not broker.running
        assert not processes_of(folder)
        assert broker.folder.is_dir()

        await broker.start()
        assert broker.url == first_url
        await broker.restart()
        assert broker.url == first_url
        connection = await aio_pika.connect(broker.url)
        async with connection:
            queue = await (await connection.channel()).get_queue("kept")
            message = await queue.get(timeout=20)
            assert message.body == b"before the crash"
            await message.ack()
    assert not processes_of(folder)
    assert not exists(folder)


async def test_two_nodes_live_side_by_side_with_configuration_and_plugins() -> None:
    with_plugin = PrivateBroker(
        config="heartbeat = 7\nloopback_users.guest = true", plugins=["rabbitmq_management"]
    )
    async with with_plugin, broker_or_private(None) as other_url:
        assert with_plugin.url != other_url
        connection = await aio_pika.connect(other_url)
        async with connection:
            await publish(await connection.channel(), "elsewhere", b"x")
        overview = await asyncio.to_thread(
            _get_json, f"{with_plugin.management_url}api/overview", "guest", "guest"
        )
        assert isinstance(overview, dict)
        assert overview["node"] == (await _server_node(with_plugin))
        queues = await asyncio.to_thread(
            _get_json, f"{with_plugin.management_url}api/queues", "guest", "guest"
        )
        assert queues == []
        environment = await asyncio.to_thread(
            (with_plugin.folder / "rabbitmq.conf").read_text, encoding="utf-8"
        )
        assert "heartbeat = 7" in environment


async def _server_node(broker: PrivateBroker) -> str:
    """The node's name as its data folder carries it."""
    (data,) = await asyncio.to_thread(lambda: list((broker.folder / "data").iterdir()))
    return data.name


def _get_json(url: str, user: str, password: str) -> object:
    passwords = urllib.request.HTTPPasswordMgrWithDefaultRealm()
    passwords.add_password(None, url, user, password)
    opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(passwords))
    with opener.open(url, timeout=20) as response:
        return json.loads(response.read())


async def test_nothing_is_left_when_our_process_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "holder.py"
    program.write_text(
        "import asyncio\n"
        "from sluicegate.ops.private_broker import PrivateBroker\n"
        "async def main():\n"
        "    async with PrivateBroker() as broker:\n"
        "        print(broker.folder, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    holder = await asyncio.create_subprocess_exec(
        sys.executable, str(program), stdout=asyncio.subprocess.PIPE
    )
    assert holder.stdout is not None
    folder = (await asyncio.wait_for(holder.stdout.readline(), 120)).decode().strip()
    running = "\n".join(processes_of(folder))
    assert "beam" in running
    assert "epmd" in running

    holder.send_signal(signal.SIGKILL)
    await holder.wait()

    assert await eventually(lambda: not processes_of(folder), within_s=8), processes_of(folder)
    assert await eventually(lambda: not exists(folder), within_s=8)


async def test_a_cancelled_start_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    spawned = asyncio.Event()
    folders: list[Path] = []
    spawn = private_broker.spawn_guard

    def watched(node: BrokerNode, server: Path, epmd: Path) -> "subprocess.Popen[bytes]":
        folders.append(node.folder)
        spawned.set()
        return spawn(node, server, epmd)

    monkeypatch.setattr(private_broker, "spawn_guard", watched)
    broker = PrivateBroker()
    starting = asyncio.create_task(broker.start())
    await asyncio.wait_for(spawned.wait(), 20)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not broker.running
    assert not exists(folders[0])
    assert not processes_of(str(folders[0]))


async def test_a_node_that_cant_start_says_why() -> None:
    broker = PrivateBroker(config="no_such_setting = 1")
    with pytest.raises(BrokerFailed, match="no_such_setting"):
        await broker.start()
    assert not broker.running
    await broker.stop()


async def test_a_port_lost_to_someone_else_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    choose = broker_node.free_ports
    listener = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    taken = listener.sockets[0].getsockname()[1]
    choices = iter([taken])

    def unlucky(count: int) -> list[int]:
        amqp, *others = choose(count)
        return [next(choices, amqp), *others]

    monkeypatch.setattr(broker_node, "free_ports", unlucky)
    async with listener, PrivateBroker() as broker:
        assert f":{taken}/" not in broker.url


async def test_stop_is_idempotent_and_works_after_kill() -> None:
    broker = PrivateBroker()
    await broker.stop()
    await broker.start()
    folder = broker.folder
    await broker.start()
    assert broker.folder == folder
    await broker.kill()
    await broker.kill()
    await broker.stop()
    await broker.stop()
    assert not exists(folder)
    with pytest.raises(BrokerFailed, match="not been started"):
        _ = broker.url


async def test_a_given_broker_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_program, "find_server", lambda: None)
    async with broker_or_private("amqp://elsewhere/") as url:
        assert url == "amqp://elsewhere/"


async def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_program, "find_server", lambda: None)
    with pytest.raises(BrokerNotInstalled, match=r"RabbitMQ is missing: install it .*\.$"):
        await PrivateBroker().start()
