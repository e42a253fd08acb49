"""The users that `sluice topology definitions` prints, imported into a real broker: each can do its
work, and nothing else."""

import asyncio
import base64
import json
import os
import sys
import urllib.request
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic
from sluicegate.guards.checks.scores import TextScores
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.ops.service_process import ServiceProcess
from sluicegate.ops.top_listening import Listener
from sluicegate.producer import (
    AccessRefused,
    AgentJob,
    Cancelled,
    Completed,
    Delta,
    Finished,
    GenerationJob,
    Producer,
    Rejected,
    watch,
)
from sluicegate.producer.confirms import ConfirmedPublisher
from sluicegate.producer.connection import close, connect
from sluicegate.producer.declare import bind, declare_queue, explained, one_channel
from sluicegate.producer.look import Patience, Subject, looking
from sluicegate.schemas import Names, Reason, Rules, ServiceEvent, ToolCall, reply
from sluicegate.schemas.agents import Dispatched
from sluicegate.schemas.topology import RUNGS, Binding, Queue, tool
from sluicegate.worker.agent.generation import QueueGenerator, generator
from sluicegate.worker.agent.journal import Journal
from sluicegate.worker.agent.service import Orchestrator
from sluicegate.worker.checker import Checker
from sluicegate.worker.config import Config
from sluicegate.worker.scoring import ScoreRequest, Wants
from sluicegate.worker.scripted import ScriptedEngine
from sluicegate.worker.service import Worker
from sluicegate.worker.tools.registry import Registry
from sluicegate.worker.tools.server import ToolServer
from sluicegate.worker.tools.tool import tool as tool_of
from yarl import URL

from ..worker.agent.troupe import answer, call, script
from .conftest import READY_S

pytestmark = pytest.mark.broker

VHOST = "roles"
USERS = (
    "operator",
    "worker",
    "checker",
    "agent",
    "publisher",
    "watcher",
    "orders",
    "tool-search",
)
PASSWORD = "a password"
NAMES = Names()
WAIT_S = 30.0


