"""Tools over a real broker: asked on one side, served on another, and what goes wrong between."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import msgspec
import pytest
import pytest_asyncio
from aio_pika.abc import AbstractRobustConnection
from pamqp.commands import Basic
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.producer.connection import close, connect, open_channel
from sluicegate.schemas import Names, decode, encode
from sluicegate.schemas.tools import RAN, ToolReply, ToolRequest, ToolResult, ToolSpec, ToolStatus
from sluicegate.worker.config import Config, ConfigError
from sluicegate.worker.frame import ExitCode
from sluicegate.worker.tools import Tool, ToolContext, tool
from sluicegate.worker.tools.registry import Registry
from sluicegate.worker.tools.remote import RemoteTools, believed
from sluicegate.worker.tools.server import ToolServer

from ...producer.proxy import proxied
from .calls import CONTEXT, WAIT_S, left_word, none_left

pytestmark = pytest.mark.broker


class Desk:
    """Async tools that note when they are run, and wait until they are let go."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.go = asyncio.Event()
        self.go.set()

        @tool
        async def once(value: int, context: ToolContext) -> dict[str, Any]:
            """Do something that must not be done twice."""
            self.runs.append(context.effect_id)
            await self.go.wait()
            return {"value": value, "round": context.round, "job": context.job_id}

        @tool(idempotent=True)
        async def again(value: int, context: ToolContext) -> int:
            """Do something that may be done twice."""
            self.runs.append(context.effect_id)
            await self.go.wait()
            return value

        self.once = once
        self.again = again

    @property
    def registry(self) -> Registry:
        return Registry([self.once, self.again])

    async def until_run(self, times: int) -> None:
        await _until(lambda: len(self.runs) >= times)


class Serving:
    """A server and the task it runs in."""

    def __init__(self, server: ToolServer) -> None:
        self.server = server
        self.task = asyncio.create_task(server.run())

    async def ready(self) -> "Serving":
        async with asyncio.timeout(WAIT_S):
            while self.server.not_ready() is not None:
                if self.task.done():
                    self.task.result()
                await asyncio.sleep(0.01)
        return self

    async def stopped(self) -> ExitCode:
        self.server.stop()
        async with asyncio.timeout(WAIT_S):
            return await self.task

    async def killed(self) -> None:
        """Gone without a word: its channels close, and what it had goes back to the queues."""
        self.task.cancel()
        await asyncio.wait([self.task], timeout=WAIT_S)


class Serve(Protocol):
    async def __call__(self, registry: Registry, **settings: Any) -> Serving: ...


@pytest_asyncio.fixture
async def serve(broker_url: str, namespace: str) -> AsyncGenerator[Serve]:
    servers: list[Serving] = []

    async def start(registry: Registry, **settings: Any) -> Serving:
        config = _config(broker_url, namespace, **settings)
        servers.append(Serving(ToolServer(config, registry)))
        return await servers[-1].ready()

    yield start
    for each in servers:
        each.server.stop()
        await asyncio.wait([each.task], timeout=WAIT_S)
    await _delete_queues(broker_url, namespace)


@pytest_asyncio.fixture
async def connection(broker_url: str) -> AsyncGenerator[AbstractRobustConnection]:
    one = await connect(broker_url, timeout_s=WAIT_S, name="tests of tools")
    yield one
    await close(one)


@pytest_asyncio.fixture
async def remote(
    connection: AbstractRobustConnection, namespace: str
) -> AsyncGenerator[RemoteTools]:
    one = RemoteTools(connection, Names(namespace))
    await one.start(_never)
    yield one
    await one.stop()


def _never(error: BaseException) -> None:
    raise AssertionError from error


def _config(url: str, namespace: str, **settings: Any) -> Config:
    common = Config(
        amqp_url=url,
        namespace=namespace,
        metrics_port=0,
        worker_id="tools-1",
        publish_timeout_s=5.0,
        drain_grace_s=5.0,
    )
    return msgspec.structs.replace(common, **settings)


async def _delete_queues(url: str, namespace: str) -> None:
    connection = await connect(url, timeout_s=WAIT_S, name="tests")
    try:
        channel = await open_channel(connection, timeout_s=WAIT_S)
        for name in ("once", "again", "hang", "fine", "examples"):
            await channel.queue_delete(Names(namespace).tool_queue(name))
    finally:
        await close(connection)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.01)


def _spec(of: Tool, **changes: Any) -> ToolSpec:
    return msgspec.structs.replace(of.spec, remote=True, **changes)


