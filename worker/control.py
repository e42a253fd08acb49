"""What publishers and operators say to all services, as it is heard here: jobs that are called off,
and what is to be paused.

It is read from two streams on the broker, from their beginning on: so a service that starts later,
or was cut off, knows what was said before. What it has read, it reads once.
"""

import asyncio
import logging
import uuid
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import msgspec
from aio_pika.abc import AbstractRobustConnection
from msgspec import Struct

from ..producer.confirms import ConfirmedPublisher
from ..producer.connection import CONNECTION_LOST
from ..producer.errors import AccessRefused
from ..producer.subscription import Delivery, Subscription
from ..producer.tasks import end
from ..schemas import (
    CancelJob,
    InvalidMessage,
    Names,
    Pause,
    Reason,
    Resume,
    SluiceError,
    decode,
)
from ..schemas.codec import tag_of
from ..schemas.errors import tame
from ..schemas.services import ServiceKind
from .cancellations import Cancellations
from .pauses import Pauses

log = logging.getLogger(__name__)

# A message that only says: so far was written when the reading began.
FENCE: Final = "fence"
# Who holds a subscription that is paused.
PAUSED: Final = "paused"
_PREFETCH: Final = 1_000
# After an outage it is read again from so long before: clocks differ, and the broker finds a time
# by whole chunks. What comes twice is known by its message id.
_SLACK: Final = timedelta(hours=1)
_KNOWN: Final = 10_000
# A message that is older when it is heard is no news.
_FRESH: Final = timedelta(minutes=1)
_STEP_S: Final = 10.0
_AGAIN_S: Final = 5.0
_UNFENCED_S: Final = 0.5
# How long work waits for what was said before.
CAUGHT_UP_S: Final = 15.0


class Control:
    """Hears what is said, and knows what holds. `on_cancel` may be set to a callback that is told
    each job that is called off while this service listens; `news` is set when a pause came or went.
    """

    def __init__(self, names: Names, service: str, kind: ServiceKind) -> None:
        self._names = names
        self._service = service
        self.cancellations = Cancellations()
        self.pauses = Pauses(service, kind)
        self.news = asyncio.Event()
        self.on_cancel: Callable[[str], None] | None = None
        self._logs = (
            _Log(names.control, names.control_log, self._hear),
            _Log(names.pauses, names.pauses_log, self._hear),
        )

    def __repr__(self) -> str:
        return f"<Control of {self._service}: {self.cancellations!r}, {self.pauses!r}>"

    @asynccontextmanager
    async def listening(
        self, connection: AbstractRobustConnection, on_death: Callable[[BaseException], None]
    ) -> AsyncGenerator[None]:
        """Listen for as long as this lasts."""
        publisher = ConfirmedPublisher(connection)
        listening = [
            asyncio.create_task(
                each.run(connection, publisher, on_death), name=f"control {each.stream}"
            )
            for each in self._logs
        ]
        try:
            yield
        finally:
            for task in listening:
                await end(task)
            await publisher.close()

    @property
    def trouble(self) -> Exception | None:
        """What is in the way of hearing anything, where something is."""
        return next((each.trouble for each in self._logs if each.trouble is not None), None)

    async def caught_up(self) -> None:
        """Return when all is known that was said before. Where that can't be had, work goes on
        without: a job that is called off may be begun, and is ended when it is heard of."""
        try:
            async with asyncio.timeout(CAUGHT_UP_S):
                for each in self._logs:
                    await each.caught_up.wait()
        except TimeoutError:
            log.warning(
                "what was called off or paused before is not known within %g s; work begins "
                "without it",
                CAUGHT_UP_S,
            )

    async def until_news(self) -> None:
        """Return when a pause came, went, or is over."""
        try:
            async with asyncio.timeout(self.pauses.next_end(datetime.now(UTC))):
                await self.news.wait()
        except TimeoutError:
            pass
        self.news.clear()

    def _hear(self, body: bytes, live: bool) -> None:
        now = datetime.now(UTC)
        kind = _type_of(body)
        if kind == tag_of(CancelJob):
            message = decode(body, CancelJob)
            live = live and abs(now - message.at) < _FRESH
            self.cancellations.hear(message, now if live else None)
            if live:
                log.info("%s is called off%s", message.job_id, _why(message))
            if self.on_cancel is not None:
                self.on_cancel(message.job_id)
        elif kind == tag_of(Pause):
            self.pauses.hear(decode(body, Pause), now)
            self.news.set()
        elif kind == tag_of(Resume):
            self.pauses.hear(decode(body, Resume), now)
            self.news.set()
        else:
            raise InvalidMessage(Reason.UNKNOWN_TYPE, "$.type", f"{kind!r} is no control message")


