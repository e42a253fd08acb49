"""Taking chosen dead letters out of their queue: to send them back, or to clear them away.

What is sent back and the acknowledgement of its letter are one AMQP transaction for each letter
(see `producer.transaction`): a program that is killed has done both or neither. A broker that dies
may have lost what was sent in the last moments before, or have it twice. Nor does a transaction
tell when the queue that a message goes to is full. So jobs go through the shortest queue of the
retry exchange, which the broker empties itself, and its room is looked at on the way. A full jobs
queue makes them wait there (the broker tries again every three minutes) and loses none.

A result goes to its reader directly, confirmed before its letter is acknowledged: should that be
cut in two, its reader drops the second copy, having had `(job_id, attempt)`.
"""

import asyncio
import itertools
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import aclosing
from typing import Final

from msgspec import Struct

from ..producer.confirms import ConfirmedPublisher
from ..producer.errors import QueueFull, TopologyMissing, Unroutable
from ..producer.taking import Taking, require_way
from ..producer.transaction import Outgoing
from ..schemas.topology import MAX_QUEUE_LENGTH
from ..worker.config import Config
from .dlq_again import again
from .dlq_changes import Changes
from .dlq_filter import utc_now
from .dlq_letter import Head, Letter
from .dlq_queue import Look, looking
from .dlq_sending import RUNG, RUNG_HEADER, Refusal, Sending
from .dlq_spool import Spool

# Letters sent between two looks at the room there is, or cleared away in one step.
_STRIDE: Final = 100
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
        async with looking(config) as look, Taking(look.held) as taking:
            way = _Way(look, taking, config.publish_timeout_s)
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
        async with Taking(look.held) as taking:
            for batch in _batches(list(tags.values())):
                if stop.is_set():
                    break
                await taking.take(itertools.chain.from_iterable(batch))
                await look.held.settled()
                done += len(batch)
                progress(done)
    return Taken(done, (), len(keys) - done, stop.is_set())


def _batches(tags: list[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
    for start in range(0, len(tags), _STRIDE):
        yield tags[start : start + _STRIDE]


class _Way:
    """Where letters are sent back, from the channel that holds them."""

    def __init__(self, look: Look, taking: Taking, timeout_s: float) -> None:
        self._look = look
        self._taking = taking
        self._timeout_s = timeout_s
        self._publisher = ConfirmedPublisher(look.held.connection)

    async def require_room(self) -> None:
        """See that the way stands and has room, before anything is at stake. Raises TopologyMissing
        and QueueFull."""
        names = self._look.names
        queue = names.retry_queue(RUNG)
        waiting = await require_way(
            self._look.held.connection,
            names.retry,
            queue,
            arguments={"x-match": "all", RUNG_HEADER: RUNG},
        )
        if waiting + 2 * _STRIDE > MAX_QUEUE_LENGTH:
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
            await self._taking.take(tags)
            return sending
        if await self._taking.take(tags, [_outgoing(sending)]):
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


def _outgoing(sending: Sending) -> Outgoing:
    return Outgoing(
        exchange=sending.exchange,
        routing_key=sending.routing_key,
        body=sending.body,
        kind=sending.kind,
        correlation_id=sending.job_id,
        headers=dict(sending.headers),
    )