async def _call(remote: RemoteTools, spec: ToolSpec, **more: Any) -> ToolResult:
    context = ToolContext(job_id="job-1", round=7, effect_id=more.pop("effect_id", "e1"))
    async with asyncio.timeout(WAIT_S):
        return await remote.call(spec, {"value": 3}, context, **more)


async def test_it_is_asked_and_answers(remote: RemoteTools, serve: Serve) -> None:
    desk = Desk()
    await serve(desk.registry)
    result = await _call(remote, _spec(desk.once))
    assert (result.status, result.content) == (
        ToolStatus.OK,
        '{"value":3,"round":7,"job":"job-1"}',
    )
    assert result.fingerprint
    assert result.seconds > 0


async def test_many_at_once_get_each_their_own(remote: RemoteTools, serve: Serve) -> None:
    desk = Desk()
    await serve(desk.registry, agent_slots=4)
    context = [ToolContext(job_id="j", round=1, effect_id=f"e{number}") for number in range(50)]
    async with asyncio.timeout(WAIT_S):
        results = await asyncio.gather(
            *(
                remote.call(_spec(desk.again), {"value": number}, each)
                for number, each in enumerate(context)
            )
        )
    assert [each.content for each in results] == [str(number) for number in range(50)]


async def test_what_is_wrong_is_answered_and_nothing_run(remote: RemoteTools, serve: Serve) -> None:
    desk = Desk()
    await serve(desk.registry)
    async with asyncio.timeout(WAIT_S):
        result = await remote.call(_spec(desk.once), {"value": "three"}, CONTEXT)
    assert result.status is ToolStatus.INVALID_ARGUMENTS
    assert "$.value" in result.content
    assert desk.runs == []


async def test_arguments_no_message_can_have(remote: RemoteTools) -> None:
    result = await remote.call(ToolSpec(name="any"), {"x": "y" * 100_000}, CONTEXT)
    assert result.status is ToolStatus.INVALID_ARGUMENTS
    assert "limit" in result.content


async def test_nobody_has_ever_served_it(remote: RemoteTools) -> None:
    result = await _call(remote, ToolSpec(name="nowhere"))
    assert result.status is ToolStatus.ERROR
    assert result.content == "no one serves this tool"


async def test_nobody_serves_it_any_more(remote: RemoteTools, serve: Serve) -> None:
    """Its queue still stands."""
    desk = Desk()
    serving = await serve(desk.registry)
    assert await serving.stopped() == ExitCode.OK
    result = await _call(remote, _spec(desk.once))
    assert result.content == "no one serves this tool"
    assert desk.runs == []


async def test_no_answer_in_time(remote: RemoteTools, serve: Serve) -> None:
    """The client gives up, the server ends the call, and the answer that comes too late is not
    taken for that of another call."""
    desk = Desk()
    await serve(desk.registry)
    desk.go.clear()
    result = await _call(remote, _spec(desk.once), timeout_s=0.5)
    assert result.status is ToolStatus.TIMEOUT
    assert "no answer within 0.5 s" in result.content or "longer than" in result.content
    desk.go.set()
    assert (await _call(remote, _spec(desk.once), effect_id="e2")).ok


async def test_a_request_that_comes_too_late_is_not_begun(
    connection: AbstractRobustConnection, namespace: str, serve: Serve
) -> None:
    desk = Desk()
    await serve(desk.registry)
    past = datetime.now(UTC) - timedelta(seconds=1)
    await _publish(connection, namespace, _request(expires_at=past), reply_to="nowhere")
    await _publish(connection, namespace, _request(effect_id="e2"), reply_to="nowhere")
    await desk.until_run(1)
    assert desk.runs == ["e2"]


async def test_one_effect_asked_for_twice_is_run_once(remote: RemoteTools, serve: Serve) -> None:
    """One after the other, from memory; and at the same time, joined."""
    desk = Desk()
    await serve(desk.registry)
    first = await _call(remote, _spec(desk.once))
    assert (await _call(remote, _spec(desk.once))).content == first.content
    assert desk.runs == ["e1"]
    desk.go.clear()
    both = [asyncio.create_task(_call(remote, _spec(desk.once), effect_id="e2")) for _ in range(2)]
    await desk.until_run(2)
    desk.go.set()
    results = await asyncio.gather(*both)
    assert all(each.ok for each in results)
    assert desk.runs == ["e1", "e2"]