class _Log:
    """One stream, read from its beginning on."""

    def __init__(self, exchange: str, stream: str, hear: Callable[[bytes, bool], None]) -> None:
        self._exchange = exchange
        self.stream = stream
        self._hear = hear
        self._fence = uuid.uuid4().hex
        self._read_until: datetime | None = None
        self._known: OrderedDict[str, None] = OrderedDict()
        self._arrived: asyncio.Queue[Delivery] = asyncio.Queue()
        self.caught_up = asyncio.Event()
        self.trouble: Exception | None = None

    async def run(
        self,
        connection: AbstractRobustConnection,
        publisher: ConfirmedPublisher,
        on_death: Callable[[BaseException], None],
    ) -> None:
        """Read until cancelled. Without the rights to, it says so, and tries again."""
        while True:
            subscription = Subscription(
                connection,
                what=self.stream,
                prepare=partial(_same, self.stream),
                on_message=self._arrived.put_nowait,
                prefetch=_PREFETCH,
                arguments=self._offset,
            )
            try:
                await subscription.start(on_death)
                await self._set_fence(publisher)
                self.trouble = None
                while True:
                    await self._take(await self._arrived.get())
            except (SluiceError, *CONNECTION_LOST) as error:
                if str(error) != str(self.trouble):
                    log.error("%s is not heard: %s", self.stream, error)  # noqa: TRY400
                self.trouble = error
                self.caught_up.set()
            finally:
                await subscription.stop()
            await asyncio.sleep(_AGAIN_S)

    async def _set_fence(self, publisher: ConfirmedPublisher) -> None:
        """Who may not write is taken to have read all that there was after a moment."""
        try:
            await publisher.publish(
                self._exchange,
                "",
                b"{}",
                kind=FENCE,
                correlation_id=self._fence,
                timeout_s=_STEP_S,
            )
        except AccessRefused:
            asyncio.get_running_loop().call_later(_UNFENCED_S, self.caught_up.set)

    def _offset(self) -> dict[str, Any]:
        """Where to read from: with each subscription, the first time and after an outage."""
        since = self._read_until
        return {"x-stream-offset": "first" if since is None else since - _SLACK}

    async def _take(self, delivery: Delivery) -> None:
        if delivery.message.header.properties.message_type == FENCE:
            if delivery.correlation_id == self._fence:
                self.caught_up.set()
        elif not self._is_known(delivery.message_id):
            self._hear_safely(delivery)
        if self.caught_up.is_set():
            self._read_until = datetime.now(UTC)
        # A stream keeps what is acknowledged; it opens the window for what comes next.
        await delivery.ack()

    def _is_known(self, message_id: str | None) -> bool:
        if message_id is None:
            return False
        if message_id in self._known:
            return True
        self._known[message_id] = None
        if len(self._known) > _KNOWN:
            self._known.popitem(last=False)
        return False

    def _hear_safely(self, delivery: Delivery) -> None:
        try:
            self._hear(delivery.body, self.caught_up.is_set())
        except InvalidMessage as error:
            log.warning("a control message can't be read, and is passed over: %s", error)
        except Exception:
            log.exception("a control message could not be followed")


class _Typed(Struct):
    type: str


def _type_of(body: bytes) -> str:
    """What a message says that it is. Raises InvalidMessage."""
    try:
        return msgspec.json.decode(body, type=_Typed).type
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidMessage(Reason.MALFORMED_JSON, "$", str(error)) from error


def _why(message: CancelJob) -> str:
    by = f" by {tame(message.by)}" if message.by else ""
    return f"{by}: {tame(message.reason)}" if message.reason else by


async def _same(stream: str) -> str:
    """It is there, or is not; operators make it, services don't."""
    return stream