@dataclass(frozen=True)
class Roles:
    """A virtual host where the users of the page have the permissions of the page."""

    broker: PrivateBroker

    def url(self, user: str) -> str:
        return str(URL(self.broker.url).with_user(user).with_password(PASSWORD) / VHOST)

    def producer(self, user: str, reply_key: str | None = None) -> Producer:
        return Producer(self.url(user), reply_key)

    async def sluice(self, user: str, *arguments: str, said: bytes = b"") -> tuple[int, str]:
        """Run `sluice` as a user of the broker; its exit status and all that it prints."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).parent / "sluice",
            *arguments,
            env={**kept, "SLUICE_AMQP_URL": self.url(user)},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(WAIT_S):
            out, _ = await process.communicate(said)
        return process.returncode or 0, out.decode()


def put(broker: PrivateBroker, path: str, body: dict[str, str]) -> None:
    """Blocking. One PUT to the management API."""
    token = base64.b64encode(b"guest:guest").decode()
    request = urllib.request.Request(  # noqa: S310 - a loopback address of ours
        f"{broker.management_url}api/{path}",
        json.dumps(body).encode(),
        {"Authorization": f"Basic {token}", "Content-Type": "application/json"},
        method="PUT",
    )
    with urllib.request.urlopen(request, timeout=WAIT_S) as answer:  # noqa: S310
        assert answer.status in (201, 204)


@pytest_asyncio.fixture(scope="module")
async def roles(docs_broker: PrivateBroker, tmp_path_factory: pytest.TempPathFactory) -> Roles:
    """The users, and the topology, as they are imported."""
    folder = tmp_path_factory.mktemp("roles")
    password, file = folder / "password", folder / "definitions.json"
    password.write_text(f"{PASSWORD}\n")
    made = Roles(docs_broker)
    given = [f"--password-file={user}={password}" for user in USERS]
    arguments = ("topology", "definitions", "--users", "--reply", "orders", "--tool", "search")
    code, said = await made.sluice("operator", *arguments, *given)
    assert code == 0, said
    file.write_text(said)
    await docs_broker.control("import_definitions", str(file))
    return made


@pytest_asyncio.fixture(scope="module")
async def worker(
    roles: Roles, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[ServiceProcess]:
    # Slow enough that a watcher can come while it answers.
    engine = {"engine": "scripted", "engine_args": '{"chunk": 4, "step_s": 0.02}'}
    settings = {"amqp_url": roles.url("worker"), **engine}
    async with ServiceProcess(tmp_path_factory.mktemp("worker"), settings) as process:
        await process.ready(READY_S)
        yield process


async def test_the_operator_compares_the_topology_bindings_included(roles: Roles) -> None:
    code, said = await roles.sluice("operator", "topology", "apply", "--json")
    assert (code, json.loads(said)["created"]) == (0, []), said
    code, said = await roles.sluice(
        "operator", "topology", "check", "--management-url", roles.broker.management_url
    )
    assert code == 0, said
    assert "AMQP can't tell them" not in said


def looks_up(number: int, prompt: str) -> str:
    del prompt
    return call("search", word="Lima") if number == 1 else answer("Yes: 10.1 million.")


@tool_of
async def search(word: str) -> str:
    """Look a word up."""
    return f"{word}: 10.1 million"


@asynccontextmanager
async def serving(service: Any) -> AsyncGenerator[None]:
    """A service of this process, ready."""
    running = asyncio.create_task(service.run())
    async with asyncio.timeout(WAIT_S):
        while service.not_ready() is not None:
            assert not running.done(), running
            await asyncio.sleep(0.01)
    try:
        yield
    finally:
        service.stop()
        async with asyncio.timeout(WAIT_S):
            await running


async def test_an_agent_job_with_a_tool_that_is_served_elsewhere(
    roles: Roles, tmp_path: Path
) -> None:
    """Each as its own user: worker, agent service, the server of the tool, and the publisher. It
    comes before the tests with a worker that answers with the prompt."""
    spec = msgspec.structs.replace(search.spec, remote=True)
    file = tmp_path / "tools.json"
    file.write_bytes(msgspec.json.encode([spec]))
    scripted = {"engine": "scripted", "metrics_port": 0, "max_model_len": 100_000}

    def config(user: str, **more: Any) -> Config:
        return Config(amqp_url=roles.url(user), **scripted, **more)

    engine = ScriptedEngine(script(looks_up), chunk=4096, max_model_len=200_000)
    async with (
        serving(Worker(config("worker", canary_prompt=""), engine)),
        serving(ToolServer(config("tool-search"), Registry([search]))),
        serving(
            Orchestrator(
                config("agent"), Registry.load(config("agent", agent_tools_file=str(file)))
            )
        ),
        roles.producer("publisher") as producer,
    ):
        handle = await producer.publish(AgentJob(task="Find it.", tools=("search",), profile="off"))
        result = await handle.result(timeout=WAIT_S)
    assert (result.outcome, result.text) == (Completed(), "Yes: 10.1 million.")
    assert result.agent is not None
    assert result.agent.tool_calls == 1


async def test_a_publisher_gets_its_results_and_events(
    roles: Roles, worker: ServiceProcess
) -> None:
    async with roles.producer("publisher") as producer:
        handle = await producer.publish(GenerationJob(prompt="hello", stream=True))
        kinds = [type(event.event) async for event in handle.events()]
        result = await handle.result(timeout=WAIT_S)
        assert await producer.cancel(handle.job_id) is True
    assert (result.outcome, result.text) == (Completed(), "hello")
    assert Delta in kinds
    assert kinds[-1] is Finished


async def test_a_publisher_submits_a_file(roles: Roles, worker: ServiceProcess) -> None:
    code, said = await roles.sluice(
        "publisher", "submit", "--file", "-", said=b'{"prompt": "a"}\n{"prompt": "b"}\n'
    )
    assert code == 0, said


async def test_a_file_with_results_to_keep_is_submitted(
    roles: Roles, worker: ServiceProcess, tmp_path: Path
) -> None:
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text('{"prompt": "c"}\n{"prompt": "d"}\n')
    out = tmp_path / "out.jsonl"
    code, said = await roles.sluice("publisher", "submit", "--file", str(jobs), "--out", str(out))
    assert code == 0, said
    assert len(out.read_text().splitlines()) == 2


async def test_a_backend_has_a_queue_of_its_own(roles: Roles, worker: ServiceProcess) -> None:
    async with roles.producer("orders", "orders") as producer:
        handle = await producer.publish(GenerationJob(prompt="hello"))
        assert (await handle.result(timeout=WAIT_S)).text == "hello"


async def test_a_backend_reads_what_has_come_since(roles: Roles, worker: ServiceProcess) -> None:
    job = GenerationJob(prompt="good evening")
    async with roles.producer("orders", "orders") as producer:
        await producer.publish(job)
    code, said = await roles.sluice("orders", "results", "--reply", "orders", "--idle", "5")
    assert code == 0, said
    assert f"{job.id}: completed\ngood evening\n" in said


async def test_a_watcher_follows_a_job_of_another(roles: Roles, worker: ServiceProcess) -> None:
    async with asyncio.timeout(WAIT_S), roles.producer("publisher") as producer:
        job = GenerationJob(prompt="hello " * 200, profile="off", stream=True)
        await producer.publish(job)
        seen = [event.event async for event in watch(roles.url("watcher"), job.id)]
    assert seen[-1] == Finished(outcome=Completed())
    assert len(seen) > 1


async def test_a_worker_buries_and_a_publisher_may_too(
    roles: Roles, worker: ServiceProcess
) -> None:
    """The worker's dead letter, and that of a producer that can't read a result."""
    async with roles.producer("publisher") as producer:
        handle = producer.attach("bad-one")
        body = json.dumps({"id": "bad-one", "reply_to": producer.reply_key}).encode()
        await publishing("publisher", NAMES.jobs, "jobs.batch", body)(roles)
        result = await handle.result(timeout=WAIT_S)
    assert isinstance(result.outcome, Rejected)
    await publishing("publisher", NAMES.dlx, "")(roles)


class NoModel:
    """A scorer for jobs whose profile has nothing to score."""

    name = "none"

    def score(self, requests: Sequence[ScoreRequest], wants: Wants) -> list[TextScores]:
        raise AssertionError(f"nobody should ask for {wants} of {requests}")

    def close(self) -> None:
        pass


@pytest_asyncio.fixture
async def checker(roles: Roles) -> AsyncGenerator[Checker]:
    """A checker with the rights of the page. Rules alone are checked here: see `checked`."""
    service = Checker(Config(amqp_url=roles.url("checker"), metrics_port=0), NoModel())
    running = asyncio.create_task(service.run())
    async with asyncio.timeout(WAIT_S):
        while service.not_ready() is not None:
            assert not running.done(), running
            await asyncio.sleep(0.01)
    yield service
    service.stop()
    async with asyncio.timeout(WAIT_S):
        await running


def checked(prompt: str) -> GenerationJob:
    """The scripted engine says the prompt back, and bees make honey."""
    rules = Rules(must_include=("honey",))
    return GenerationJob(prompt=prompt, profile="off", checks="block", max_attempts=2, rules=rules)


async def test_a_checker_lets_through_what_passes(
    roles: Roles, worker: ServiceProcess, checker: Checker
) -> None:
    async with roles.producer("publisher") as producer:
        handle = await producer.publish(checked("bees make honey"))
        result = await handle.result(timeout=WAIT_S)
    assert (result.outcome, result.text) == (Completed(), "bees make honey")


async def test_a_checker_has_it_tried_again_and_then_buries_it(
    roles: Roles, worker: ServiceProcess, checker: Checker
) -> None:
    """Then the operator looks at the dead letter, and sends it back."""
    job = checked("bees make wax")
    async with roles.producer("orders", "orders") as producer:
        handle = await producer.publish(job)
        kinds = [event.kind async for event in handle.events()]
        result = await handle.result(timeout=WAIT_S)
    assert isinstance(result.outcome, Rejected)
    assert (result.outcome.reason, result.attempt) == (Reason.CHECKS_REJECTED, 2)
    assert kinds.count("judged") == 2
    assert "retrying" in kinds
    code, said = await roles.sluice("operator", "dlq", "show", job.id)
    assert (code, "missing_text" in said) == (0, True), said
    changes = ["--set", "rules.must_include=null", "--yes"]
    code, said = await roles.sluice("operator", "dlq", "requeue", job.id, *changes)
    assert code == 0, said
    assert "1 dead letter to send back: 1 to jobs.interactive; with" in said
    assert "\n1 sent back\n" in said
    async with roles.producer("orders", "orders") as producer:
        result = await producer.attach(job.id).result(timeout=WAIT_S)
    # It went on counting, so this is no duplicate of what came before.
    assert (result.outcome, result.attempt) == (Completed(), 3)


async def test_an_operator_pauses_calls_off_and_resumes(
    roles: Roles, worker: ServiceProcess
) -> None:
    code, said = await roles.sluice("operator", "pause", "--lane", "batch")
    assert code == 0, said
    try:
        async with roles.producer("publisher") as producer:
            handle = await producer.publish(GenerationJob(prompt="it waits", lane="batch"))
            code, said = await roles.sluice("operator", "cancel", handle.job_id)
            assert code == 0, said
            result = await handle.result(timeout=WAIT_S)
        assert isinstance(result.outcome, Cancelled)
    finally:
        code, said = await roles.sluice("operator", "resume", "--lane", "batch")
    assert code == 0, said


async def test_operator_and_watcher_see_what_services_say(roles: Roles) -> None:
    for user in ("operator", "watcher"):
        connection = await connect(roles.url(user), timeout_s=WAIT_S, name="tests")
        listener = Listener(connection, NAMES, lambda _: None, lambda _: None)
        try:
            await listener.start(lambda _: None)
            await listener.stop()
        finally:
            await close(connection)


async def test_the_operator_sees_what_waits_what_was_done_and_how_it_stands(roles: Roles) -> None:
    for arguments in (
        ("agent", "approvals", "list"),
        ("top", "--once"),
        ("dlq", "stats"),
        ("pause",),
    ):
        code, said = await roles.sluice("operator", *arguments)
        assert code == 0, said
    code, said = await roles.sluice("watcher", "top", "--once")
    assert code == 0, said


async def test_services_are_heard(roles: Roles, worker: ServiceProcess) -> None:
    """What a service says reaches the events exchange with its own rights."""
    heard: asyncio.Queue[ServiceEvent] = asyncio.Queue()
    connection = await connect(roles.url("watcher"), timeout_s=WAIT_S, name="tests")
    listener = Listener(connection, NAMES, heard.put_nowait, lambda _: None)
    try:
        await listener.start(lambda _: None)
        async with asyncio.timeout(WAIT_S):
            assert (await heard.get()).kind == "worker"
        await listener.stop()
    finally:
        await close(connection)


Deed = Callable[[Roles], Awaitable[None]]


def deleting(user: str, queue: str) -> Deed:
    async def do(roles: Roles) -> None:
        connection = await connect(roles.url(user), timeout_s=WAIT_S, name="tests")
        try:
            async with one_channel(connection, WAIT_S) as channel:
                with explained(queue):
                    await channel.queue_delete(queue)
        finally:
            await close(connection)

    return do


def hearing(user: str, exchange: str, key: str) -> Deed:
    """Bind a queue of one's own, by a name that the user may give it, to hear what others get."""

    async def do(roles: Roles) -> None:
        connection = await connect(roles.url(user), timeout_s=WAIT_S, name="tests")
        name = f"{NAMES.events}.0123456789abcdef"
        try:
            async with one_channel(connection, WAIT_S) as channel:
                await channel.queue_declare(name, exclusive=True)
                with explained(f"{key} of {exchange}"):
                    await channel.queue_bind(name, exchange, routing_key=key)
        finally:
            await close(connection)

    return do


