"""Waiting for what can only be asked, not heard; and for tasks to end."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable


async def until(condition: Callable[[], bool | Awaitable[bool]], within_s: float = 10.0) -> None:
    """Ask again and again until it is so; TimeoutError where it doesn't come to pass."""
    async with asyncio.timeout(within_s):
        while True:
            answer = condition()
            if await answer if isinstance(answer, Awaitable) else answer:
                return
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def nothing_left(within_s: float = 5.0) -> AsyncGenerator[None]:
    """Fail where tasks begun in the body are still alive some time after it."""
    before = asyncio.all_tasks()
    yield
    left: list[object] = []

    def all_done() -> bool:
        left[:] = [task for task in asyncio.all_tasks() - before if not task.done()]
        return not left

    try:
        await until(all_done, within_s)
    except TimeoutError:
        raise AssertionError(left) from None
