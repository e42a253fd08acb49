"""Calls of tools that are served elsewhere, over the broker: a request, and the answer to it."""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import aiormq
import msgspec
from aio_pika.abc import AbstractRobustConnection
from aio_pika.exceptions import (
    ChannelInvalidStateError,
    ChannelNotFoundEntity,
    DeliveryError,
    PublishError,
)
from aiormq.exceptions import ChannelAccessRefused
from pamqp.commands import Basic

from ...producer import declare
from ...producer.confirms import APP_ID, PERSISTENT
from ...producer.connection import (
    CONNECTION_LOST,
    address,
    close_channel,
    lost_not_cancelled,
    open_channel,
)
from ...producer.errors import BrokerError, BrokerUnreachable, TopologyMissing
from ...producer.reply_queue import ReplyQueue
from ...producer.subscription import Delivery, Subscription
from ...producer.tasks import end, see_through, spawn
from ...schemas import InvalidMessage, Names, decode, encode
from ...schemas.codec import CONTENT_TYPE, tag_of
from ...schemas.tools import RAN, ToolReply, ToolRequest, ToolResult, ToolSpec, ToolStatus
from .context import ToolContext
from .outcome import MAX_ERROR_CHARS, failed

log = logging.getLogger(__name__)

# The header that tells a tool elsewhere which round it is called in.
ROUND_HEADER: Final = "round"
_SAID: Final = RAN | {ToolStatus.INVALID_ARGUMENTS, ToolStatus.UNKNOWN_TOOL}
_NO_SERVER: Final = "no one serves this tool"
# A server that is about to come back, after a restart of the broker say, is waited for.
_SERVER_BACK_S: Final = 2.0
_PAUSE_S: Final = 0.1
_STEP_S: Final = 10.0


class _NotSent(Exception):
    """The request did not reach the broker, or was refused by it. Says why."""


