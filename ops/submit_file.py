"""Publishing the jobs of a file, so many at once, and putting each result where it belongs."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import Final, Protocol, cast

from ..producer import (
    BrokerUnreachable,
    GenerationJob,
    GenerationResult,
    Handle,
    Producer,
    PublishLost,
    QueueFull,
    ResultUnreadable,
    SluiceError,
)
from ..worker.config import Config
from ..worker.secrecy import secrecy_of
from .submit_progress import Progress

# How long a batch sits out a broker that is away. Its results are safe; it can be started again.
PATIENCE_S: Final = 600.0
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 15.0
# Results of an earlier run that wait on the queue come at once, if there are any.
LEFTOVERS_S: Final = 1.0
TICK_S: Final = 0.5


class NoResults(SluiceError):
    """Nothing came back for too long."""


class Sink(Protocol):
    """Where results go. `append` returns when the result is safe, with whether it was news."""

    def has(self, job_id: str) -> bool: ...

    async def append(self, result: GenerationResult) -> bool: ...

    def skip(self, job_id: str) -> None:
        """There will be no result of this job."""


class FileRun:
    """One run over the jobs of a file.

    `unreadable` are the jobs whose result can't be read. `published` says whether a job was sent,
    or may have been: from then on results come back that somebody must take.
    """

    def __init__(
        self,
        jobs: Sequence[GenerationJob],
        sink: Sink,
        progress: Progress,
        *,
        in_flight: int,
        quiet_limit_s: float,
    ) -> None:
        self._jobs = jobs
        self._ids = frozenset(job.id for job in jobs)
        self._sink = sink
        self._progress = progress
        self._in_flight = in_flight
        self._free = asyncio.Semaphore(in_flight)
        self._quiet_limit_s = quiet_limit_s
        self.unreadable: list[str] = []
        self.published = False

    async def run(self, config: Config, reply: str | None, *, resumed: bool) -> None:
        """Return when every job has its result, or one that can't be read.

        Raises what stands in the way: BrokerUnreachable, TopologyMissing, NoResults, OSError ...
        """
        async with Producer(
            config.amqp_url,
            reply,
            namespace=config.namespace,
            connect_timeout_s=config.connect_timeout_s,
            secrecy=secrecy_of(config),
            publish_timeout_s=config.publish_timeout_s,
            max_in_flight=self._in_flight,
            events=False,
            reply_expires=True,
        ) as producer:
            if resumed:
                # What was done before must not be done again.
                async for result in producer.results(idle_s=LEFTOVERS_S):
                    await self._take(result)
            with _first_error():
                async with (
                    asyncio.TaskGroup() as tasks,
                    _company(
                        tasks.create_task(self._take_strays(producer), name="submit strays"),
                        tasks.create_task(self._watch(), name="submit watch"),
                    ),
                ):
                    await self._publish_all(producer, tasks)

    async def _publish_all(self, producer: Producer, tasks: asyncio.TaskGroup) -> None:
        for job in self._jobs:
            await self._free.acquire()
            if self._sink.has(job.id):
                self._free.release()
            else:
                tasks.create_task(self._one(producer, job), name=f"submit {job.id}")
        for _ in range(self._in_flight):
            await self._free.acquire()

    async def _one(self, producer: Producer, job: GenerationJob) -> None:
        handle = await self._publish(producer, job)
        try:
            # `_watch` is the limit: how long it takes depends on all the jobs before this one.
            async with handle.receive(timeout=None) as result:
                await self._take(result)
        except ResultUnreadable as error:
            self.unreadable.append(job.id)
            self._sink.skip(job.id)
            self._progress.note(str(error))
        self._free.release()

    async def _publish(self, producer: Producer, job: GenerationJob) -> Handle:
        """Publish, sitting out a full queue for as long as it takes, and an outage for a while."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + PATIENCE_S
        pause_s = FIRST_PAUSE_S
        while True:
            self.published = True
            try:
                return await producer.publish(job)
            except QueueFull:
                self._progress.note("the queue is full: waiting for room")
            except (BrokerUnreachable, PublishLost) as error:
                if loop.time() > give_up:
                    raise
                self._progress.note(f"trying again: {error}")
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _take_strays(self, producer: Producer) -> None:
        """Results of an earlier run whose jobs this one has not published, or need not."""
        async for result in producer.results():
            await self._take(result)

    async def _take(self, result: GenerationResult) -> None:
        # A job that is no longer in the file: nobody wants its result any more.
        if result.job_id in self._ids and await self._sink.append(result):
            self._progress.arrived(ok=result.ok)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._progress.show()
            if self._progress.quiet_s > self._quiet_limit_s:
                raise NoResults(
                    f"no result came for {self._quiet_limit_s:g} s. Look whether a worker runs"
                )


@contextlib.asynccontextmanager
async def _company(*tasks: "asyncio.Task[None]") -> AsyncGenerator[None]:
    """Tasks that run beside the body and end with it."""
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


@contextlib.contextmanager
def _first_error() -> Generator[None]:
    """Tasks fail together when the broker goes: one error tells it all."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise _leaf(group) from None


def _leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
