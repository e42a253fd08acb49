"""Publishing many jobs with a bound, and an exact account where some could not be published."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable

from ..schemas.agents import AgentJob
from ..schemas.codec import encode
from ..schemas.errors import InvalidMessage
from ..schemas.jobs import GenerationJob
from .errors import PublishManyFailed
from .handle import Handle
from .sending import Job

Publish = Callable[[Job], Awaitable[Handle]]


async def publish_many(
    publish: Publish,
    jobs: Iterable[Job] | AsyncIterable[Job],
    concurrency: int,
) -> list[Handle]:
    """See `Producer.publish_many`."""
    if concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, not {concurrency}")
    total = None
    if isinstance(jobs, AsyncIterable):
        source = aiter(jobs)
    else:
        listed = list(jobs)
        total = len(listed)
        _check_all(listed)
        source = _each(listed)
    batch = _Batch(publish, source)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(concurrency if total is None else min(concurrency, total)):
            tasks.create_task(batch.work(), name="sluicegate publish_many")
    if batch.failures:
        raise PublishManyFailed(batch.handles, batch.failures, total)
    return [batch.handles[index] for index in sorted(batch.handles)]


class _Batch:
    """What the publishing tasks share: one source of jobs, and the account."""

    def __init__(self, publish: Publish, jobs: AsyncIterator[Job]) -> None:
        self._publish = publish
        self._jobs = jobs
        self._turn = asyncio.Lock()
        self._taken = 0
        self.handles: dict[int, Handle] = {}
        self.failures: dict[int, Exception] = {}

    async def work(self) -> None:
        """Publish one job after the other until there are no more, or any task has failed."""
        while await self._publish_next():
            pass

    async def _publish_next(self) -> bool:
        async with self._turn:
            # Asked only now: another task may have failed while this one waited for its turn.
            if self.failures:
                return False
            index, self._taken = self._taken, self._taken + 1
            try:
                job = await anext(self._jobs, None)
            except Exception as error:  # The caller's own source: it is told like the others.
                self.failures[index] = error
                return False
        if job is None:
            return False
        try:
            self.handles[index] = await self._publish(job)
        except Exception as error:
            self.failures[index] = error
        return True


async def _each(jobs: list[Job]) -> AsyncIterator[Job]:
    for job in jobs:
        yield job


def _check_all(jobs: list[Job]) -> None:
    failures: dict[int, Exception] = {}
    for index, job in enumerate(jobs):
        if not isinstance(job, GenerationJob | AgentJob):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"number {index} is no job but a {type(job).__name__}")
        try:
            encode(job)
        except InvalidMessage as error:
            failures[index] = error
    if failures:
        raise PublishManyFailed({}, failures, len(jobs))