class RemoteTools:
    """Calls tools by their queues. `start` it first, `stop` it last.

    Answers come to a private queue, which outlives a lost connection: what is answered meanwhile is
    there afterwards. A request is sent once. Where the connection is lost before the broker has
    confirmed it, it may have been stored, and a second one could be a second effect; so its answer
    is waited for.
    """

    def __init__(self, connection: AbstractRobustConnection, names: Names) -> None:
        self._connection = connection
        self._names = names
        self._reply = ReplyQueue(connection, names, None)
        self._subscription = Subscription(
            connection,
            what="answers of tools",
            prepare=self._prepare,
            on_message=self._on_message,
        )
        self._queue = ""
        self._waiting: dict[str, asyncio.Future[ToolResult]] = {}
        self._to_ack: asyncio.Queue[Delivery] = asyncio.Queue()
        self._acker: asyncio.Task[None] | None = None
        self._channel: aiormq.abc.AbstractChannel | None = None
        self._opening = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<RemoteTools, {len(self._waiting)} calls under way>"

    async def start(self, on_death: Callable[[BaseException], None]) -> None:
        """Return when answers can come. Raises BrokerError."""
        self._acker = spawn(self._ack_all(), "acknowledgements of tools", on_death)
        await self._subscription.start(on_death)

    async def stop(self) -> None:
        """Let go of everything. Calls under way end as unknown. Harmless twice."""
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_result(
                    failed("its caller stopped before it answered", status=ToolStatus.UNKNOWN)
                )
        await self._subscription.stop()
        acker, self._acker = self._acker, None
        await end(acker)
        channel, self._channel = self._channel, None
        if channel is not None:
            await see_through(close_channel(channel))
        if self._queue:
            self._queue = ""
            await self._reply.delete()

    async def call(
        self,
        spec: ToolSpec,
        arguments: dict[str, Any],
        context: ToolContext,
        timeout_s: float | None = None,
    ) -> ToolResult:
        """What the tool's server answers within `timeout_s` seconds, or the tool's own time where
        that is shorter. Raises nothing that the tool, its server or the broker does.

        An error at once where no one serves the tool, or the broker refuses the request: then
        nothing was run. Timeout where no answer comes in time: then it is not known.
        """
        limit_s = spec.timeout_s if timeout_s is None else min(timeout_s, spec.timeout_s)
        began = time.monotonic()
        try:
            request = ToolRequest(
                job_id=context.job_id,
                name=spec.name,
                arguments=arguments,
                effect_id=context.effect_id,
                expires_at=datetime.now(UTC) + timedelta(seconds=limit_s),
            )
            body = encode(request)
        except InvalidMessage as error:
            return failed(str(error), status=ToolStatus.INVALID_ARGUMENTS)
        result = await self._ask(request, body, context.round, limit_s)
        return msgspec.structs.replace(result, seconds=time.monotonic() - began)

    async def _ask(
        self, request: ToolRequest, body: bytes, number: int, limit_s: float
    ) -> ToolResult:
        answer: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        self._waiting[request.id] = answer
        sent = False
        try:
            async with asyncio.timeout(limit_s):
                await self._require_server(request.name)
                await self._send(request, body, number, limit_s)
                sent = True
                return await answer
        except _NotSent as error:
            return failed(str(error))
        except TimeoutError:
            if not sent:
                return failed("the broker could not be reached in time, so it was not run")
            return failed(
                f"no answer within {limit_s:g} s; whether it was run is not known",
                status=ToolStatus.TIMEOUT,
            )
        finally:
            del self._waiting[request.id]

    async def _require_server(self, name: str) -> None:
        """Raise _NotSent where nobody consumes the tool's queue: it stands for a day after its last
        server, and a request in it would wait for nothing."""
        deadline = time.monotonic() + _SERVER_BACK_S
        while True:
            consumers = 0
            try:
                async with declare.one_channel(self._connection, _STEP_S) as channel:
                    told = await channel.queue_declare(self._names.tool_queue(name), passive=True)
                    consumers = told.consumer_count or 0
            except ChannelNotFoundEntity:
                raise _NotSent(_NO_SERVER) from None
            except ChannelAccessRefused:
                return  # this user may not ask; it may still write
            except BrokerError as error:
                if self._connection.is_closed:
                    raise _NotSent(str(error)) from error
                deadline = time.monotonic() + _SERVER_BACK_S
            if consumers:
                return
            if time.monotonic() > deadline:
                raise _NotSent(_NO_SERVER)
            await asyncio.sleep(_PAUSE_S)

    async def _send(
        self, request: ToolRequest, body: bytes, number: int, expiration_s: float
    ) -> None:
        """Hand a request to the broker, once. Raises _NotSent where that is sure not to have been
        done; returns where it was, or may have been."""
        properties = Basic.Properties(
            content_type=CONTENT_TYPE,
            delivery_mode=PERSISTENT,
            # Fresh, and not the request's own: returned messages are told apart by it alone.
            message_id=uuid.uuid4().hex,
            correlation_id=request.id,
            reply_to=self._queue,
            message_type=tag_of(ToolRequest),
            timestamp=datetime.now(UTC),
            app_id=APP_ID,
            headers={ROUND_HEADER: number},
            expiration=str(max(1, round(expiration_s * 1000))),
        )
        while True:
            try:
                channel = await self._open()
            except BrokerUnreachable as error:
                if self._connection.is_closed:
                    raise _NotSent(str(error)) from error
                await asyncio.sleep(_PAUSE_S)
                continue
            try:
                with lost_not_cancelled():
                    await channel.basic_publish(
                        body,
                        exchange=self._names.tools,
                        routing_key=request.name,
                        properties=properties,
                        mandatory=True,
                    )
            except PublishError as error:
                raise _NotSent(_NO_SERVER) from error
            except DeliveryError as error:
                raise _NotSent("its queue is full: try again later") from error
            except ChannelAccessRefused as error:
                raise _NotSent("the broker's user here may not call tools") from error
            except ChannelInvalidStateError:
                continue  # raised before the first byte was sent
            except CONNECTION_LOST as error:
                log.warning("%s: lost while calling %s: %s", self, request.name, error)
            return

    async def _open(self) -> aiormq.abc.AbstractChannel:
        """The channel for requests. Raises BrokerUnreachable, _NotSent."""
        async with self._opening:
            if self._channel is None or self._channel.is_closed:
                channel = await open_channel(self._connection, confirms=True, timeout_s=_STEP_S)
                try:
                    with lost_not_cancelled():
                        await channel.exchange_declare(exchange=self._names.tools, passive=True)
                except ChannelNotFoundEntity as error:
                    missing = TopologyMissing([f"exchange {self._names.tools!r}"])
                    raise _NotSent(str(missing)) from error
                except CONNECTION_LOST as error:
                    where = address(self._connection)
                    raise BrokerUnreachable(f"lost {where}: {error}") from error
                except BaseException:
                    await see_through(close_channel(channel))
                    raise
                self._channel = channel
            return self._channel

    async def _prepare(self) -> str:
        self._queue = await self._reply.prepare()
        return self._queue

    def _on_message(self, delivery: Delivery) -> None:
        self._to_ack.put_nowait(delivery)
        try:
            reply = decode(delivery.body, ToolReply)
        except InvalidMessage as error:
            log.warning("an answer of a tool can't be read: %s", error)
            answer = self._waiting.get(delivery.correlation_id or "")
            result = failed(f"its answer can't be read: {error}")
        else:
            answer = self._waiting.get(reply.id)
            result = believed(reply.result)
        if answer is None or answer.done():
            log.info("an answer of a tool came too late: %s", delivery.correlation_id)
        else:
            answer.set_result(result)

    async def _ack_all(self) -> None:
        while True:
            # Where it can't be, the answer comes again, and nobody waits for it any more.
            await (await self._to_ack.get()).ack()


def believed(result: ToolResult) -> ToolResult:
    """What a server may say of a call. Whether one is allowed, or within its quota, is not its to
    decide: what it says so was run all the same, and is counted."""
    if result.status in _SAID:
        return result
    return failed(f"its server answered {result.status}: {result.content}"[:MAX_ERROR_CHARS])