def publishing(user: str, exchange: str, key: str, body: bytes = b"{}", **headers: str) -> Deed:
    async def do(roles: Roles) -> None:
        connection = await connect(roles.url(user), timeout_s=WAIT_S, name="tests")
        try:
            await ConfirmedPublisher(connection).publish(
                exchange,
                key,
                body,
                kind="x",
                correlation_id=None,
                headers=dict(headers),
                timeout_s=WAIT_S,
            )
        finally:
            await close(connection)

    return do


def consuming(user: str, queue: str) -> Deed:
    async def do(roles: Roles) -> None:
        connection = await connect(roles.url(user), timeout_s=WAIT_S, name="tests")
        try:
            async with one_channel(connection, WAIT_S) as channel:
                with explained(queue):
                    await channel.basic_get(queue)
        finally:
            await close(connection)

    return do


def declaring(user: str, queue: Queue) -> Deed:
    async def do(roles: Roles) -> None:
        connection = await connect(roles.url(user), timeout_s=WAIT_S, name="tests")
        try:
            async with one_channel(connection, WAIT_S) as channel:
                await declare_queue(channel, queue)
        finally:
            await close(connection)

    return do


def binding(user: str, binding: Binding) -> Deed:
    async def do(roles: Roles) -> None:
        connection = await connect(roles.url(user), timeout_s=WAIT_S, name="tests")
        try:
            async with one_channel(connection, WAIT_S) as channel:
                await bind(channel, binding)
        finally:
            await close(connection)

    return do


