"""`sluice doctor`: look at everything that bites, and say what to do about it."""

import asyncio
from typing import TYPE_CHECKING, Final, cast

import click

from ..worker.config import Config
from . import console, management
from .doctor_findings import Finding, as_data, is_healthy, line, summary
from .settings import BadSetting, ByTopic, option_flags

if TYPE_CHECKING:
    from . import doctor_rights

# Those of `doctor_rights`, which loads the broker's client.
ROLES: Final = ("publisher", "worker", "checker", "agent", "operator")


@click.command(name="doctor", cls=ByTopic)
@option_flags()
@click.option(
    "--as",
    "roles",
    type=click.Choice(ROLES),
    multiple=True,
    help="Whether the broker's user may do what this role needs; can be given several times. "
    "[default: worker]",
)
@click.option(
    "--management-url",
    metavar="URL",
    envvar="SLUICE_MANAGEMENT_URL",
    help="RabbitMQ's management API, which alone tells alarms, bindings and its clock. "
    "[env: SLUICE_MANAGEMENT_URL; default: port 15672 on the broker's host]",
)
@click.option("--no-model", is_flag=True, help="Leave the model and vLLM out: quicker.")
@click.option("--no-broker", is_flag=True, help="Leave the broker out.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
def command(
    config: Config,
    roles: tuple[str, ...],
    management_url: str | None,
    no_model: bool,
    no_broker: bool,
    as_json: bool,
) -> None:
    """Look at everything that bites, and say what to do about it. Changes nothing.

    Takes the settings of `sluice worker`, and looks at versions, open files, memory, disk, clocks
    and the status port here; at the broker's version, transport, topology, rights, consumer
    timeout, alarms and queues; at the model, its tokenizer and the plug-in with the gates.

    Exit status 0: nothing in the way; 1: something is, and each says what to do.

    \b
    Examples:
      sluice doctor                                    as the worker started here would stand
      sluice doctor --no-model --as publisher          on a backend's host
      sluice doctor --json | jq '.findings[] | select(.verdict == "trouble")'
    """
    try:
        api = management.access(config.amqp_url, management_url)
    except ValueError as error:
        raise BadSetting([str(error)]) from None
    asked = tuple(roles) or ("worker",)
    found = asyncio.run(
        _look(
            config,
            asked,
            api,
            model=not no_model,
            broker=not no_broker,
            quiet=as_json,
        )
    )
    if as_json:
        console.print_json(as_data(found))
    else:
        click.echo(summary(found))
    click.get_current_context().exit(console.OK if is_healthy(found) else console.FAILED)


async def _look(
    config: Config,
    roles: tuple[str, ...],
    api: management.Access,
    *,
    model: bool,
    broker: bool,
    quiet: bool,
) -> list[Finding]:
    from . import doctor_broker, doctor_host, doctor_model  # noqa: PLC0415

    found: list[Finding] = []

    def tell(finding: Finding) -> None:
        found.append(finding)
        if not quiet:
            for each in line(finding):
                click.echo(each)

    for each in doctor_host.look(config):
        tell(each)
    if broker:
        wanted = cast("tuple[doctor_rights.Role, ...]", roles)
        asking = doctor_broker.Asking(config, wanted, api)
        async for each in doctor_broker.look(asking):
            tell(each)
    if model:
        async for each in doctor_model.look(config):
            tell(each)
    return found
