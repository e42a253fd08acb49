"""Everything that a run stands on: a broker of its own, a proxy for each process, the processes."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from pamqp.commands import Basic
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.ops.service_process import ServiceFailed, ServiceProcess
from sluicegate.producer import declare
from sluicegate.producer.connection import close, connect, open_channel
from sluicegate.schemas import Names, topology
from sluicegate.schemas.topology import RUNGS, Queue, reply
from sluicegate.worker.frame import ExitCode

from ..producer.proxy import Proxy, proxied
from . import jobs
from .backend import Order
from .members import BackendProcess, ScriptedService

NAMESPACE: Final = "chaos.v1"
TAP: Final = f"{NAMESPACE}.tap"
READY_S: Final = 60.0
ENGINE_READY_S: Final = 300.0
WAIT_S: Final = 20.0
_STARTS: Final = 5
Engine = Literal["scripted", "vllm"]

_SETTINGS: Final[dict[str, object]] = {
    "namespace": NAMESPACE,
    # A connection that nobody answers on is given up within four seconds.
    "heartbeat_s": 2,
    "publish_timeout_s": 20,
    "drain_grace_s": 1,
    "log_level": "info",
    "check_wait_s": 0.02,
}


@dataclass
class Taken:
    """A message taken from a queue for good."""

    body: bytes
    headers: Mapping[str, object]
    kind: str


@dataclass
class Site:
    """What faults are done to. Services and the backend by name."""

    broker: PrivateBroker
    folder: Path
    engine: Engine
    backend: BackendProcess
    services: dict[str, ServiceProcess] = field(default_factory=dict)
    proxies: dict[str, Proxy] = field(default_factory=dict)
    # Services that ended by themselves in a way that no supervisor expects.
    ends: list[str] = field(default_factory=list)
    names: Names = field(default_factory=lambda: Names(NAMESPACE))

    @property
    def journal(self) -> Path:
        """What the backend writes."""
        return self.folder / "journal"

    @property
    def replies(self) -> str:
        """The backend's own queue of results."""
        return self.names.results_queue(jobs.REPLY)

    @property
    def work_queues(self) -> tuple[str, ...]:
        """Where nothing may be left."""
        names = self.names
        return (
            *(names.jobs_queue(lane) for lane in ("interactive", "batch")),
            *(names.checks, names.new_agents, names.agents, names.approvals),
            *(names.retry_queue(rung) for rung in RUNGS),
        )

    async def restart(self, name: str) -> None:
        """Wait until a service has ended, note how if that was badly, and start it anew."""
        service = self.services[name]
        code = await service.wait()
        # What can't start, because nothing answers at that moment, is started anew by a supervisor.
        if code not in (ExitCode.OK, ExitCode.CANNOT_START, -signal.SIGKILL):
            self.ends.append(f"{name} with {code}")
        await service.start()

    async def revive(self) -> None:
        """Start the services that have ended."""
        for name, service in self.services.items():
            if not service.runs:
                await self.restart(name)

    async def ready(self, *names: str) -> None:
        """Wait until these services, or all, take work; as a supervisor does, start those that have
        ended."""
        async with asyncio.TaskGroup() as group:
            for name in names or self.services:
                group.create_task(self._ready(name))

    async def _ready(self, name: str) -> None:
        service = self.services[name]
        limit_s = ENGINE_READY_S if self.engine == "vllm" else READY_S
        for _ in range(_STARTS):
            try:
                return await service.ready(limit_s)
            except ServiceFailed:
                if service.runs:
                    raise
                await self.restart(name)
        return await service.ready(limit_s)

    async def depths(self, *queues: str) -> dict[str, int]:
        """Messages in these queues, or all of work, those that somebody holds included, as the
        queues themselves count; only where there are any."""
        wanted = queues or self.work_queues
        names = ",".join(f"'%2F_{queue}'" for queue in wanted)
        said = await self.broker.control(
            "eval",
            "lists:foreach(fun(Q) -> {ok, {_, N}, _} = ra:leader_query({Q, node()}, "
            'fun rabbit_fifo:query_messages_total/1), io:format("~B~n", [N]) end, '
            f"[{names}]).",
        )
        found = [int(word) for word in said.split() if word.isdecimal()]
        return {queue: n for queue, n in zip(wanted, found, strict=True) if n}

    async def take_all(self, queue: str) -> list[Taken]:
        """Everything in a queue, for good."""
        connection = await connect(self.broker.url, timeout_s=WAIT_S, name="chaos")
        taken: list[Taken] = []
        try:
            channel = await open_channel(connection, timeout_s=WAIT_S)
            while True:
                message = await channel.basic_get(queue, no_ack=True)
                if not isinstance(message.delivery, Basic.GetOk):
                    return taken
                properties = message.header.properties
                taken.append(
                    Taken(
                        bytes(message.body),
                        dict(properties.headers or {}),
                        properties.message_type or "",
                    )
                )
        finally:
            await close(connection)


