"""The backend of a run, in a process of its own: publishes jobs under ids, writes down what became
of each publish, and takes results. It may be killed, and goes on from its journal.

`python -m tests.chaos.backend`, with an `Order` as the first line of its input. Each further line
is a number: the jobs up to there may be published.
"""

import asyncio
import sys
import time
from collections import Counter, deque
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct
from sluicegate.producer import (
    BrokerError,
    BrokerUnreachable,
    Producer,
    ProducerClosed,
    QueueFull,
    Unroutable,
)
from sluicegate.worker import logs

from . import jobs, vitals
from .journal import Journal, Line, Reader, What

_WINDOW = 64
_AGAIN_S = 0.5


class Order(Struct, frozen=True, kw_only=True):
    """What to publish, and where to."""

    url: str
    namespace: str
    seed: int
    mix: Mapping[jobs.Kind, int]
    tokens: int
    folder: str
    publish_timeout_s: float = 10.0


class Backend:
    """Publishes what it may, and takes what comes, on one producer after the other. `before`: the
    numbers of jobs that were published, or perhaps were, before it was killed."""

    def __init__(self, order: Order, journal: Journal, before: set[int]) -> None:
        self._order = order
        self._journal = journal
        self._before = before
        self._next = 0
        self._again: deque[int] = deque()
        self._allowed = 0
        self._more = asyncio.Event()

    def allow(self, number: int) -> None:
        """Jobs up to this number may be published."""
        self._allowed = max(self._allowed, number)
        self._more.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            order = self._order
            producer = Producer(
                order.url,
                jobs.REPLY,
                namespace=order.namespace,
                publish_timeout_s=order.publish_timeout_s,
                events=False,
                orphans_kept=None,
            )
            try:
                async with producer, asyncio.TaskGroup() as group:
                    group.create_task(self._take(producer))
                    group.create_task(self._publish_all(producer))
            except (BrokerError, ProducerClosed):
                await asyncio.sleep(_AGAIN_S)
            except ExceptionGroup as group:
                if group.split((BrokerError, ProducerClosed))[1] is not None:
                    raise
                await asyncio.sleep(_AGAIN_S)

    async def _take(self, producer: Producer) -> None:
        async for result in producer.results():
            # Written down before the loop comes back, which acknowledges it.
            kind = str(result.outcome.__struct_config__.tag)
            self._note("result", result.job_id, attempt=result.attempt, outcome=kind)
        raise ProducerClosed("there are no more results")

    async def _publish_all(self, producer: Producer) -> None:
        window = asyncio.Semaphore(_WINDOW)
        async with asyncio.TaskGroup() as group:
            while True:
                self._more.clear()
                while (number := self._due()) is not None:
                    await window.acquire()
                    task = group.create_task(self._publish(producer, number))
                    task.add_done_callback(lambda _: window.release())
                await self._more.wait()

    def _due(self) -> int | None:
        """The next number to publish, if there is one."""
        if self._again:
            return self._again.popleft()
        while self._next < self._allowed:
            number, self._next = self._next, self._next + 1
            if number not in self._before:
                return number
        return None

    async def _publish(self, producer: Producer, number: int) -> None:
        order = self._order
        kind = jobs.kind_of(order.seed, number, order.mix)
        job = jobs.make(order.seed, number, kind, order.tokens)
        refused = True
        for _ in range(1 + jobs.published_twice(order.seed, number)):
            self._note("try", job.id)
            what, detail = "stored", ""
            try:
                await producer.publish(job)
            except (BrokerUnreachable, Unroutable, QueueFull) as error:
                what, detail = "refused", str(error)
            except (BrokerError, ProducerClosed) as error:
                what, detail = "unknown", str(error)
            self._note(what, job.id, detail=detail)
            refused = refused and what == "refused"
        if refused:
            # Nobody has it: it is published later.
            await asyncio.sleep(_AGAIN_S)
            self._again.append(number)
            self._more.set()

    def _note(
        self, what: What, job: str, *, attempt: int = 0, outcome: str = "", detail: str = ""
    ) -> None:
        now = time.monotonic()
        self._journal.write(
            Line(at=now, what=what, job=job, attempt=attempt, outcome=outcome, detail=detail)
        )


def published_in(file: Path) -> set[int]:
    """The numbers of jobs that the broker has, or may have, by the journal. All others are to be
    published."""
    tries: Counter[int] = Counter()
    for line in Reader(file).new():
        if line.what in ("try", "refused"):
            tries[int(line.job.rpartition("-")[2])] += 1 if line.what == "try" else -1
    return {number for number, left in tries.items() if left}


async def main() -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer
    )
    order = msgspec.json.decode(await reader.readline(), type=Order)
    folder = Path(order.folder)
    file = folder / "journal"
    journal = Journal(file)
    backend = Backend(order, journal, await asyncio.to_thread(published_in, file))
    async with vitals.recorded(folder / "backend.vitals"):
        running = asyncio.create_task(backend.run(), name="backend")
        try:
            while line := await reader.readline():
                backend.allow(int(line))
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            journal.close()


if __name__ == "__main__":
    logs.configure("human", "warning")
    asyncio.run(main())
