"""A file of jobs from the command line: what comes of its run, told in words and an exit status."""

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from ..producer import GenerationJob
from ..worker.config import Config
from . import console
from .submit_file import FileRun
from .submit_journal import Journal
from .submit_output import OrderedOutput
from .submit_progress import Progress, counted
from .submit_target import NotOurs

INTERRUPTED: Final = 130


def submit_file(
    config: Config,
    jobs: list[GenerationJob],
    problems: Sequence[str],
    out: Path | None,
    *,
    in_flight: int,
    quiet_limit_s: float,
) -> int:
    """Publish the jobs and bring their results to `out`, or standard output; nothing where a line
    has problems. Gives the exit status."""
    for problem in problems:
        console.error(problem)
    if problems:
        console.error(f"{counted(len(problems), 'line')} can't be taken, so nothing was published")
        return console.USAGE
    order = [job.id for job in jobs]
    if out is None:
        output = OrderedOutput(order, sys.stdout.buffer)
        progress = Progress(len(jobs), 0, sys.stderr)
        run = FileRun(jobs, output, progress, in_flight=in_flight, quiet_limit_s=quiet_limit_s)
        try:
            asyncio.run(run.run(config, None, resumed=False))
        finally:
            progress.end()
        return _summed_up(output.outcomes, run.unreadable)

    try:
        journal = Journal.open(out, order)
    except NotOurs as error:
        console.error(str(error))
        return console.USAGE
    try:
        return _into_file(config, jobs, journal, in_flight, quiet_limit_s, out)
    finally:
        journal.drop_if_needless()
        journal.close()


def _into_file(
    config: Config,
    jobs: list[GenerationJob],
    journal: Journal,
    in_flight: int,
    quiet_limit_s: float,
    out: Path,
) -> int:
    progress = Progress(len(jobs), len(journal), sys.stderr)
    if journal.damaged:
        damaged = counted(journal.damaged, "damaged line")
        console.warning(f"{damaged} in {journal.part}: done again")
    if len(journal):
        progress.note(f"{len(journal)} of {len(jobs)} results are there already")
    run = FileRun(jobs, journal, progress, in_flight=in_flight, quiet_limit_s=quiet_limit_s)
    if len(journal) < len(jobs):
        try:
            asyncio.run(run.run(config, journal.reply_key, resumed=journal.resumed))
        except BaseException as error:
            progress.end()
            interrupted = isinstance(error, KeyboardInterrupt)
            if run.published:
                journal.keep()
            left = _left(journal, len(jobs))
            click.echo(f"Interrupted. {left}" if interrupted else left, err=True)
            if interrupted:
                return INTERRUPTED
            raise
    progress.end()
    if not run.unreadable:
        journal.finish([job.id for job in jobs])
        click.echo(f"{out}: {counted(len(jobs), 'result')}", err=True)
    return _summed_up(journal.outcomes, run.unreadable)


def _left(journal: Journal, total: int) -> str:
    """What a run that came to no end leaves, and how to go on."""
    if journal.drop_if_needless():
        return "Nothing was published."
    if not len(journal):
        return (
            "Jobs were published, and no result has come yet. Run the same command again to wait "
            f"for them: {journal.part} knows where they come."
        )
    return (
        f"{len(journal)} of {counted(total, 'result')} are safe in {journal.part}. Run the same "
        "command again to go on."
    )


def _summed_up(outcomes: Counter[str], unreadable: list[str]) -> int:
    others = [f"{count} {kind}" for kind, count in outcomes.items() if kind != "completed"]
    if unreadable:
        others.append(f"{len(unreadable)} with a result that can't be read")
    if others:
        console.error(f"not every job was completed: {', '.join(others)}. The results say why")
        return console.FAILED
    return console.OK
