"""`python -m tests.chaos.soak`: a hundred thousand small jobs, and what processes hold after."""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import click
import msgspec
from msgspec import Struct
from sluicegate.ops.console import CANNOT_START, FAILED
from sluicegate.schemas import SluiceError

from . import jobs, vitals
from .run import Watch
from .site import Site, built
from .vitals import Growth

# So many jobs are ahead of their results: enough to keep all busy, and no backlog.
_AHEAD: Final = 600
_LOOK_S: Final = 0.1
_STALL_S: Final = 60.0
# What stands beside work: samples at rest before the first job, and after the last.
_REST_BEFORE_S: Final = 1.0
_REST_AFTER_S: Final = 3.0
SPARE: Final = 4


class Soak(Struct, frozen=True, kw_only=True):
    """A run: how many jobs were answered in how many seconds, and how each process grew."""

    jobs: int
    answered: int
    seconds: float
    most_mib: float
    growth: dict[str, Growth]

    def troubles(self) -> Iterator[str]:
        """What did not hold, a line each."""
        if self.answered != self.jobs:
            yield f"{self.answered:,} of {self.jobs:,} jobs were answered"
        for name, each in self.growth.items():
            if each.grown_mib > self.most_mib:
                yield f"{name}: memory grew by {each.grown_mib:.1f} MiB"
            if each.fds_after > each.fds_before + SPARE:
                yield f"{name}: {each.fds_before} to {each.fds_after} file descriptors"
            if each.tasks_after > each.tasks_before + SPARE:
                yield f"{name}: {each.tasks_before} to {each.tasks_after} tasks"


async def soak(
    count: int, seed: int, folder: Path, most_mib: float, say: Callable[[str], None]
) -> Soak:
    """Run the jobs through backend, worker and checker, each a process of its own."""
    async with built(folder, "scripted", seed, jobs.PLAIN, workers=1, apart=True) as site:
        await asyncio.sleep(_REST_BEFORE_S)
        say("ready")
        began = time.monotonic()
        fifth, ended, answered = await _work(site, count, say)
        await asyncio.sleep(_REST_AFTER_S)
        names = ["backend", *site.services]
        growth = {
            name: vitals.growth(
                vitals.read(folder / f"{name}.vitals"), began, fifth or ended, ended
            )
            for name in names
        }
        return Soak(
            jobs=count,
            answered=answered,
            seconds=round(ended - began, 1),
            most_mib=most_mib,
            growth=growth,
        )


async def _work(site: Site, count: int, say: Callable[[str], None]) -> tuple[float, float, int]:
    """When a fifth was answered, when all of it was, and how many were."""
    watch = Watch(site.journal)
    fifth = 0.0
    moved = told = time.monotonic()
    before = -1
    while (taken := len(watch.taken)) < count:
        now = time.monotonic()
        if taken > before:
            moved, before = now, taken
        if now - moved > _STALL_S:
            break
        if not fifth and taken >= count / 5:
            fifth = now
        if now - told > 10:
            told = now
            say(f"{taken:,} of {count:,} results")
        await site.backend.allow(min(count, taken + _AHEAD))
        await asyncio.sleep(_LOOK_S)
        watch.look()
    return fifth, time.monotonic(), len(watch.taken)


def render(report: Soak) -> Iterator[str]:
    """A table in Markdown."""
    yield (
        "| process | file descriptors | tasks | memory at rest | after a fifth | at the end |"
        " growth since a fifth |"
    )
    yield "|" + "---|" * 7
    for name, each in report.growth.items():
        yield (
            f"| {name} | {each.fds_before} → {each.fds_after} | {each.tasks_before} → "
            f"{each.tasks_after} | {each.rss_first_mib:.1f} MiB | {each.rss_early_mib:.1f} MiB | "
            f"{each.rss_late_mib:.1f} MiB | {each.grown_mib:+.1f} MiB |"
        )
    yield ""
    rate = report.answered / report.seconds
    yield f"{report.answered:,} jobs in {report.seconds:.0f} s, {rate:.0f} a second."


@click.command(context_settings={"show_default": True})
@click.option("--jobs", "count", type=click.IntRange(min=100), default=100_000, help="Jobs.")
@click.option("--seed", type=int, default=1, help="Of the jobs.")
@click.option("--most-mib", type=float, default=8.0, help="Growth of memory that is let be.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the report here, as JSON.")
@click.option("--folder", type=click.Path(path_type=Path), help="Keep logs and samples here.")
def main(count: int, seed: int, most_mib: float, out: Path | None, folder: Path | None) -> None:
    """Send many small jobs through backend, worker and checker, and see whether they hold more and
    more: memory, file descriptors, tasks. The exit code is 1 where one does.

    \b
    Example:
      python -m tests.chaos.soak --jobs 100000 --out soak.json
    """
    began = time.monotonic()

    def say(text: str) -> None:
        click.echo(f"{time.monotonic() - began:6.1f} s  {text}", err=True)

    where = folder or Path(tempfile.mkdtemp(prefix="sluice-soak-"))
    where.mkdir(parents=True, exist_ok=True)
    try:
        report = asyncio.run(soak(count, seed, where, most_mib, say))
    except SluiceError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(CANNOT_START)
    if out is not None:
        out.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    for line in render(report):
        click.echo(line)
    troubles = list(report.troubles())
    for line in troubles:
        click.echo(f"Error: {line}", err=True)
    sys.exit(FAILED if troubles else 0)


if __name__ == "__main__":
    main()