async def test_a_worker_sends_a_job_round_by_a_rung(roles: Roles) -> None:
    rung = min(RUNGS, key=lambda name: RUNGS[name])
    await publishing("worker", NAMES.retry, NAMES.jobs_key("batch"), rung=rung)(roles)


async def test_an_agent_service_writes_the_journal_and_reads_it(roles: Roles) -> None:
    connection = await connect(roles.url("agent"), timeout_s=WAIT_S, name="tests")
    try:
        journal = Journal(connection, ConfirmedPublisher(connection), NAMES)
        call = ToolCall(id="c", name="t", effect_id="j:1:1:0")
        since = datetime.now(UTC)
        await journal.write("j", Dispatched(effect_id=call.effect_id, round=1, call=call))
        past = await journal.calls("j", since)
    finally:
        await close(connection)
    assert (past.dispatched, past.results) == ({call.effect_id}, {})


async def test_an_agent_service_has_the_model_answer(roles: Roles, worker: ServiceProcess) -> None:
    producer = generator(roles.url("agent"), NAMES, connect_timeout_s=WAIT_S)
    async with producer:
        result = await QueueGenerator(producer)(GenerationJob(prompt="hello"), WAIT_S)
    assert result is not None
    assert result.text == "hello"


async def test_an_agent_service_takes_and_publishes_what_it_must(roles: Roles) -> None:
    keys = (NAMES.new_agents_key, NAMES.agents_key, NAMES.approvals_key)
    for key, queue in zip(keys, (NAMES.new_agents, NAMES.agents, NAMES.approvals), strict=True):
        await publishing("agent", NAMES.jobs, key)(roles)
        await consuming("agent", queue)(roles)
    await publishing("publisher", NAMES.jobs, NAMES.new_agents_key)(roles)
    await publishing("agent", NAMES.results, "default")(roles)
    await publishing("agent", NAMES.dlx, "")(roles)


