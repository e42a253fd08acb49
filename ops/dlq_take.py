"""Taking chosen dead letters out of their queue: to send them back, or to clear them away.

What is sent back and the acknowledgement of its letter are one AMQP transaction for each letter: a
program that is killed has done both or neither (killed at random moments on 3.10.8, in quorum
queues, nothing was lost or doubled). It is no promise against the death of the broker, in which the
halves of a transaction over two queues may part (https://www.rabbitmq.com/docs/semantics): what was
sent in the last moments before it may be lost, or be there twice. Nor does a transaction tell when
the queue that a message goes to is full: on 3.10.8 the message is dropped without a word. So jobs
go through the shortest queue of the retry exchange, which the broker empties itself, and its room
is looked at on the way. A full jobs queue makes them wait there (the broker tries again every three
minutes) and loses none.

A result goes to its reader directly, confirmed before its letter is acknowledged: should that be
cut in two, its reader drops the second copy, having had `(job_id, attempt)`.
"""

import asyncio
import contextlib
import itertools
import tempfile
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import aclosing
from typing import Any, Final, cast

import aiormq
from msgspec import Struct
from pamqp.commands import Basic

from ..producer.confirms import APP_ID, PERSISTENT, ConfirmedPublisher
from ..producer.connection import close_channel, open_channel
from ..producer.errors import AccessRefused, QueueFull, TopologyMissing, Unroutable
from ..schemas.codec import CONTENT_TYPE
from ..schemas.topology import MAX_QUEUE_LENGTH
from ..worker.config import Config
from .dlq_again import RUNG, RUNG_HEADER, Changes, Refusal, Sending, again
from .dlq_filter import utc_now
from .dlq_letter import Head, Letter
from .dlq_queue import STEP_S, Look, looking, told
from .dlq_spool import Spool

# Letters sent between two looks at the room there is, or cleared away in one step.
_STRIDE: Final = 100
# Letters sent back before the queue must have seen their acknowledgements. With 32 that it has not
# seen yet, a channel of RabbitMQ begins to keep them to itself.
_UNSEEN: Final = 16
# The headers that tell why the broker moved a message.
_STORY: Final = ("x-death", "x-first-death-reason", "x-first-death-queue")
Progress = Callable[[int], None]


class Taken(Struct, frozen=True):
    """What was done: letters taken; those that could not be, and why; chosen ones that are left: no
    longer there, or not come to where it was `stopped`; and letters that were taken with a newer
    one of the same attempt of their job, which alone was sent."""

    done: int
    refused: tuple[tuple[Head, str], ...] = ()
    left: int = 0
    stopped: bool = False
    besides: int = 0


async def send_back(
    config: Config,
    keys: Collection[str],
    changes: Changes,
    *,
    stop: asyncio.Event,
    progress: Progress,
) -> Taken:
    """Send the letters with these keys back, each once, however many copies of it there are. Of
    several letters of one attempt of a job the best by `Letter.rank` is sent, and all are taken.

    `stop` ends it between two letters. Raises BrokerUnreachable, TopologyMissing, QueueFull and
    the errors of `looking`; what was sent back until then stays so, and the rest stays a letter.
    """
    done = besides = kept = 0
    refused: list[tuple[Head, str]] = []
    with tempfile.TemporaryFile() as file:
        spool = Spool(file, changes)
        async with looking(config) as look:
            way = _Way(look, config.publish_timeout_s)
            await way.open()
            await spool.fill(look, keys, stop)
            for chosen in spool.chosen():
                if stop.is_set():
                    break
                letter = spool.letter(chosen)
                sending = again(letter, look.names, changes, utc_now())
                if isinstance(sending, Sending):
                    if done % _STRIDE == 0:
                        await way.require_room()
                    sending = await way.send(sending, letter, chosen.tags)
                if isinstance(sending, Refusal):
                    refused.append((letter.head, sending.why))
                    kept += len(chosen.keys)
                else:
                    done += 1
                    besides += len(chosen.keys) - 1
                    progress(done)
                    if done % _UNSEEN == 0:
                        await look.settled()
            await look.settled()
    gone = len(keys) - done - besides - kept
    return Taken(done, tuple(refused), gone, stop.is_set(), besides)


async def clear_away(
    config: Config, keys: Collection[str], *, stop: asyncio.Event, progress: Progress
) -> Taken:
    """Acknowledge the letters with these keys, which ends them. As `send_back` otherwise."""
    done = 0
    tags: dict[str, tuple[int, ...]] = {}
    async with looking(config) as look:
        async with aclosing(look.letters()) as letters:
            async for dead in letters:
                if stop.is_set():
                    break
                key = dead.letter.head.key
                if key in keys:
                    tags[key] = (*tags.get(key, ()), dead.tag)
        with told(look.connection):
            await look.channel.tx_select(timeout=STEP_S)  # a commit is one step for the queue
        for batch in _batches(list(tags.values())):
            if stop.is_set():
                break
            await _commit(look, itertools.chain.from_iterable(batch))
            await look.settled()
            done += len(batch)
            progress(done)
    return Taken(done, (), len(keys) - done, stop.is_set())


