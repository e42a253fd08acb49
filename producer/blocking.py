"""The same client for code without an event loop: Django, Flask, a script."""

import atexit
import contextlib
import threading
import weakref
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from ..schemas.events import JobEvent
from ..schemas.results import GenerationResult
from ..schemas.verdicts import Verdict
from .errors import ForkedProducer, ProducerClosed
from .handle import RESULT_TIMEOUT_S, VERDICT_TIMEOUT_S, Handle
from .loop_thread import LoopThread
from .producer import Producer
from .sending import Job

T = TypeVar("T")


class BlockingHandle:
    """As `Handle`, with calls that block. May be used by any thread."""

    def __init__(self, handle: Handle, thread: LoopThread) -> None:
        self._handle = handle
        self._thread = thread

    def __repr__(self) -> str:
        return f"<Blocking {self._handle!r}>"

    @property
    def job_id(self) -> str:
        return self._handle.job_id

    @property
    def done(self) -> bool:
        """Whether `result()` would answer at once."""
        return self._handle.done

    @property
    def events_dropped(self) -> int:
        """Events that came but had to go, unread, because there were too many."""
        return self._handle.events_dropped

    def result(self, timeout: float | None = RESULT_TIMEOUT_S) -> GenerationResult:
        """See `Handle.result`."""
        return self._thread.run(self._handle.result(timeout))

    @contextlib.contextmanager
    def receive(self, timeout: float | None = RESULT_TIMEOUT_S) -> Generator[GenerationResult]:
        """See `Handle.receive`."""
        receiving = self._handle.receive(timeout)
        result = self._thread.run(_enter(receiving))
        try:
            yield result
        except BaseException as error:
            self._thread.run(_leave(receiving, error))
            raise
        self._thread.run(_leave(receiving, None))

    def events(self) -> Iterator[JobEvent]:
        """See `Handle.events`."""
        return _blocking(self._handle.events(), self._thread)

    def verdict(self, timeout: float | None = VERDICT_TIMEOUT_S) -> Verdict | None:
        """See `Handle.verdict`."""
        return self._thread.run(self._handle.verdict(timeout))

    def cancel(self) -> bool:
        """See `Handle.cancel`."""
        return self._thread.run(self._handle.cancel())


class BlockingProducer:
    """As `Producer`, with calls that block. Threads may share one.

        with BlockingProducer("amqp://localhost/") as producer:
            print(producer.publish(GenerationJob(prompt="Why?")).result(timeout=60).text)

    It runs an event loop in a thread of its own. Without `with` it opens itself at first use and
    is closed when the program ends. A process that forks afterwards (Gunicorn's workers) must not
    use it: each opens its own, and an attempt raises ForkedProducer.
    """

    def __init__(self, url: str, reply: str | None = None, **settings: Any) -> None:
        """As `Producer`, whose keyword arguments it takes."""
        self._arguments = (url, reply)
        self._settings = settings
        self._lock = threading.Lock()
        self._open: tuple[LoopThread, Producer] | None = None
        self._closed = False

    def __repr__(self) -> str:
        return "<Blocking: not open>" if self._open is None else f"<Blocking {self._open[1]!r}>"

    def __enter__(self) -> Self:
        """Connect. Errors as `Producer`."""
        self._parts()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """See `Producer.close`. In a forked process it leaves the parent's connection alone."""
        with self._lock:
            self._closed = True
            parts, self._open = self._open, None
        if parts is not None and parts[0].here:
            thread, producer = parts
            try:
                thread.run(producer.close())
            finally:
                thread.stop()

    @property
    def reply_key(self) -> str:
        """The routing key of this producer's results."""
        return self._parts()[1].reply_key

    def publish(self, job: Job) -> BlockingHandle:
        """See `Producer.publish`."""
        thread, producer = self._parts()
        return BlockingHandle(thread.run(producer.publish(job)), thread)

    def publish_many(
        self, jobs: Iterable[Job], *, concurrency: int | None = None
    ) -> list[BlockingHandle]:
        """See `Producer.publish_many`."""
        thread, producer = self._parts()
        # Listed here: an iterable of the caller's, a database cursor say, belongs to this thread.
        handles = thread.run(producer.publish_many(list(jobs), concurrency=concurrency))
        return [BlockingHandle(handle, thread) for handle in handles]

    def attach(self, job_id: str) -> BlockingHandle:
        """See `Producer.attach`."""
        thread, producer = self._parts()

        async def attach() -> Handle:
            return producer.attach(job_id)

        return BlockingHandle(thread.run(attach()), thread)

    def results(self, *, idle_s: float | None = None) -> Iterator[GenerationResult]:
        """See `Producer.results`."""
        thread, producer = self._parts()
        return _blocking(producer.results(idle_s=idle_s), thread)

    def cancel(self, job_id: str, *, reason: str = "") -> bool:
        """See `Producer.cancel`."""
        thread, producer = self._parts()
        return thread.run(producer.cancel(job_id, reason=reason))

    def _parts(self) -> tuple[LoopThread, Producer]:
        # Before the lock, which a fork may have copied while it was held.
        if self._open is not None and not self._open[0].here:
            raise ForkedProducer(self._open[0].pid)
        with self._lock:
            if self._open is not None:
                return self._open
            if self._closed:
                raise ProducerClosed("the producer was closed: make a new one")
            thread = LoopThread("sluicegate producer")
            try:
                producer = thread.run(self._connect())
            except BaseException:
                thread.stop()
                raise
            self._open = thread, producer
            _living.add(self)
            return self._open

    async def _connect(self) -> Producer:
        url, reply = self._arguments
        return await Producer(url, reply, **self._settings).__aenter__()


_living: "weakref.WeakSet[BlockingProducer]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for producer in tuple(_living):
        producer.close()


def _blocking(source: AsyncIterator[T], thread: LoopThread) -> Generator[T]:
    async def step() -> tuple[T] | None:
        async for item in source:
            return (item,)
        return None

    try:
        while (got := thread.run(step())) is not None:
            yield got[0]
    finally:
        # Not waited for: this may run in the garbage collector.
        thread.start(_close(source))


async def _close(source: AsyncIterator[Any]) -> None:
    close = getattr(source, "aclose", None)
    if close is not None:
        await close()


async def _enter(context: contextlib.AbstractAsyncContextManager[T]) -> T:
    return await context.__aenter__()


async def _leave(
    context: contextlib.AbstractAsyncContextManager[Any], error: BaseException | None
) -> None:
    trace = None if error is None else error.__traceback__
    await context.__aexit__(None if error is None else type(error), error, trace)
