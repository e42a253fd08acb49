"""What a process holds on to: memory, file descriptors, tasks. Sampled by itself, into a file."""

import asyncio
import contextlib
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

SAMPLE_S: Final = 0.5
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class Vitals(Struct, frozen=True, kw_only=True):
    """One sample. `at`: the machine's monotonic clock; `rss_mib`: memory in use."""

    pid: int
    at: float
    rss_mib: float
    fds: int
    tasks: int
    # How many tasks run which coroutine.
    running: dict[str, int] = {}


class Growth(Struct, frozen=True, kw_only=True):
    """How a process stands at the end beside where it stood: at rest before any work, and with a
    fifth of the work done. The memory of an interval is its median."""

    fds_before: int
    fds_after: int
    tasks_before: int
    tasks_after: int
    rss_first_mib: float
    rss_early_mib: float
    rss_late_mib: float

    @property
    def grown_mib(self) -> float:
        """Memory, between a fifth of the work and all of it."""
        return self.rss_late_mib - self.rss_early_mib


def sample() -> Vitals:
    """This process, now."""
    tasks = asyncio.all_tasks()
    names = (getattr(task.get_coro(), "__qualname__", "") for task in tasks)
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123  a number, twice a second
        resident = int(file.read().split()[1])
    return Vitals(
        pid=os.getpid(),
        at=time.monotonic(),
        rss_mib=round(resident * _PAGE_BYTES / 2**20, 2),
        # Less the one that reads the folder.
        fds=len(os.listdir("/proc/self/fd")) - 1,  # noqa: PTH208
        tasks=len(tasks),
        running=dict(Counter(names)),
    )


async def _record(file: Path) -> None:
    parent = os.getppid()
    with file.open("ab", buffering=0) as out:
        while True:
            if os.getppid() != parent:
                # Whoever started this was killed; nobody else would end it.
                os._exit(1)
            out.write(msgspec.json.encode(sample()) + b"\n")
            await asyncio.sleep(SAMPLE_S)


@contextlib.asynccontextmanager
async def recorded(file: Path) -> AsyncGenerator[None]:
    """Samples go to the file for as long as the context lasts."""
    task = asyncio.create_task(_record(file), name="vitals")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def read(file: Path, pid: int | None = None) -> list[Vitals]:
    """The samples in a file, of one process where its pid is given. Half a last line is none."""
    if not file.exists():
        return []
    lines = file.read_bytes().split(b"\n")[:-1]
    samples = [msgspec.json.decode(line, type=Vitals) for line in lines]
    return [each for each in samples if pid is None or each.pid == pid]


def growth(samples: Sequence[Vitals], began: float, fifth: float, ended: float) -> Growth:
    """Of one process. `began`: when work came; `fifth`, `ended`: when so much of it was done, by
    the monotonic clock of this machine. Raises ValueError where a part has no sample."""
    part = max(0.1 * (ended - began), 2 * SAMPLE_S)
    before = [each for each in samples if each.at <= began]
    early = [each for each in samples if fifth <= each.at <= fifth + part]
    late = [each for each in samples if ended - part <= each.at <= ended]
    after = [each for each in samples if each.at > ended]
    if not (before and early and late and after):
        raise ValueError(f"{len(samples)} samples do not tell how the process grew")
    return Growth(
        fds_before=before[-1].fds,
        fds_after=min(each.fds for each in after),
        tasks_before=before[-1].tasks,
        tasks_after=min(each.tasks for each in after),
        rss_first_mib=before[-1].rss_mib,
        rss_early_mib=_median(early),
        rss_late_mib=_median(late),
    )


def _median(samples: Sequence[Vitals]) -> float:
    return sorted(each.rss_mib for each in samples)[len(samples) // 2]
