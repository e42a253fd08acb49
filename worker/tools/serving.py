"""What becomes of a request to a tool that is served here: refused, joined, answered again, or run
and answered."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from ...producer.confirms import ConfirmedPublisher
from ...producer.errors import BrokerError, Unroutable
from ...producer.subscription import Delivery
from ...producer.tasks import answer_cancellation, see_through
from ...schemas import InvalidMessage, decode, encode
from ...schemas.codec import tag_of
from ...schemas.limits import MAX_AGENT_ROUNDS, MAX_ID_CHARS
from ...schemas.tools import ToolReply, ToolRequest, ToolResult, ToolStatus
from .context import ToolContext
from .outcome import failed
from .registry import Registry
from .remote import ROUND_HEADER
from .runner import Runner
from .tool import Tool

log = logging.getLogger(__name__)

Key = tuple[str, str]

# Each holds a result, which is at most some 20,000 characters.
REMEMBERED: Final = 1_000
# An answer that nobody has fetched by then is not waited for any more.
_ANSWER_KEPT_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class _Asked:
    """Somebody who waits for an answer."""

    request_id: str
    effect_id: str
    delivery: Delivery


@dataclass(slots=True)
class _Running:
    """A call under way, and all who wait for it."""

    job_id: str
    asked: list[_Asked] = field(default_factory=list[_Asked])
    task: asyncio.Task[None] | None = None
    begun: bool = False
    called_off: bool = False


class ToolIntake:
    """Owns every request to this server. The only place where one is settled.

    A call is known by tool and effect id. One that runs already is joined, one that was answered
    not long ago is answered from memory. A request that was delivered before, to a server that did
    not live to answer it, is run only where the tool is idempotent: else what was done is unknown.
    """

    def __init__(
        self,
        group: asyncio.TaskGroup,
        registry: Registry,
        runner: Runner,
        publisher: ConfirmedPublisher,
        *,
        server: str,
        publish_timeout_s: float,
    ) -> None:
        self._group = group
        self._registry = registry
        self._runner = runner
        self._publisher = publisher
        self._server = server
        self._publish_timeout_s = publish_timeout_s
        self._running: dict[Key, _Running] = {}
        self._answered: OrderedDict[Key, ToolResult] = OrderedDict()
        self._closed = False
        self._late: list[Delivery] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls: set[asyncio.Task[None]] = set()
        self._nothing_left = asyncio.Event()
        self._nothing_left.set()

    def __repr__(self) -> str:
        return f"<ToolIntake, {len(self._running)} calls under way>"

    def take(self, delivery: Delivery) -> None:
        """Decide what a delivery is. Never waits."""
        if self._closed:
            self._late.append(delivery)
            return
        try:
            request = decode(delivery.body, ToolRequest)
        except InvalidMessage as error:
            self._start(self._refuse(delivery, error), "refuse")
            return
        if request.expires_at <= datetime.now(UTC):
            log.info("%s came too late for %s, dropped", request.name, request.job_id)
            self._start(_acknowledge(delivery), "drop")
            return
        asked = _Asked(request.id, request.effect_id, delivery)
        key = (request.name, request.effect_id)
        tool = self._registry.get(request.name)
        if (running := self._running.get(key)) is not None:
            running.asked.append(asked)
        elif (result := self._answered.get(key)) is not None:
            self._start(self._answer(asked, result), "answer again")
        elif (refusal := _refusal(tool, request, delivery)) is not None:
            self._start(self._answer(asked, refusal), "answer")
        elif tool is not None:
            self._running[key] = running = _Running(request.job_id, [asked])
            call = self._call(key, tool, request, _round(delivery))
            running.task = self._start(call, f"call {request.name}")
            self._calls.add(running.task)

    def cancel(self, job_id: str) -> None:
        """A job was called off: its calls are ended, and answered as of unknown effect."""
        for running in self._running.values():
            # Cancelled before its first step, a task would not even settle what it was given.
            if running.job_id == job_id and running.begun and running.task is not None:
                running.called_off = True
                running.task.cancel()

    def close(self) -> None:
        """Begin nothing more. What is still delivered waits for `hand_back`."""
        self._closed = True

    async def hand_back(self) -> None:
        """Return what came after `close`. A call that must not be made twice is answered instead:
        another server could not tell that it was not begun."""
        for delivery in self._late:
            await self._hand_back(delivery)
        self._late.clear()

    async def idle(self, timeout_s: float) -> bool:
        """Wait until nothing is under way; False when that takes longer."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._nothing_left.wait()
        except TimeoutError:
            return False
        return True

    def interrupt(self, why: str) -> None:
        """End the calls that run; their requests go back to the queue."""
        log.info("cancelling %d calls: %s", len(self._calls), why)
        for task in self._calls:
            task.cancel()

    def abandon(self) -> None:
        """Let go of everything, unsettled: it goes back when the channels close."""
        for task in self._tasks:
            task.cancel()

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        self._nothing_left.clear()
        task = self._group.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._calls.discard(task)
        if not self._tasks:
            self._nothing_left.set()

    async def _call(self, key: Key, tool: Tool, request: ToolRequest, number: int) -> None:
        running = self._running[key]
        running.begun = True
        context = ToolContext(job_id=request.job_id, round=number, effect_id=request.effect_id)
        left_s = (request.expires_at - datetime.now(UTC)).total_seconds()
        try:
            result = await self._runner.run(
                tool, request.arguments, context, timeout_s=max(0.0, left_s)
            )
        except asyncio.CancelledError:
            if not running.called_off:
                del self._running[key]
                await see_through(_return(running.asked))
                raise
            answer_cancellation()
            result = failed(_CALLED_OFF, tool.spec.volatile, ToolStatus.UNKNOWN)
        self._keep(key, result)
        del self._running[key]
        log.info("%s for %s: %s", tool.name, request.job_id, result.status)
        # Nobody joins from here on: who comes now is answered from memory.
        for asked in running.asked:
            await self._answer(asked, result)

    def _keep(self, key: Key, result: ToolResult) -> None:
        self._answered[key] = result
        while len(self._answered) > REMEMBERED:
            self._answered.popitem(last=False)

    async def _answer(self, asked: _Asked, result: ToolResult) -> None:
        """Publish an answer, then acknowledge the request."""
        reply = ToolReply(
            id=asked.request_id,
            effect_id=asked.effect_id,
            result=result,
            server=self._server[:256],
        )
        reply_to = asked.delivery.message.header.properties.reply_to
        if not reply_to:
            log.warning("request %s does not say where the answer goes", asked.request_id)
        else:
            try:
                await self._publisher.publish(
                    "",
                    reply_to,
                    encode(reply),
                    kind=tag_of(ToolReply),
                    correlation_id=asked.request_id,
                    expiration_s=_ANSWER_KEPT_S,
                    timeout_s=self._publish_timeout_s,
                )
            except Unroutable:
                log.info("nobody waits for the answer to %s any more", asked.request_id)
            except BrokerError as error:
                log.warning("%s could not be answered: %s", asked.request_id, error)
                await asked.delivery.nack()
                return
        await _acknowledge(asked.delivery)

    async def _refuse(self, delivery: Delivery, error: InvalidMessage) -> None:
        log.warning("a request can't be read: %s", error)
        request_id = (delivery.correlation_id or "")[:MAX_ID_CHARS]
        if not request_id:
            await _acknowledge(delivery)
            return
        asked = _Asked(request_id, request_id, delivery)
        await self._answer(asked, failed(f"the request can't be read: {error}"))

    async def _hand_back(self, delivery: Delivery) -> None:
        try:
            request = decode(delivery.body, ToolRequest)
        except InvalidMessage as error:
            await self._refuse(delivery, error)
            return
        tool = self._registry.get(request.name)
        if tool is not None and tool.spec.idempotent:
            await delivery.nack()
            return
        asked = _Asked(request.id, request.effect_id, delivery)
        await self._answer(asked, failed("it was not run, since its server stops: call it again"))


_CALLED_OFF: Final = "its job was called off while it ran: what it had done by then is not known"


def _refusal(tool: Tool | None, request: ToolRequest, delivery: Delivery) -> ToolResult | None:
    if tool is None:
        return failed(f"no {request.name} is served here", status=ToolStatus.UNKNOWN_TOOL)
    if delivery.redelivered and not tool.spec.idempotent:
        log.warning("%s for %s was begun before: not run again", tool.name, request.job_id)
        return failed(
            "it was begun by a server that ended before it answered: what was done is not known, "
            "and it was not run again",
            status=ToolStatus.UNKNOWN,
        )
    return None


def _round(delivery: Delivery) -> int:
    told = (delivery.message.header.properties.headers or {}).get(ROUND_HEADER)
    return told if isinstance(told, int) and 0 <= told <= MAX_AGENT_ROUNDS else 0


async def _acknowledge(delivery: Delivery) -> None:
    # Where it can't be, it comes again, and is answered from memory.
    await delivery.ack()


async def _return(asked: list[_Asked]) -> None:
    for each in asked:
        await each.delivery.nack()