def _batches(tags: list[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
    for start in range(0, len(tags), _STRIDE):
        yield tags[start : start + _STRIDE]


async def _commit(look: Look, tags: Iterable[int]) -> None:
    """Acknowledge these, and whatever was published on the channel since the last commit."""
    with told(look.connection):
        for tag in tags:
            await look.channel.basic_ack(tag, wait=False)
        await look.channel.tx_commit(timeout=STEP_S)


class _Way:
    """Where letters are sent back, from the channel that holds them."""

    def __init__(self, look: Look, timeout_s: float) -> None:
        self._look = look
        self._timeout_s = timeout_s
        self._publisher = ConfirmedPublisher(look.connection)
        self._channel = cast("aiormq.Channel", look.channel)
        # Where the channel looks up whom a returned message is to be told.
        self._told = cast("dict[int, Any]", self._channel.confirmations)

    async def open(self) -> None:
        """From here on the channel's acknowledgements count only once they are committed."""
        with told(self._look.connection):
            await self._channel.tx_select(timeout=STEP_S)

    async def require_room(self) -> None:
        """See that the way stands and has room, before anything is at stake. Raises TopologyMissing
        and QueueFull.

        A binding can't be looked at over AMQP, and a message that nothing took would be known only
        after its letter was acknowledged. To bind what is bound changes nothing; what was not, is.
        """
        names = self._look.names
        queue = names.retry_queue(RUNG)
        connection = self._look.connection
        channel = await open_channel(connection, timeout_s=STEP_S)
        try:
            with told(connection, names.retry, kind="exchange"):
                await channel.exchange_declare(names.retry, passive=True, timeout=STEP_S)
            with told(connection, queue):
                stands = await channel.queue_declare(queue, passive=True, timeout=STEP_S)
            with contextlib.suppress(AccessRefused), told(connection, queue):
                await channel.queue_bind(
                    queue,
                    names.retry,
                    "",
                    arguments={"x-match": "all", RUNG_HEADER: RUNG},
                    timeout=STEP_S,
                )
        finally:
            await close_channel(channel)
        if (stands.message_count or 0) + 2 * _STRIDE > MAX_QUEUE_LENGTH:
            raise QueueFull(
                f"queue {queue}, which they go through, is full: the jobs queue "
                "behind it takes no more. Try again later, or add workers"
            )

    async def send(
        self, sending: Sending, letter: Letter, tags: Iterable[int]
    ) -> Sending | Refusal:
        """Publish it and acknowledge the letter. A reader that is not there is a refusal."""
        if sending.safe:
            try:
                await self._confirmed(sending)
            except Unroutable as error:
                key = sending.routing_key
                return Refusal(f"{error}: `sluice results --reply {key}` creates its queue")
            except QueueFull as error:
                return Refusal(str(error))
            await _commit(self._look, tags)
            return sending
        if await self._exchanged(sending, tags):
            return sending
        await self._restored(letter)
        raise TopologyMissing([f"binding of exchange {sending.exchange!r} for rung {RUNG!r}"])

    async def _confirmed(self, sending: Sending) -> None:
        await self._publisher.publish(
            sending.exchange,
            sending.routing_key,
            sending.body,
            kind=sending.kind,
            correlation_id=sending.job_id,
            headers=dict(sending.headers),
            timeout_s=self._timeout_s,
        )

    async def _exchanged(self, sending: Sending, tags: Iterable[int]) -> bool:
        """The message for the letter, in one transaction. False where no queue took it."""
        message_id = uuid.uuid4().hex
        # aiormq knows a returned message by this on channels without confirmations, too.
        number = self._channel.delivery_tag + 1
        returned: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._told[number] = returned
        self._channel.message_id_delivery_tag[message_id] = number
        try:
            with told(self._look.connection):
                await self._channel.basic_publish(
                    sending.body,
                    exchange=sending.exchange,
                    routing_key=sending.routing_key,
                    properties=Basic.Properties(
                        content_type=CONTENT_TYPE,
                        delivery_mode=PERSISTENT,
                        message_id=message_id,
                        correlation_id=sending.job_id,
                        message_type=sending.kind,
                        timestamp=utc_now(),
                        app_id=APP_ID,
                        headers=dict(sending.headers),
                    ),
                    mandatory=True,
                    wait=False,
                )
            await _commit(self._look, tags)
            return not returned.done()
        finally:
            self._told.pop(number, None)
            self._channel.message_id_delivery_tag.pop(message_id, None)

    async def _restored(self, letter: Letter) -> None:
        """A letter that was acknowledged for a message which no queue took, back to its queue."""
        given = letter.properties
        await self._publisher.publish(
            self._look.names.dlx,
            given.routing_key,
            letter.body,
            kind=given.message_type,
            correlation_id=given.correlation_id or None,
            headers={name: given.headers[name] for name in _STORY if name in given.headers},
            timeout_s=self._timeout_s,
        )
