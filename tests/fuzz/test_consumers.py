"""Each service under fire, on a real broker: what can't be read ends in the dead letters or is
dropped, nothing loops, and a good job is done behind it all."""

import asyncio
import random
import struct
from collections.abc import AsyncGenerator, Callable
from typing import Any

import aiormq
import pytest
import pytest_asyncio
from aio_pika.abc import AbstractRobustConnection
from pamqp.commands import Basic
from sluicegate.ops.top_listening import Listener
from sluicegate.producer import Producer
from sluicegate.producer.connection import close, connect, open_channel
from sluicegate.schemas import (
    AgentContext,
    AgentJob,
    Candidate,
    DeadLetter,
    GenerationJob,
    GenerationResult,
    JobEvent,
    Names,
    Reason,
    ServiceEvent,
    decode,
    encode,
)
from sluicegate.schemas.codec import Message
from sluicegate.schemas.tools import ToolRequest, ToolStatus
from sluicegate.schemas.topology import SERVICES
from sluicegate.worker.agent.service import Orchestrator
from sluicegate.worker.checker import Checker
from sluicegate.worker.config import Config
from sluicegate.worker.frame import Service
from sluicegate.worker.scripted import ScriptedEngine
from sluicegate.worker.service import Worker
from sluicegate.worker.tools import ToolContext, tool
from sluicegate.worker.tools.registry import Registry
from sluicegate.worker.tools.remote import RemoteTools
from sluicegate.worker.tools.server import ToolServer

from ..worker.killed import ActingScorer
from .examples import examples
from .hostile import NOT_JSON, changed

pytestmark = pytest.mark.broker

COUNT = 60
WAIT_S = 60.0
ODD_HEADERS: dict[str, Any] = {
    "x-delivery-count": "many",
    "x-death": [{"count": 2**60, "reason": "\x1b[31m"}],
    "rung": 5,
    "traceparent": "\x00" * 60,
    "": None,
    "nested": {"a": [1, {"b": bytearray(b"\xff")}]},
}


class Raw(Basic.Properties):
    """Properties that no library writes: one of them, in bytes."""

    def __init__(self, flag: int, value: bytes) -> None:
        super().__init__()
        self._said = struct.pack(">H", 1 << flag) + value

    def marshal(self) -> bytes:
        """As they are."""
        return self._said


def _table(entries: bytes) -> bytes:
    return struct.pack(">I", len(entries)) + entries


def _nested(kind: bytes, depth: int) -> bytes:
    """A header of tables in tables, or lists in lists."""
    inner = b""
    for _ in range(depth):
        inner = (b"\x01a" if kind == b"F" else b"") + kind + _table(inner)
    return _table(inner if kind == b"F" else b"\x01a" + inner)


# What aiormq can't read as it comes, and would close the connection for.
UNREADABLE = (
    Raw(13, _nested(b"F", 3_000)),
    Raw(13, _nested(b"A", 5_000)),
    Raw(13, _table(b"\x01aT" + b"\xff" * 8)),
    Raw(13, _table(b"\x02\xff\xfeI\0\0\0\1")),
    Raw(10, b"\x02\xff\xfe"),
    Raw(6, b"\xff" * 8),
)


