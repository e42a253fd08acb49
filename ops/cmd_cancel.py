"""`sluice cancel`: call jobs off."""

import asyncio
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import click
import msgspec

from ..producer.event_feed import EventFeed
from ..schemas import CancelJob, Finished, JobEvent, Names
from ..schemas.errors import tame
from ..schemas.jobs import JobId
from ..schemas.limits import MAX_DETAIL
from ..worker.config import Config
from . import console, saying
from .seconds import SECONDS
from .settings import ByTopic, option_flags

_CANCELLED: Final = "cancelled"


@click.command(name="cancel", cls=ByTopic)
@option_flags("amqp_url", "namespace", "connect_timeout_s")
@click.argument("job_ids", metavar="JOB...", nargs=-1)
@click.option("--reason", metavar="TEXT", default="", help="Why, for the logs of the services.")
@click.option(
    "--wait", is_flag=True, help="Wait until each job says what became of it, and print that."
)
@click.option(
    "--timeout",
    "timeout_s",
    type=SECONDS,
    metavar="SECONDS",
    default=10.0,
    show_default=True,
    help="With --wait: for so long.",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
def command(
    config: Config,
    job_ids: tuple[str, ...],
    reason: str,
    wait: bool,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Call jobs off, whoever published them: generation jobs and agent jobs.

    What runs is aborted at once. What waits in a queue is not generated any more when its turn
    comes; whoever holds a handle on it is answered "cancelled" within a second all the same. What
    is done already stays as it is. `-` reads ids from standard input, one a line.

    \b
    Exit status: 0 on record (with --wait: every one was cancelled); 1 with --wait, one was not, or
    did not say so in time; 2 no job id; 3 no broker.

    \b
    Examples:
      sluice cancel story-1
      sluice cancel story-1 story-2 --reason "wrong prompt" --wait
      sluice cancel - < ids.txt
    """
    ids = _ids(job_ids)
    outcomes = asyncio.run(_cancel(config, ids, reason, timeout_s if wait else None))
    if as_json:
        told = [_as_data(each, outcomes, waited=wait) for each in ids]
        console.print_json({"cancel": told})
    else:
        for each in ids:
            click.echo(f"{each}: {_said(outcomes.get(each), timeout_s if wait else None)}")
    if wait and any(outcomes.get(each) != _CANCELLED for each in ids):
        click.get_current_context().exit(console.FAILED)


def _ids(arguments: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for each in arguments:
        lines: Iterable[str] = sys.stdin if each == "-" else (each,)
        found |= dict.fromkeys(job_id for line in lines if (job_id := line.strip()))
    if not found:
        raise click.UsageError("Name the jobs to call off, or - to read their ids from stdin.")
    for each in found:
        try:
            msgspec.convert(each, JobId)
        except msgspec.ValidationError as error:
            raise click.UsageError(f"{tame(each)!r} is no job id: {error}") from error
    return tuple(found)


async def _cancel(
    config: Config, ids: tuple[str, ...], reason: str, wait_s: float | None
) -> dict[str, str]:
    """Say it; gives what became of those that told, where that is waited for."""
    names = Names(config.namespace)
    outcomes: dict[str, str] = {}
    all_told = asyncio.Event()
    wanted = set(ids)

    def hear(event: JobEvent) -> None:
        if event.job_id in wanted and isinstance(event.event, Finished):
            outcomes[event.job_id] = str(event.event.outcome.__struct_config__.tag)
            if outcomes.keys() == wanted:
                all_told.set()

    now = datetime.now(UTC)
    by = saying.who()
    why = tame(reason)[:MAX_DETAIL]
    messages = [CancelJob(job_id=each, at=now, by=by, reason=why) for each in ids]
    async with saying.connected(config, "cancel") as connection:
        if wait_s is None:
            await saying.say(connection, names, messages)
            return outcomes
        feed = EventFeed(connection, names, "*.*.finished", hear)
        await feed.start(lambda _: all_told.set())
        try:
            await saying.say(connection, names, messages)
            async with asyncio.timeout(wait_s):
                await all_told.wait()
        except TimeoutError:
            pass
        finally:
            await feed.stop()
    return outcomes


def _said(outcome: str | None, wait_s: float | None) -> str:
    if wait_s is None:
        return "called off, if it is there: --wait tells what becomes of it"
    if outcome is None:
        return (
            f"called off; nothing was heard of it within {wait_s:g} s: it waits in a queue and is "
            "dropped when its turn comes, or it had ended before"
        )
    return outcome if outcome == _CANCELLED else f"{outcome}: it was too late to call it off"


def _as_data(job_id: str, outcomes: dict[str, str], *, waited: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"job_id": job_id, "on_record": True}
    return data | {"outcome": outcomes.get(job_id)} if waited else data