async def test_memory_is_bounded(
    remote: RemoteTools, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluicegate.worker.tools.serving.REMEMBERED", 2)
    desk = Desk()
    await serve(desk.registry)
    for effect in ("e1", "e2", "e3", "e3", "e1"):
        assert (await _call(remote, _spec(desk.again), effect_id=effect)).ok
    assert desk.runs == ["e1", "e2", "e3", "e1"]


async def test_its_server_killed_in_the_middle(remote: RemoteTools, serve: Serve) -> None:
    """What may be run twice is run by another server; of what may not, nothing is known."""
    desk, other = Desk(), Desk()
    serving = await serve(desk.registry)
    desk.go.clear()
    once = asyncio.create_task(_call(remote, _spec(desk.once)))
    again = asyncio.create_task(_call(remote, _spec(desk.again)))
    await desk.until_run(2)
    await serving.killed()
    await serve(other.registry)
    assert (await once).status is ToolStatus.UNKNOWN
    assert "not known" in (await once).content
    assert ((await again).status, (await again).content) == (ToolStatus.OK, "3")
    assert other.runs == ["e1"]


async def test_a_server_process_killed_in_the_middle(
    remote: RemoteTools,
    serve: Serve,
    faulty: ModuleType,
    broker_url: str,
    namespace: str,
    tmp_path: Path,
) -> None:
    """The same with SIGKILL, and a sync tool: its process goes too."""
    server = await _server_process(broker_url, namespace)
    try:
        spec = _spec(faulty.hang)
        calling = asyncio.create_task(_call_when_served(remote, spec, {"folder": str(tmp_path)}))
        await _until(lambda: "self" in left_word(tmp_path))
    finally:
        server.kill()
        await server.wait()
    await serve(Registry([faulty.hang]))
    async with asyncio.timeout(WAIT_S):
        result = await calling
    assert result.status is ToolStatus.UNKNOWN
    await _until(lambda: none_left(tmp_path))
    await _delete_faulty(broker_url, namespace, faulty)


async def test_a_server_process_ends_in_good_order(
    remote: RemoteTools, faulty: ModuleType, broker_url: str, namespace: str
) -> None:
    """Told to by a signal; even with a call about that nothing can end."""
    server = await _server_process(broker_url, namespace)
    try:
        async with asyncio.timeout(WAIT_S):
            fine = await _call_when_served(remote, _spec(faulty.fine), {"text": "x", "times": 2})
            assert fine.content == "xx"
            spec = _spec(faulty.deaf_to_all, timeout_s=20.0)
            assert (await _call_when_served(remote, spec, {})).abandoned
            server.terminate()
            assert await server.wait() == ExitCode.OK
    finally:
        if server.returncode is None:
            server.kill()
            await server.wait()
        await _delete_faulty(broker_url, namespace, faulty)


async def _server_process(url: str, namespace: str) -> asyncio.subprocess.Process:
    program = (
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from sluicegate.worker.config import Config\n"
        "from sluicegate.worker.tools.server import run_tool_server\n"
        f"sys.exit(run_tool_server(Config(amqp_url={url!r}, namespace={namespace!r},\n"
        "    metrics_port=0, agent_tools='faulty')))\n"
    )
    return await asyncio.create_subprocess_exec(sys.executable, "-c", program)


async def _call_when_served(
    remote: RemoteTools, spec: ToolSpec, arguments: dict[str, Any]
) -> ToolResult:
    while True:
        result = await remote.call(spec, arguments, CONTEXT)
        if result.content != "no one serves this tool":
            return result
        await asyncio.sleep(0.05)


async def _delete_faulty(url: str, namespace: str, faulty: ModuleType) -> None:
    connection = await connect(url, timeout_s=WAIT_S, name="tests")
    try:
        channel = await open_channel(connection, timeout_s=WAIT_S)
        for each in vars(faulty).values():
            if isinstance(each, Tool):
                await channel.queue_delete(Names(namespace).tool_queue(each.name))
    finally:
        await close(connection)


async def test_stopping_it_ends_what_runs_first(remote: RemoteTools, serve: Serve) -> None:
    desk = Desk()
    serving = await serve(desk.registry)
    desk.go.clear()
    calling = asyncio.create_task(_call(remote, _spec(desk.once)))
    await desk.until_run(1)
    serving.server.stop()
    await asyncio.sleep(0.05)
    desk.go.set()
    assert (await calling).ok
    assert await serving.stopped() == ExitCode.OK


async def test_stopping_it_gives_back_what_does_not_end(remote: RemoteTools, serve: Serve) -> None:
    desk, other = Desk(), Desk()
    serving = await serve(desk.registry, drain_grace_s=0.1)
    desk.go.clear()
    once = asyncio.create_task(_call(remote, _spec(desk.once)))
    again = asyncio.create_task(_call(remote, _spec(desk.again)))
    await desk.until_run(2)
    assert await serving.stopped() == ExitCode.OK
    await serve(other.registry)
    assert (await once).status is ToolStatus.UNKNOWN
    assert (await again).ok
    assert other.runs == ["e1"]


async def test_a_tool_that_will_not_end_does_not_keep_the_server(
    remote: RemoteTools, serve: Serve
) -> None:
    forever = asyncio.Event()

    @tool(timeout_s=0.1)
    async def hang(value: int) -> str:
        while True:
            try:
                await forever.wait()
            except asyncio.CancelledError:
                continue

    serving = await serve(Registry([hang]))
    result = await _call(remote, _spec(hang, timeout_s=20.0))
    assert result.status is ToolStatus.TIMEOUT
    assert result.abandoned
    assert serving.server.abandoned == 1
    assert await serving.stopped() == ExitCode.OK
    assert serving.server.abandoned == 0


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"\xff", b"[" * 10_000, b'{"type":"tool_request","schema_version":1}']
)
async def test_what_can_not_be_read_is_answered_too(
    body: bytes, connection: AbstractRobustConnection, namespace: str, serve: Serve
) -> None:
    desk = Desk()
    serving = await serve(desk.registry)
    channel = await open_channel(connection, timeout_s=WAIT_S)
    queue = (await channel.queue_declare(exclusive=True)).queue
    await _publish(connection, namespace, body, reply_to=queue, correlation_id="c1")
    await _publish(connection, namespace, body, reply_to=None, correlation_id=None)
    await _publish(connection, namespace, body, reply_to="no.such.queue", correlation_id="c2")
    await _publish(connection, namespace, _request(), reply_to=queue, correlation_id="r1")
    replies = [decode(await _take(channel, queue), ToolReply) for _ in range(2)]
    by_id = {each.id: each.result for each in replies}
    assert by_id["c1"].status is ToolStatus.ERROR
    assert "can't be read" in by_id["c1"].content
    assert by_id["r1"].ok
    assert serving.server.not_ready() is None
    await channel.close()


