"""`sluice resume`: lift a pause."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import click

from ..schemas import Names, Pause, Resume, Target
from ..worker.config import Config
from . import console, pausing, saying
from .settings import ByTopic, option_flags


@click.command(name="resume", cls=ByTopic)
@option_flags("amqp_url", "namespace", "connect_timeout_s")
@pausing.target_options
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
def command(config: Config, as_json: bool, **target: Any) -> None:
    """Lift the pause of a target: of the same one that was paused. --all lifts every pause.

    What is still paused afterwards is printed: a worker takes jobs of a lane again when neither it,
    nor its kind, nor the lane is paused.

    \b
    Exit status: 0 lifted; 1 it was not paused; 2 bad usage; 3 no broker.

    \b
    Examples:
      sluice resume --lane batch
      sluice resume --worker gpu-3
      sluice resume --all
    """
    names = Names(config.namespace)
    wanted = pausing.target_of(names, **target)
    if wanted is None:
        raise click.UsageError("Name what to resume: --all, --kind, --worker, --lane or --queue.")
    lifted, left = asyncio.run(_resume(config, names, wanted))
    if as_json:
        console.print_json(
            {
                "resumed": [pausing.as_data(each) for each in lifted],
                "paused": [pausing.as_data(each) for each in left],
            }
        )
    else:
        for each in lifted:
            click.echo(f"resumed: {pausing.shown(each.target)}")
        if left:
            for line in pausing.table(left, datetime.now(UTC)):
                click.echo(line)
    if not lifted:
        console.error(f"{pausing.shown(wanted)} was not paused. `sluice pause` prints what is")
        click.get_current_context().exit(console.FAILED)


async def _resume(
    config: Config, names: Names, target: Target
) -> tuple[tuple[Pause, ...], tuple[Pause, ...]]:
    async with saying.connected(config, "resume") as connection:
        before = await saying.in_force(connection, names)
        # Said in any case: another may pause it at this moment, or its pause have just ended.
        message = Resume(target=target, at=datetime.now(UTC), by=saying.who())
        await saying.say(connection, names, [message])
    lifted = tuple(each for each in before if target.scope == "all" or each.target == target)
    return lifted, tuple(each for each in before if each not in lifted)