def bodies(kind: type[Message], seed: int) -> list[bytes]:
    """Hostile ones, sound ones of other kinds among them; none that could be read is wanted here,
    so each is one that the codec refuses."""
    draw = random.Random(seed)
    sound = [body for known, body in examples() if known is kind] or [b"{}"]
    found = [each for known, each in examples() if known is not kind][:5]
    found += NOT_JSON[: COUNT // 3]
    while len(found) < COUNT:
        found.append(changed(draw.choice(sound), draw))
    return [each for each in found if _is_refused(each, kind)]


def _is_refused(body: bytes, kind: type[Message]) -> bool:
    try:
        decode(body, kind)
    except Exception:  # whatever it is, the codec's own tests say what it may be
        return True
    return False


@pytest_asyncio.fixture
async def connection(broker_url: str) -> AsyncGenerator[AbstractRobustConnection]:
    found = await connect(broker_url, timeout_s=20, name="fuzz")
    yield found
    await close(found)


async def fire(channel: aiormq.abc.AbstractChannel, exchange: str, key: str, body: bytes) -> None:
    draw = random.Random(len(body))
    if draw.random() < 0.2:
        await channel.basic_publish(
            body, exchange=exchange, routing_key=key, properties=draw.choice(UNREADABLE)
        )
        return
    properties = Basic.Properties(
        headers=draw.choice((None, ODD_HEADERS, {"a": "x" * 4_000})),
        correlation_id=draw.choice((None, "x", "\x1b[31m" * 20)),
        message_type=draw.choice((None, "generation_job", "\r\n")),
        content_type=draw.choice((None, "text/html", "application/json")),
        content_encoding=draw.choice((None, "gzip")),
        priority=draw.choice((None, 255)),
        reply_to=draw.choice((None, "somebody")),
        app_id=draw.choice((None, "\x07")),
    )
    await channel.basic_publish(body, exchange=exchange, routing_key=key, properties=properties)


async def run_one(service: Service) -> tuple[asyncio.Task[Any], Service]:
    task = asyncio.create_task(service.run())
    async with asyncio.timeout(WAIT_S):
        while service.not_ready() is not None:
            assert not task.done(), task.exception()
            await asyncio.sleep(0.02)
    return task, service


async def stop_one(task: asyncio.Task[Any], service: Service) -> None:
    service.stop()
    async with asyncio.timeout(WAIT_S):
        assert await task == 0


async def letters(channel: aiormq.abc.AbstractChannel, queue: str, count: int) -> list[DeadLetter]:
    """So many, but for results that found nobody: a body may name a reply key of its own."""
    found: list[DeadLetter] = []
    async with asyncio.timeout(WAIT_S):
        while len(found) < count:
            message = await channel.basic_get(queue, no_ack=True)
            if message.body:
                letter = decode(bytes(message.body), DeadLetter)
                if letter.reason is not Reason.RESULT_UNROUTABLE:
                    found.append(letter)
            else:
                await asyncio.sleep(0.02)
    return found


ODD_ARGUMENTS = (
    "../../etc/passwd",
    "file:///etc/passwd",
    "http://169.254.169.254/latest/meta-data/",
    "$(reboot); `id` | cat",
    "\x1b]52;c;aGk=\x07\u202e",
)


Make = Callable[[Config], Service]
QUEUES: dict[str, tuple[type[Message], Callable[[Names], str], Make]] = {
    "worker": (
        GenerationJob,
        lambda names: names.jobs_key("batch"),
        lambda config: Worker(config, ScriptedEngine()),
    ),
    "checker": (
        Candidate,
        lambda names: names.checks_key,
        lambda config: Checker(config, ActingScorer(harmless=True)),
    ),
    "new agents": (
        AgentJob,
        lambda names: names.new_agents_key,
        lambda config: Orchestrator(config, Registry(())),
    ),
    "approvals": (
        AgentContext,
        lambda names: names.approvals_key,
        lambda config: Orchestrator(config, Registry(())),
    ),
    "agents": (
        AgentContext,
        lambda names: names.agents_key,
        lambda config: Orchestrator(config, Registry(())),
    ),
}


@pytest.mark.parametrize("name", QUEUES)
async def test_a_service_buries_what_it_can_not_read_and_goes_on(
    name: str, connection: AbstractRobustConnection, broker_url: str, namespace: str
) -> None:
    kind, key, make = QUEUES[name]
    names = Names(namespace)
    config = Config(
        amqp_url=broker_url,
        namespace=namespace,
        engine="scripted",
        metrics_port=0,
        canary_prompt="",
    )
    channel = await open_channel(connection, confirms=True, timeout_s=20)
    task, service = await run_one(make(config))
    before = len(asyncio.all_tasks())
    try:
        hostile = bodies(kind, 7)
        for body in hostile:
            await fire(channel, names.jobs, key(names), body)
        for body in NOT_JSON:
            await fire(channel, names.control, "", body[:100_000])
        found = await letters(channel, names.dead, len(hostile))
        assert all(each.detail.isprintable() for each in found)
        assert service.not_ready() is None
        assert not task.done()
        while (message := await channel.basic_get(names.dead, no_ack=True)).body:
            more = decode(bytes(message.body), DeadLetter)
            assert more.reason is Reason.RESULT_UNROUTABLE
        async with asyncio.timeout(WAIT_S):
            while len(asyncio.all_tasks()) > before + 2:
                await asyncio.sleep(0.05)
        if name == "worker":
            async with Producer(broker_url, namespace=namespace) as producer:
                handle = await producer.publish(GenerationJob(prompt="still there?", lane="batch"))
                assert (await handle.result(timeout=WAIT_S)).ok
    finally:
        await stop_one(task, service)


@pytest.mark.parametrize("number", range(len(UNREADABLE)))
async def test_properties_that_the_library_can_not_read(
    number: int, connection: AbstractRobustConnection, broker_url: str, namespace: str
) -> None:
    """A job with them is done as any other, on a connection that stands."""
    names = Names(namespace)
    channel = await open_channel(connection, confirms=True, timeout_s=20)
    config = Config(
        amqp_url=broker_url,
        namespace=namespace,
        engine="scripted",
        metrics_port=0,
        canary_prompt="",
    )
    async with Producer(broker_url, namespace=namespace) as producer:
        job = GenerationJob(prompt="odd", reply_to=producer.reply_key)
        task, service = await run_one(Worker(config, ScriptedEngine()))
        try:
            await channel.basic_publish(
                encode(job),
                exchange=names.jobs,
                routing_key=names.jobs_key("interactive"),
                properties=UNREADABLE[number],
            )
            async for result in producer.results(idle_s=WAIT_S):
                assert (result.job_id, result.text, result.attempt) == (job.id, "odd", 1)
                assert not result.lineage.faults
                break
        finally:
            await stop_one(task, service)


async def test_a_tool_server_drops_what_it_can_not_read_and_takes_arguments_as_data(
    connection: AbstractRobustConnection, broker_url: str, namespace: str
) -> None:
    names = Names(namespace)
    channel = await open_channel(connection, confirms=True, timeout_s=20)
    taken: list[str] = []

    @tool
    async def fetch(where: str) -> str:
        """Note what is asked for."""
        taken.append(where)
        return where

    config = Config(amqp_url=broker_url, namespace=namespace, metrics_port=0)
    task, service = await run_one(ToolServer(config, Registry([fetch])))
    remote = RemoteTools(connection, names)
    try:
        for body in bodies(ToolRequest, 5):
            await fire(channel, names.tools, "fetch", body)
        await remote.start(lambda _error: None)
        for where in ODD_ARGUMENTS:
            context = ToolContext(job_id="job", round=1, effect_id=f"effect-{len(taken)}")
            result = await remote.call(fetch.spec, {"where": where}, context, 20.0)
            assert (result.status, taken[-1]) == (ToolStatus.OK, where)
        queue = await channel.queue_declare(names.tool_queue("fetch"), passive=True)
        assert queue.message_count == 0
        assert service.not_ready() is None
    finally:
        await remote.stop()
        await stop_one(task, service)


async def test_sluice_top_hears_what_is_sound(
    connection: AbstractRobustConnection, namespace: str
) -> None:
    names = Names(namespace)
    channel = await open_channel(connection, confirms=True, timeout_s=20)
    heard: asyncio.Queue[ServiceEvent | JobEvent] = asyncio.Queue()
    listener = Listener(connection, names, heard.put_nowait, heard.put_nowait)
    died: list[BaseException] = []
    await listener.start(died.append)
    try:
        for kind, key in ((ServiceEvent, f"{SERVICES}.x.status"), (JobEvent, "a.b.finished")):
            for body in bodies(kind, 9):
                await fire(channel, names.events, key, body)
        sound = next(body for kind, body in examples() if kind is ServiceEvent)
        await fire(channel, names.events, f"{SERVICES}.x.status", sound)
        async with asyncio.timeout(WAIT_S):
            assert await heard.get() == decode(sound, ServiceEvent)
        assert not died
    finally:
        await listener.stop()


async def test_a_producer_lives_on_among_results_and_events_that_are_none(
    connection: AbstractRobustConnection, broker_url: str, namespace: str
) -> None:
    names = Names(namespace)
    channel = await open_channel(connection, confirms=True, timeout_s=20)
    config = Config(
        amqp_url=broker_url,
        namespace=namespace,
        engine="scripted",
        metrics_port=0,
        canary_prompt="",
    )
    async with Producer(broker_url, namespace=namespace) as producer:
        hostile = [each for each in bodies(GenerationResult, 3) if len(each) < 1_000_000]
        for body in hostile:
            await fire(channel, names.results, producer.reply_key, body)
            await fire(channel, names.events, f"{producer.reply_key}.x.delta", body)
        task, service = await run_one(Worker(config, ScriptedEngine()))
        try:
            handle = await producer.publish(GenerationJob(prompt="still there?"))
            assert (await handle.result(timeout=WAIT_S)).text == "still there?"
        finally:
            service.stop()
            async with asyncio.timeout(WAIT_S):
                await task
    # What is no result is kept for a person.
    assert len(await letters(channel, names.dead, len(hostile))) == len(hostile)