async def test_a_request_on_the_wrong_queue(
    connection: AbstractRobustConnection, namespace: str, serve: Serve
) -> None:
    desk = Desk()
    await serve(desk.registry)
    channel = await open_channel(connection, timeout_s=WAIT_S)
    queue = (await channel.queue_declare(exclusive=True)).queue
    await _publish(connection, namespace, _request(name="other"), reply_to=queue)
    reply = decode(await _take(channel, queue), ToolReply)
    assert reply.result.status is ToolStatus.UNKNOWN_TOOL
    assert reply.server == "tools-1"
    await channel.close()


async def test_the_connection_lost_on_both_sides(
    killable_broker: PrivateBroker, killable_namespace: str
) -> None:
    """The broker is killed while a call runs. What is asked afterwards is answered, and the call
    under way ends in the truth: its answer, or that it is not known."""
    desk = Desk()
    config = _config(killable_broker.url, killable_namespace)
    serving = await Serving(ToolServer(config, desk.registry)).ready()
    connection = await connect(killable_broker.url, timeout_s=WAIT_S, name="tests")
    remote = RemoteTools(connection, Names(killable_namespace))
    await remote.start(_never)
    try:
        desk.go.clear()
        spec = _spec(desk.once)
        calling = asyncio.create_task(remote.call(spec, {"value": 3}, CONTEXT))
        await desk.until_run(1)
        await killable_broker.kill()
        await killable_broker.start()
        desk.go.set()
        async with asyncio.timeout(2 * WAIT_S):
            result = await calling
        assert result.ok
        assert desk.runs == [CONTEXT.effect_id]
        async with asyncio.timeout(2 * WAIT_S):
            later = await _call_when_served(remote, _spec(desk.again), {"value": 4})
        assert later.content == "4"
    finally:
        await remote.stop()
        await close(connection)
        await serving.stopped()


