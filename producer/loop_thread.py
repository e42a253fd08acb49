"""An event loop in a thread of its own, for callers who have none."""

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from .errors import ForkedProducer, ProducerClosed

T = TypeVar("T")

START_TIMEOUT_S: Final = 10.0
STOP_TIMEOUT_S: Final = 30.0
LOOK_EVERY_S: Final = 1.0


class LoopThread:
    """Runs coroutines for other threads. It doesn't hold up the end of the program."""

    def __init__(self, name: str) -> None:
        self.pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = threading.Event()
        self._stop: asyncio.Event | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()
        if not self._started.wait(START_TIMEOUT_S):
            raise ProducerClosed("the thread of the event loop did not start")

    @property
    def here(self) -> bool:
        """Whether this process is the one it was started in: a fork has no threads but its own."""
        return self.pid == os.getpid()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the loop and wait for it. An interrupt of the caller cancels it."""
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._running())
        except BaseException:
            work.close()
            raise
        try:
            return self._wait(future)
        except BaseException:
            future.cancel()
            raise

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in the loop without waiting for it; drop it where the loop is gone."""

        def begin() -> None:
            task = asyncio.ensure_future(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        loop = self._loop
        if loop is None or loop.is_closed() or not self.here:
            work.close()
        else:
            loop.call_soon_threadsafe(begin)

    def stop(self) -> None:
        """End the loop and its thread. Harmless twice, and in a forked process."""
        loop, stop = self._loop, self._stop
        if self.here and loop is not None and stop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(stop.set)
            self._thread.join(STOP_TIMEOUT_S)

    def _wait(self, future: "concurrent.futures.Future[T]") -> T:
        while True:
            try:
                return future.result(LOOK_EVERY_S)
            except concurrent.futures.CancelledError as error:
                raise ProducerClosed("the producer was closed meanwhile") from error
            except TimeoutError:
                if future.done():
                    raise  # It is the work's own.
                if not self._thread.is_alive():
                    raise ProducerClosed("the producer was closed meanwhile") from None

    def _running(self) -> asyncio.AbstractEventLoop:
        if not self.here:
            raise ForkedProducer(self.pid)
        if self._loop is None or self._loop.is_closed():
            raise ProducerClosed("the producer was closed")
        if threading.get_ident() == self._thread.ident:
            raise RuntimeError("a blocking call from inside its own event loop would wait for ever")
        return self._loop

    def _main(self) -> None:
        asyncio.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._started.set()
        await self._stop.wait()
