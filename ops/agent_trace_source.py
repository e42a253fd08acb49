"""Where the trace of an agent job comes from: the journal, or else the dead letters, and for a job
that goes on whoever waits to be asked. Nothing is changed by reading."""

import asyncio
import math
import os
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from datetime import datetime, timedelta
from typing import Final

import msgspec

from ..producer.confirms import ConfirmedPublisher
from ..producer.connection import close, connect
from ..schemas import JournalEntry, Names, SluiceError
from ..schemas.codec import encode
from ..worker.agent.approvals import WaitingCall, list_waiting
from ..worker.agent.journal import Journal
from ..worker.config import Config
from .agent_trace_read import Trace, given_up, of_scene
from .dlq_letter import Letter
from .dlq_queue import looking

# How often a job that goes on is looked after. While nothing at all is there each look reads the
# whole journal: then less and less often.
POLL_S: Final = 1.0
_MOST_POLL_S: Final = 15.0
# A line is stamped before it is stored, so that an older one may come after a newer one.
_OVERLAP: Final = timedelta(seconds=60)


@asynccontextmanager
async def journal(config: Config) -> AsyncGenerator[Journal]:
    """The journal of a namespace. Raises BrokerUnreachable, AccessRefused."""
    connection = await connect(
        config.amqp_url,
        timeout_s=config.connect_timeout_s,
        name=f"sluice agent trace {socket.gethostname()}:{os.getpid()}",
    )
    try:
        publisher = ConfirmedPublisher(connection)
        yield Journal(
            connection,
            publisher,
            Names(config.namespace),
            by=f"trace-{os.getpid()}",
            timeout_s=config.publish_timeout_s,
        )
        await publisher.close()
    finally:
        await close(connection)


class Follower:
    """Gives a job's lines, each once, however often it is asked."""

    def __init__(self, there: Journal, job_id: str, since: datetime | None) -> None:
        self._journal = there
        self._job_id = job_id
        self._since = since
        self._seen: set[bytes] = set()

    async def new(self) -> list[JournalEntry]:
        """The lines that were written since the last time. Errors as `Journal.lines`."""
        found: list[JournalEntry] = []
        async with aclosing(self._journal.lines(self._since, self._job_id)) as lines:
            async for line in lines:
                body = encode(line)
                if body not in self._seen:
                    self._seen.add(body)
                    found.append(line)
        if found:
            latest = max(line.at for line in found) - _OVERLAP
            self._since = latest if self._since is None else max(self._since, latest)
        return found

    async def wait(self, longest_s: float = math.inf) -> list[JournalEntry]:
        """The same, once there are any; none after `longest_s` seconds without."""
        pause_s = POLL_S
        until = time.monotonic() + longest_s
        while not (found := await self.new()) and time.monotonic() < until:
            await asyncio.sleep(pause_s)
            if not self._seen:
                pause_s = min(_MOST_POLL_S, 2 * pause_s)
        return found


async def from_dead_letters(config: Config, job_id: str) -> Trace | None:
    """The newest scene of a job there; None where there is none. Raises SomebodyLooks, and the
    errors of connecting."""
    best: Letter | None = None
    async with looking(config) as look, aclosing(look.letters()) as letters:
        async for dead in letters:
            letter = dead.letter
            scene = letter.scene
            if scene is None or scene.id != job_id:
                continue
            if best is None or letter.rank > best.rank:
                best = letter
    if best is None or best.scene is None:
        return None
    return of_scene(best.scene, f"{best.head.reason}: {best.head.sentence}")


async def with_dead_letters(config: Config, job_id: str, traces: list[Trace]) -> list[Trace]:
    """As `with_scene`. Where there is a trace already, dead letters that can't be seen just now are
    left unseen; else raises what `from_dead_letters` does."""
    try:
        return with_scene(traces, await from_dead_letters(config, job_id))
    except SluiceError:
        if not traces:
            raise
        return traces


def with_scene(traces: list[Trace], dead: Trace | None) -> list[Trace]:
    """The attempts of a job that has no end in the journal, with what a dead letter says of the
    last: the scene where the journal has nothing of it, else why it died."""
    if dead is None:
        return traces
    if not traces or traces[-1].attempt < dead.attempt:
        return [*traces, dead]
    *earlier, last = traces
    if last.attempt > dead.attempt:
        return traces
    died = msgspec.structs.replace(
        last, context=dead.context, why=dead.why, job=dead.job, rounds=given_up(last.rounds)
    )
    return [*earlier, died]


async def waits_for(config: Config, job_id: str) -> tuple[WaitingCall, ...]:
    """Its calls that wait for a person; none where that can't be seen just now."""
    try:
        found = await list_waiting(
            config.amqp_url, Names(config.namespace), timeout_s=config.connect_timeout_s
        )
    except SluiceError:
        return ()
    return next((job.calls for job in found.jobs if job.job_id == job_id), ())