async def test_the_callers_connection_lost(broker_url: str, namespace: str, serve: Serve) -> None:
    """What is answered meanwhile is there when the connection is back; nothing is asked twice."""
    desk = Desk()
    await serve(desk.registry)
    async with proxied(broker_url) as proxy:
        connection = await connect(proxy.url, timeout_s=WAIT_S, name="tests")
        remote = RemoteTools(connection, Names(namespace))
        await remote.start(_never)
        try:
            desk.go.clear()
            calling = asyncio.create_task(_call(remote, _spec(desk.once)))
            await desk.until_run(1)
            await proxy.stop()
            desk.go.set()
            assert (await calling).ok
            assert (await _call(remote, _spec(desk.once), effect_id="e2")).ok
            assert desk.runs == ["e1", "e2"]
        finally:
            await remote.stop()
            await close(connection)


async def test_a_network_that_stands_still(broker_url: str, namespace: str, serve: Serve) -> None:
    desk = Desk()
    await serve(desk.registry)
    async with proxied(broker_url) as proxy:
        connection = await connect(proxy.url, timeout_s=WAIT_S, name="tests")
        remote = RemoteTools(connection, Names(namespace))
        await remote.start(_never)
        try:
            proxy.flowing.clear()
            result = await _call(remote, _spec(desk.once), timeout_s=0.5)
            proxy.flowing.set()
            assert result.status is ToolStatus.ERROR
            assert "not run" in result.content
            assert (await _call(remote, _spec(desk.once), effect_id="e2")).ok
            assert desk.runs == ["e2"]
        finally:
            await remote.stop()
            await close(connection)


async def test_stopping_the_caller_ends_its_calls(
    connection: AbstractRobustConnection, namespace: str, serve: Serve
) -> None:
    desk = Desk()
    await serve(desk.registry)
    desk.go.clear()
    remote = RemoteTools(connection, Names(namespace))
    await remote.start(_never)
    calling = asyncio.create_task(_call(remote, _spec(desk.once)))
    await desk.until_run(1)
    await remote.stop()
    await remote.stop()
    assert (await calling).status is ToolStatus.UNKNOWN
    desk.go.set()


async def test_a_cancelled_caller_leaves_nothing_behind(remote: RemoteTools, serve: Serve) -> None:
    desk = Desk()
    await serve(desk.registry)
    desk.go.clear()
    calling = asyncio.create_task(_call(remote, _spec(desk.once)))
    await desk.until_run(1)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert repr(remote) == "<RemoteTools, 0 calls under way>"
    desk.go.set()


def test_what_can_not_be_served() -> None:
    with pytest.raises(ConfigError, match="no tools to serve"):
        ToolServer(Config(), Registry())

    @tool(timeout_s=1_000)
    async def long() -> str:
        return ""

    with pytest.raises(ConfigError, match="tool long: its timeout_s"):
        ToolServer(Config(), Registry([long]))


def _request(
    *, name: str = "once", effect_id: str = "e1", expires_at: datetime | None = None
) -> bytes:
    return encode(
        ToolRequest(
            id="r1",
            job_id="j",
            name=name,
            arguments={"value": 1},
            effect_id=effect_id,
            expires_at=expires_at or datetime.now(UTC) + timedelta(seconds=WAIT_S),
        )
    )


async def _publish(
    connection: AbstractRobustConnection,
    namespace: str,
    body: bytes,
    *,
    reply_to: str | None,
    correlation_id: str | None = "r1",
) -> None:
    channel = await open_channel(connection, confirms=True, timeout_s=WAIT_S)
    try:
        await channel.basic_publish(
            body,
            exchange=Names(namespace).tools,
            routing_key="once",
            properties=Basic.Properties(reply_to=reply_to, correlation_id=correlation_id),
            mandatory=True,
        )
    finally:
        await channel.close()


async def _take(channel: Any, queue: str | None) -> bytes:
    async with asyncio.timeout(WAIT_S):
        while True:
            message = await channel.basic_get(queue, no_ack=True)
            if isinstance(message.delivery, Basic.GetOk):
                return bytes(message.body)
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("status", ToolStatus)
async def test_whether_a_call_is_allowed_is_not_its_servers_to_say(status: ToolStatus) -> None:
    """It was run all the same, and is to be counted."""
    told = believed(ToolResult(status=status, content="so it is"))
    its_own = RAN | {ToolStatus.INVALID_ARGUMENTS, ToolStatus.UNKNOWN_TOOL}
    assert told.status is (status if status in its_own else ToolStatus.ERROR)
    assert "so it is" in told.content
