"""`sluice pause`: have services take nothing more, for a while."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from ..schemas import Names, Pause, Target
from ..schemas.errors import tame
from ..schemas.limits import MAX_DETAIL
from ..worker.config import Config
from . import console, pausing, saying
from .settings import ByTopic, option_flags


@click.command(name="pause", cls=ByTopic)
@option_flags("amqp_url", "namespace", "connect_timeout_s")
@pausing.target_options
@click.option("--reason", metavar="TEXT", default="", help="Why, for whoever wonders.")
@click.option(
    "--for",
    "for_s",
    type=pausing.Duration(),
    metavar="DURATION",
    help="It ends by itself after: 90s, 10m, 2h, 1d. Else when it is resumed.",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
def command(config: Config, reason: str, for_s: float | None, as_json: bool, **target: Any) -> None:
    """Pause services or a queue. Without a target: print what is paused.

    Who is paused finishes what it runs and takes nothing more; jobs wait in their queues. A pause
    is kept at the broker: services that start later, or were cut off, keep it as well. A service
    that is paused as a whole says so on /readyz (503) and in its events; `sluice top` shows it.

    \b
    Exit status: 0 on record; 2 bad usage; 3 no broker.

    \b
    Examples:
      sluice pause --lane batch --reason "rush hour" --for 2h
      sluice pause --worker gpu-3 --reason "new driver"
      sluice pause --kind checker
      sluice pause
    """
    names = Names(config.namespace)
    wanted = pausing.target_of(names, **target)
    now = datetime.now(UTC)
    if wanted is None:
        if reason or for_s is not None:
            raise click.UsageError(
                "Name what to pause: --all, --kind, --worker, --lane or --queue."
            )
        pauses = asyncio.run(_look(config, names))
    else:
        pauses = (_pause(wanted, now, reason, for_s),)
        asyncio.run(_say(config, names, pauses[0]))
    if as_json:
        console.print_json({"paused": [pausing.as_data(each) for each in pauses]})
    elif not pauses:
        click.echo("nothing is paused")
    else:
        for line in pausing.table(pauses, now):
            click.echo(line)


def _pause(target: Target, now: datetime, reason: str, for_s: float | None) -> Pause:
    return Pause(
        target=target,
        at=now,
        until=now + timedelta(seconds=for_s) if for_s is not None else None,
        by=saying.who(),
        reason=tame(reason)[:MAX_DETAIL],
    )


async def _say(config: Config, names: Names, pause: Pause) -> None:
    async with saying.connected(config, "pause") as connection:
        await saying.say(connection, names, [pause])


async def _look(config: Config, names: Names) -> tuple[Pause, ...]:
    async with saying.connected(config, "pause") as connection:
        return await saying.in_force(connection, names)
