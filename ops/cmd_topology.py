"""`sluice topology`: create, compare and print what must stand on the broker."""

import asyncio
from typing import Final

import click
from aio_pika.abc import AbstractRobustConnection

from ..producer import declare
from ..producer.connection import close, connect, safe_url, server_version
from ..producer.versions import WrongBroker, remarks, require_version
from ..schemas.topology import topology
from ..worker.config import Config
from . import console, management, topology_amqp
from .settings import BadSetting, option_flags
from .topology_check import compare, notes
from .topology_definitions_command import command as definitions
from .topology_observed import observe
from .topology_report import Applied, Checked, drawn

BROKER: Final = ("amqp_url", "namespace", "connect_timeout_s")

_json_flag = click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")


@click.group(name="topology")
def command() -> None:
    """Create, compare or print the exchanges, queues and bindings.

    \b
    Examples:
      sluice topology show
      sluice topology apply --amqp-url amqp://user:password@host:5672/
      sluice topology check || echo "not as it should be"
      sluice topology definitions --users > definitions.json
    """


@command.command()
@option_flags("namespace")
@_json_flag
def show(config: Config, as_json: bool) -> None:
    """Print the topology. Needs no broker."""
    wanted = topology(config.namespace)
    if as_json:
        console.print_json(
            {
                "namespace": wanted.names.namespace,
                "exchanges": wanted.exchanges,
                "queues": wanted.queues,
                "bindings": wanted.bindings,
            }
        )
        return
    for line in drawn(wanted):
        click.echo(line)


@command.command()
@option_flags(*BROKER)
@_json_flag
def apply(config: Config, as_json: bool) -> None:
    """Create what is missing on the broker, in a safe order. Can be repeated at will.

    What stands already is left alone. Where something of the same name stands with other
    properties nothing at all is created: each difference is named, and the exit status is 1.
    """
    applied = asyncio.run(_apply(config))
    if as_json:
        console.print_json(applied.as_data())
    else:
        for line in applied.as_text():
            click.echo(line)
    if applied.differences:
        console.error(
            f"{len(applied.differences)} properties on the broker differ, so nothing was created. "
            "They can't be changed in place: drain and delete what differs, then apply again, or "
            "use another --namespace"
        )
        click.get_current_context().exit(console.FAILED)


@command.command()
@option_flags(*BROKER)
@click.option(
    "--management-url",
    metavar="URL",
    envvar="SLUICE_MANAGEMENT_URL",
    help="RabbitMQ's management API, which alone can tell the bindings. Credentials in it are "
    "used, otherwise the broker's. [env: SLUICE_MANAGEMENT_URL; default: port 15672 on the "
    "broker's host, with amqps:// 15671 and TLS]",
)
@_json_flag
def check(config: Config, management_url: str | None, as_json: bool) -> None:
    """Compare the broker with the topology. Changes nothing.

    Names every difference. Exit status 0: equal as far as could be seen; 1: different; 3: the
    broker, or the management API that was named, can't be used. In JSON `complete` says whether
    everything was seen, bindings included.
    """
    try:
        api = management.access(config.amqp_url, management_url)
    except ValueError as error:
        raise BadSetting([str(error)]) from None
    checked = asyncio.run(_check(config, api, api_is_given=bool(management_url)))
    if as_json:
        console.print_json(checked.as_data())
    else:
        for line in checked.as_text():
            click.echo(line)
    click.get_current_context().exit(console.FAILED if checked.differences else console.OK)


command.add_command(definitions)


async def _apply(config: Config) -> Applied:
    wanted = topology(config.namespace)
    connection = await _connect(config)
    try:
        observed = await topology_amqp.observe(connection, wanted)
        differences = [each for each in compare(wanted, observed) if each.kind == "different"]
        if not differences:
            await declare.apply(connection, wanted)
        names = [
            *(
                (f"exchange {each.name}", each.name in observed.exchanges)
                for each in wanted.exchanges
            ),
            *((f"queue {each.name}", each.name in observed.queues) for each in wanted.queues),
        ]
        version = server_version(connection)
        return Applied(
            broker=safe_url(config.amqp_url),
            server=str(version),
            namespace=config.namespace,
            created=[] if differences else [what for what, present in names if not present],
            present=[what for what, present in names if present],
            bindings=0 if differences else len(wanted.bindings),
            differences=differences,
            remarks=remarks(version),
        )
    finally:
        await close(connection)


async def _check(config: Config, api: management.Access, *, api_is_given: bool) -> Checked:
    wanted = topology(config.namespace)
    connection = await _connect(config)
    try:
        observed = await observe(connection, wanted, api, api_is_given=api_is_given)
        version = server_version(connection)
    finally:
        await close(connection)
    return Checked(
        broker=safe_url(config.amqp_url),
        server=str(version),
        namespace=config.namespace,
        differences=compare(wanted, observed),
        unchecked=list(observed.unchecked),
        notes=notes(wanted, observed),
        remarks=remarks(version),
        bindings_seen=observed.bindings is not None,
    )


async def _connect(config: Config) -> AbstractRobustConnection:
    connection = await connect(
        config.amqp_url, timeout_s=config.connect_timeout_s, name="sluice topology"
    )
    try:
        require_version(server_version(connection))
    except WrongBroker:
        await close(connection)
        raise
    return connection
