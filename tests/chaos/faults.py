"""Doing a fault to a site, and undoing it."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sluicegate.ops.service_process import ServiceProcess
from sluicegate.producer.connection import close, connect, open_channel
from sluicegate.schemas import topology
from sluicegate.schemas.topology import Queue

from . import clock
from .schedule import Fault, Step
from .site import WAIT_S, Site

# RabbitMQ 3.10 can't delete a queue that dead-letters at least once when its node has only just
# come up: its dead-letter worker crashes, until the node is stopped.
SETTLED_NODE_S = 10.0
EMPTY_S = 8.0
ACK_S = 3.0
# A second for what runs, and what it takes to hand back the rest.
DRAIN_S = 10.0


@dataclass(frozen=True)
class Injected:
    """A fault that was done: from when to when by the monotonic clock, and how it went."""

    step: Step
    began: float
    ended: float
    note: str
    in_flight: int

    @property
    def done(self) -> bool:
        """Whether it came to pass."""
        return not self.note

    def __str__(self) -> str:
        target = f" ({self.step.target})" if self.step.target else ""
        note = f": {self.note}" if self.note else ""
        return f"{self.step.fault}{target} {self.ended - self.began:.1f} s{note}"


class Injector:
    """Does one fault after the other."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._broker_up = time.monotonic()
        self.shifted: set[tuple[str, Fault]] = set()

    async def inject(self, step: Step, in_flight: int) -> Injected:
        """Do it and undo it; `in_flight` jobs were under way."""
        began = time.monotonic()
        note = await self._do(step)
        return Injected(step, began, time.monotonic(), note, in_flight)

    def late(self) -> frozenset[str]:
        """Services that may have made a deadline pass which had not: those whose clock was set
        forward; and agent services whose clock was wrong at all, for they set those of their
        rounds."""
        return frozenset(
            name
            for name, fault in self.shifted
            if fault == "clock set forward" or name.startswith("agent")
        )

    async def heal(self) -> None:
        """Nothing is in the way any more."""
        await self._site.broker.start()
        for proxy in self._site.proxies.values():
            proxy.heal()
        await self._site.ready()
        if not self._site.backend.runs:
            await self._site.backend.start()

    async def _do(self, step: Step) -> str:  # noqa: C901, PLR0912 - one case for each fault
        site = self._site
        proxy = site.proxies.get(step.target)
        match step.fault:
            case "broker killed":
                await site.broker.kill()
                await asyncio.sleep(step.length_s)
                await site.broker.start()
                self._broker_up = time.monotonic()
            case "broker restarted":
                await site.broker.restart()
                self._broker_up = time.monotonic()
            case "disk alarm":
                await self._alarm(("set_disk_free_limit", "1000000GB"), step.length_s)
                await site.broker.control("set_disk_free_limit", "50MB")
            case "memory alarm":
                await self._alarm(("set_vm_memory_high_watermark", "0.000001"), step.length_s)
                await site.broker.control("set_vm_memory_high_watermark", "0.4")
            case "queue deleted and declared":
                return await self._delete(step)
            case "SIGKILL":
                await self._kill(step)
            case "SIGTERM":
                service = site.services[step.target]
                await site.ready(step.target)
                service.signal(signal.SIGTERM)
                if site.engine == "scripted":
                    await _drained(service)
                await service.wait()
                await asyncio.sleep(step.length_s)
                await site.restart(step.target)
            case "clock set back" | "clock set forward":
                return await self._shift(step)
            case _:
                assert proxy is not None
                match step.fault:
                    case "connections cut":
                        proxy.cut()
                    case "half open":
                        proxy.half_open()
                        await asyncio.sleep(step.length_s)
                    case "confirmation lost" | "settlement lost":
                        proxy.lose_ack("client" if step.fault == "confirmation lost" else "broker")
                        note = await _until(lambda: _now(not proxy.losing), ACK_S)
                        proxy.heal()
                        return note
                    case _:
                        await self._stall(step)
        return ""

    async def _shift(self, step: Step) -> str:
        """An hour off, and then right again; a note where the service did not follow."""
        service = self._site.services[step.target]
        ways = [clock.BACK, clock.FORWARD]
        if step.fault == "clock set forward":
            ways.reverse()
        self.shifted.add((step.target, step.fault))
        # Not yet ready it might not know the signal, which would end it.
        await self._site.ready(step.target)
        before, pid = _times_set(service), service.pid
        service.signal(ways[0])
        await asyncio.sleep(step.length_s)
        service.signal(ways[1])
        note = await _until(lambda: _now(_times_set(service) == before + 2), ACK_S)
        return note or ("" if service.runs and service.pid == pid else "the service ended of it")

    async def _alarm(self, command: tuple[str, ...], length_s: float) -> None:
        await self._site.broker.control(*command)
        await asyncio.sleep(length_s)

    async def _stall(self, step: Step) -> None:
        proxy = self._site.proxies[step.target]
        ways = {
            "network stalled": [proxy.flowing],
            "stalled towards the broker": [proxy.towards["broker"]],
            "stalled towards the client": [proxy.towards["client"]],
        }[step.fault]
        for way in ways:
            way.clear()
        await asyncio.sleep(step.length_s)
        for way in ways:
            way.set()

    async def _kill(self, step: Step) -> None:
        site = self._site
        if step.target == "backend":
            await site.backend.kill()
            await asyncio.sleep(step.length_s)
            await site.backend.start()
            return
        service = site.services[step.target]
        if site.engine == "vllm":
            # It takes a minute to load, and killed meanwhile it has held no job.
            await site.ready(step.target)
        service.signal(signal.SIGKILL)
        await service.wait()
        await asyncio.sleep(step.length_s)
        await site.restart(step.target)

    async def _delete(self, step: Step) -> str:
        """Delete a queue under its consumers, and declare it again.

        What is in a deleted queue is gone, by the operator's own hand. So this is done as operators
        should: its binding is taken away first, so that nothing comes in; it is deleted when it
        holds nothing, deliveries that are under way included; then it is declared and bound again.
        """
        await asyncio.sleep(max(0.0, self._broker_up + SETTLED_NODE_S - time.monotonic()))
        queue = self._queue(step.target)
        (binding,) = (
            each
            for each in topology(self._site.names.namespace).bindings
            if each.queue == queue.name
        )
        connection = await connect(self._site.broker.url, timeout_s=WAIT_S, name="chaos")
        try:
            channel = await open_channel(connection, timeout_s=WAIT_S)
            await channel.queue_unbind(queue.name, binding.exchange, binding.routing_key)
            try:
                note = await _until(lambda: self._empty(queue.name), EMPTY_S)
                if not note:
                    await channel.queue_delete(queue.name)
                    await asyncio.sleep(step.length_s)
                    await channel.queue_declare(
                        queue.name, durable=True, arguments=dict(queue.arguments)
                    )
            finally:
                await channel.queue_bind(queue.name, binding.exchange, binding.routing_key)
        finally:
            await close(connection)
        return note

    async def _empty(self, queue: str) -> bool:
        return not await self._site.depths(queue)

    def _queue(self, target: str) -> Queue:
        names = self._site.names
        name = {
            "checks": names.checks,
            "new_agents": names.new_agents,
            "jobs_batch": names.jobs_queue("batch"),
        }[target]
        return next(each for each in topology(names.namespace).queues if each.name == name)


def _times_set(service: ServiceProcess) -> int:
    return service.log_file.read_text(errors="replace").count(clock.SAID)


async def _drained(service: ServiceProcess) -> None:
    """Wait for the end, for a while; then the log says what stands in its way."""
    try:
        await service.wait(DRAIN_S)
    except TimeoutError:
        service.signal(signal.SIGQUIT)


async def _now(said: bool) -> bool:
    return said


async def _until(holds: Callable[[], Awaitable[bool]], limit_s: float) -> str:
    """Wait until it holds; a note where it does not in time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            while not await holds():
                await asyncio.sleep(0.05)
            return ""
    return "did not come to pass"
