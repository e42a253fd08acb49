"""What a contender is, and which there are.

Each is two processes, as in production: a backend that publishes jobs and receives their results,
and a worker. Each has a namespace of its own with the same topology.
"""

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from importlib.metadata import PackageNotFoundError, version
from typing import Final, Protocol, cast

from msgspec import Struct
from sluicegate.schemas import Names

RESULT_TIMEOUT_S: Final = 300.0

# Publishes a job for each prompt; returns when every result was received and acknowledged.
Run = Callable[[Sequence[str]], Awaitable[None]]


class Setup(Struct, frozen=True, kw_only=True):
    """What both processes of a contender are given.

    `concurrency` is the number of publishes in flight in the backend, and of jobs unacknowledged
    in the worker (its prefetch).
    """

    url: str
    namespace: str
    concurrency: int

    @property
    def names(self) -> Names:
        return Names(self.namespace)


class Contender(Protocol):
    """A module with these two functions."""

    def serve(self, setup: Setup) -> AbstractAsyncContextManager[None]:
        """The worker: takes jobs for as long as the context lasts."""
        ...

    def backend(self, setup: Setup) -> AbstractAsyncContextManager[Run]:
        """The other side."""
        ...


class Entry(Struct, frozen=True):
    """Where a contender is found, which distributions it needs, and what it does not promise."""

    module: str
    distributions: tuple[str, ...]
    remark: str = ""


BASELINE: Final = "aio-pika"

CONTENDERS: Final[dict[str, Entry]] = {
    BASELINE: Entry("loop_aio_pika", ("aio-pika",)),
    "sluicegate": Entry(
        "loop_sluicegate",
        ("sluicegate",),
        "also checks every message on both sides, keeps the lineage, and publishes two events a "
        "job, which nobody receives here",
    ),
    "sluicegate+events": Entry(
        "loop_sluicegate_events", ("sluicegate",), "the backend receives those events, too"
    ),
    "faststream": Entry("loop_faststream", ("faststream",)),
    "taskiq": Entry(
        "loop_taskiq",
        ("taskiq", "taskiq-aio-pika"),
        "acknowledges although saving the result failed; a job that no queue takes looks "
        "published; results go through a result backend written for this benchmark, since "
        "taskiq has none on RabbitMQ",
    ),
}


def load(name: str) -> Contender:
    """The contender's module. Imported late: the libraries of the others may be missing."""
    return cast("Contender", importlib.import_module(f".{CONTENDERS[name].module}", __package__))


def missing(name: str) -> list[str]:
    """The distributions that this contender needs and that are not installed."""
    return [wanted for wanted in CONTENDERS[name].distributions if installed(wanted) is None]


def installed(distribution: str) -> str | None:
    """The version of a distribution, or None."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


class Tally:
    """Ticks off results. For contenders whose library gives a result no one to wait for it."""

    def __init__(self) -> None:
        self._expected: dict[str, str] = {}
        self._all_here = asyncio.Event()

    def expect(self, answers: dict[str, str]) -> None:
        """These answers, by job id, must come."""
        self._expected = dict(answers)
        self._all_here.clear()

    def tick(self, job_id: str, answer: str) -> None:
        """A result is here and was acknowledged. Raises ValueError where it is a wrong one."""
        if self._expected.pop(job_id, None) != answer:
            raise ValueError(f"a wrong answer for job {job_id}, or one that nobody asked for")
        if not self._expected:
            self._all_here.set()

    async def all_here(self) -> None:
        """Return when all have come."""
        async with asyncio.timeout(RESULT_TIMEOUT_S):
            await self._all_here.wait()


async def each(
    items: dict[str, str], publish: Callable[[str, str], Awaitable[object]], concurrency: int
) -> None:
    """Publish every item, at most `concurrency` at a time."""
    waiting = iter(items.items())

    async def publish_next() -> None:
        for job_id, prompt in waiting:
            await publish(job_id, prompt)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(publish_next())
