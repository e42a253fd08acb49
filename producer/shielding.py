"""Work that must be seen through, even when whoever waits for it is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def see_through(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` to its end; a cancellation meanwhile is raised after it, not instead of it.

    `work` must bound its own time. Unlike a bare `asyncio.shield`, no task is left behind.
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