@contextlib.asynccontextmanager
async def built(
    folder: Path,
    engine: Engine,
    seed: int,
    mix: Mapping[jobs.Kind, int],
    *,
    workers: int = 2,
    apart: bool = False,
) -> AsyncGenerator[Site]:
    """A site whose services take work; everything ends with the context. `apart`: with no proxies
    and no queue beside the backend's that gets each result as well."""
    async with PrivateBroker() as broker, contextlib.AsyncExitStack() as stack:
        await _declare(broker.url, [] if apart else [TAP])
        proxies: dict[str, Proxy] = {}

        async def way(name: str) -> str:
            if apart:
                return f"{broker.url}?heartbeat=2"
            proxies[name] = await stack.enter_async_context(proxied(broker.url, "?heartbeat=2"))
            return proxies[name].url

        tokens = 16 if engine == "vllm" else 200
        order = Order(
            url=await way("backend"),
            namespace=NAMESPACE,
            seed=seed,
            mix=mix,
            tokens=tokens,
            folder=str(folder),
        )
        backend = BackendProcess(order, folder / "backend.log")
        site = Site(broker, folder, engine, backend, proxies=proxies)
        names = [f"worker-{n}" for n in range(1, workers + 1)]
        names += ["checker-1", *(["agent-1"] if "agent" in mix else [])]
        for name in names:
            settings = {**_SETTINGS, "worker_id": name, "amqp_url": await way(name)}
            site.services[name] = service = _service(folder, engine, name, settings)
            service.log_file = folder / f"{name}.log"
            stack.push_async_callback(_end, service)
            await service.start()
        stack.push_async_callback(backend.stop)
        await site.ready()
        await backend.start()
        yield site


def _service(
    folder: Path, engine: Engine, name: str, settings: dict[str, object]
) -> ServiceProcess:
    kind = name.partition("-")[0]
    match kind:
        case "worker" if engine == "vllm":
            return _real_worker(folder, settings)
        case "worker" | "checker" | "agent":
            scripted = {**settings, "engine": "scripted", "lanes": "interactive=16,batch=16"}
            return ScriptedService(folder, scripted, kind)
        case _:
            raise ValueError(f"no service is called {name!r}")


def _real_worker(folder: Path, settings: dict[str, object]) -> ServiceProcess:
    from sluicegate.ops.embedded_model import resolve_model

    real = {
        "model": resolve_model(None),
        "max_model_len": 512,
        "enforce_eager": True,
        "kv_cache_gib": 0.25,
        "lanes": "interactive=4,batch=4",
    }
    return ServiceProcess(folder, {**settings, **real})


async def _end(service: ServiceProcess) -> None:
    if service.runs:
        await service.stop()


async def _declare(url: str, beside: Sequence[str]) -> None:
    """The topology, the backend's queue, and queues beside it that get each result as well."""
    connection = await connect(url, timeout_s=WAIT_S, name="chaos")
    try:
        await declare.apply(connection, topology(NAMESPACE))
        channel = await open_channel(connection, timeout_s=WAIT_S)
        queue, binding = reply(Names(NAMESPACE), jobs.REPLY)
        for one in (queue, *(Queue(name, queue.arguments) for name in beside)):
            await channel.queue_declare(one.name, durable=True, arguments=dict(one.arguments))
            await channel.queue_bind(one.name, binding.exchange, binding.routing_key)
    finally:
        await close(connection)
