"""Tasks that nobody loses sight of."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")

# A task that goes on for so long after it was cancelled has not heard of it. Tidying up is quicker.
AGAIN_S: Final = 10.0


def spawn(
    work: Coroutine[Any, Any, None], name: str, on_death: Callable[[BaseException], None]
) -> asyncio.Task[None]:
    """A named task whose death by an error is logged and told to `on_death`."""

    def report(task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.critical("%s died", name, exc_info=error)
        on_death(error)

    task = asyncio.create_task(work, name=f"sluicegate {name}")
    task.add_done_callback(report)
    return task


async def end(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task, again where it does not hear of it, and wait until it is over, whatever it
    ends with. None is over already."""
    if task is not None:
        task.cancel()
        await see_through(_over(task))


def answer_cancellation() -> None:
    """The cancellation of this task was a message to it: it has been understood, and goes on."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()


async def _over(task: asyncio.Task[Any]) -> None:
    while True:
        done, _ = await asyncio.wait([task], timeout=AGAIN_S)
        if done:
            return
        # Python 3.11's `wait_for`, which libraries use, loses a cancellation that comes at the very
        # moment that what it waits for is done.
        task.cancel()


async def see_through(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` to its end; a cancellation meanwhile is raised after it, not instead of it.

    `work` must bound its own time. Unlike with a bare `asyncio.shield`, no task is left behind.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # It has been looked at; the cancellation is what the caller hears.
        raise cancelled
    return task.result()
