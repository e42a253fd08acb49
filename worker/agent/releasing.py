"""Which jobs had tools run here, so that the tools are told when to let go."""

import asyncio
import logging
from collections import OrderedDict
from typing import Final, Protocol

from ...schemas import ToolCall, ToolResult, ToolSpec

log = logging.getLogger(__name__)

# Jobs whose tools may hold something here. A job that so many others came behind is not waited for.
_REMEMBERED: Final = 10_000
# Jobs that are let go of at the same time: each may take a thread of every tool.
_AT_ONCE: Final = 16


class Releases(Protocol):
    """Makes calls of tools, and has the tools let go."""

    async def __call__(
        self, spec: ToolSpec, call: ToolCall, job_id: str, number: int
    ) -> ToolResult: ...

    async def release(self, job_id: str) -> None:
        """Have the tools let go of whatever they hold for a job."""
        ...


class Releasing:
    """Makes calls, and remembers of which jobs. One that ends in another service is known here only
    as one that does not come back; what is held for it goes when this service stops."""

    def __init__(self, caller: Releases, *, remember: int = _REMEMBERED) -> None:
        self._caller = caller
        self._remember = remember
        self._jobs: OrderedDict[str, None] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Releasing: tools ran for {len(self._jobs)} jobs>"

    async def __call__(
        self, spec: ToolSpec, call: ToolCall, job_id: str, number: int
    ) -> ToolResult:
        """What came of a call, as the caller makes it."""
        self._jobs[job_id] = None
        self._jobs.move_to_end(job_id)
        while len(self._jobs) > self._remember:
            await self.release(next(iter(self._jobs)))
        return await self._caller(spec, call, job_id, number)

    async def release(self, job_id: str) -> None:
        """A job is over, or is not taken further here."""
        self._jobs.pop(job_id, None)
        await self._caller.release(job_id)

    async def release_all(self, limit_s: float) -> None:
        """Let go of what is held for any job, within `limit_s` seconds."""
        turn = asyncio.Semaphore(_AT_ONCE)

        async def one(job_id: str) -> None:
            async with turn:
                await self.release(job_id)

        try:
            async with asyncio.timeout(limit_s), asyncio.TaskGroup() as group:
                for job_id in tuple(self._jobs):
                    group.create_task(one(job_id), name=f"release {job_id}")
        except TimeoutError:
            log.warning("the tools did not let go of %d jobs in time", len(self._jobs))