async def test_an_agent_service_looks_at_what_waits_for_a_person(roles: Roles) -> None:
    subject = Subject(NAMES.approvals, "calls", "tests")
    async with looking(
        roles.url("agent"), subject, timeout_s=WAIT_S, name="tests", patience=Patience()
    ) as look:
        assert look.total >= 0


async def test_a_tool_is_served_elsewhere(roles: Roles) -> None:
    queue, bound = tool(NAMES, "search")
    await declaring("tool-search", queue)(roles)
    await binding("tool-search", bound)(roles)
    server = await connect(roles.url("tool-search"), timeout_s=WAIT_S, name="tests")
    client = await connect(roles.url("agent"), timeout_s=WAIT_S, name="tests")
    try:
        async with one_channel(client, WAIT_S) as asking, one_channel(server, WAIT_S) as serving:
            replies: asyncio.Queue[bytes] = asyncio.Queue()

            async def answered(message: DeliveredMessage) -> None:
                await replies.put(message.body)

            async def serve(message: DeliveredMessage) -> None:
                back = message.header.properties.reply_to or ""
                await serving.basic_publish(b"found", exchange="", routing_key=back)

            await asking.basic_consume("amq.rabbitmq.reply-to", answered, no_ack=True)
            await serving.basic_consume(queue.name, serve, no_ack=True)
            await asking.basic_publish(
                b"{}",
                exchange=NAMES.tools,
                routing_key="search",
                properties=Basic.Properties(reply_to="amq.rabbitmq.reply-to"),
            )
            async with asyncio.timeout(WAIT_S):
                assert await replies.get() == b"found"
    finally:
        await close(client)
        await close(server)


INTERACTIVE = NAMES.jobs_queue("interactive")
FORBIDDEN: dict[str, Deed] = {
    "a worker reads no results": consuming("worker", NAMES.results_queue("default")),
    "a worker reads no dead letters": consuming("worker", NAMES.dead),
    "a worker declares nothing": declaring("worker", Queue(NAMES.dead, {})),
    "a worker judges nothing": consuming("worker", NAMES.checks),
    "a checker takes no jobs": consuming("checker", INTERACTIVE),
    "a checker publishes no jobs": publishing("checker", NAMES.jobs, "jobs.batch"),
    "a checker reads no dead letters": consuming("checker", NAMES.dead),
    "a checker declares nothing": declaring("checker", Queue(NAMES.checks, {})),
    "a worker takes no agent jobs": consuming("worker", NAMES.agents),
    "a worker calls no tools": publishing("worker", NAMES.tools, "search"),
    "an agent service takes no jobs": consuming("agent", INTERACTIVE),
    "an agent service reads no dead letters": consuming("agent", NAMES.dead),
    "an agent service retries nothing": publishing("agent", NAMES.retry, "agents", rung="5s"),
    "an agent service serves no tools": declaring("agent", tool(NAMES, "search")[0]),
    "a tool's server has its own queue alone": declaring("tool-search", tool(NAMES, "other")[0]),
    "a tool's server makes no jobs": publishing("tool-search", NAMES.jobs, "jobs.batch"),
    "a tool's server calls no tools": publishing("tool-search", NAMES.tools, "search"),
    "a tool's server reads no journal": consuming("tool-search", NAMES.journal),
    "a publisher takes no agent jobs": consuming("publisher", NAMES.agents),
    "a publisher reads no journal": consuming("publisher", NAMES.journal),
    "a publisher calls no tools": publishing("publisher", NAMES.tools, "search"),
    "a publisher approves nothing": consuming("publisher", NAMES.approvals),
    "a publisher reads no candidates": consuming("publisher", NAMES.checks),
    "a publisher retries nothing": publishing("publisher", NAMES.retry, "jobs.batch", rung="5s"),
    "a publisher takes no jobs": consuming("publisher", INTERACTIVE),
    "a publisher makes no results": publishing("publisher", NAMES.results, "default"),
    "a publisher makes no events": publishing("publisher", NAMES.events, "a.b.c"),
    "a publisher has no named queue": declaring("publisher", reply(NAMES, "orders")[0]),
    "a publisher reads no other's queue": consuming("publisher", NAMES.results_queue("default")),
    "a publisher reroutes no jobs": binding("publisher", Binding(NAMES.jobs, NAMES.dead, "x")),
    "a backend has its own queue alone": declaring("orders", reply(NAMES, "bills")[0]),
    "a backend reads its own queue alone": consuming("orders", NAMES.results_queue("default")),
    "a worker deletes no queue": deleting("worker", INTERACTIVE),
    "a checker deletes no queue": deleting("checker", NAMES.checks),
    "a publisher deletes no queue": deleting("publisher", NAMES.dead),
    "an operator takes no jobs": consuming("operator", INTERACTIVE),
    "an operator reads no results": consuming("operator", NAMES.results_queue("default")),
    "a publisher reads no dead letters": consuming("publisher", NAMES.dead),
    "a publisher pauses nothing": publishing("publisher", NAMES.pauses, ""),
    "a publisher hears no other's results": hearing("publisher", NAMES.results, "orders"),
    "a publisher hears not all results": hearing("publisher", NAMES.results, "#"),
    "a publisher hears no other's events": hearing("publisher", NAMES.events, "orders.#"),
    "a publisher hears not all events": hearing("publisher", NAMES.events, "#"),
    "a backend hears no other's results": hearing("orders", NAMES.results, "bills"),
    "a backend hears not all results": hearing("orders", NAMES.results, "*"),
    "a backend hears no other's events": hearing("orders", NAMES.events, "bills.#"),
    "a watcher hears no results": hearing("watcher", NAMES.results, "#"),
    "a watcher pauses nothing": publishing("watcher", NAMES.pauses, ""),
    "a tool's server tells of no jobs": publishing("tool-search", NAMES.events, "a.b.finished"),
    "a tool's server pauses nothing": publishing("tool-search", NAMES.pauses, ""),
    "a watcher publishes nothing": publishing("watcher", NAMES.jobs, "jobs.batch"),
    "a watcher reads no results": consuming("watcher", NAMES.results_queue("default")),
}


@pytest.mark.parametrize("deed", FORBIDDEN.values(), ids=FORBIDDEN.keys())
async def test_nobody_does_more_than_its_work(roles: Roles, deed: Deed) -> None:
    with pytest.raises(AccessRefused):
        await deed(roles)
