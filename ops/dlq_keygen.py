"""`sluice dlq keygen`: a pair of keys for dead letters."""

import os
from pathlib import Path

import click

from . import console
from .dlq_keys import PASSWORD
from .settings import ByTopic


@click.command(name="keygen", cls=ByTopic)
@click.argument("name", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def keygen(name: Path, as_json: bool) -> None:
    """Make a pair of keys: NAME.pub.pem to encrypt dead letters, NAME.key.pem to open them.

    Services get the public one (keep_texts = "encrypted", operator_key_file = NAME.pub.pem), and
    can't read what they have encrypted. Who looks at dead letters needs the private one: --key
    NAME.key.pem. Keep it off the services' hosts, and keep a copy: without it those letters are
    lost. It can be read by its owner alone; a password in SLUICE_DLQ_KEY_PASSWORD locks it besides.
    No file is ever replaced.

    \b
    Examples:
      sluice dlq keygen operator
      SLUICE_DLQ_KEY_PASSWORD=... sluice dlq keygen /etc/sluicegate/dlq
      sluice dlq show 01975c3e-6f --key operator.key.pem

    \b
    Exit status: 0 done; 3 a file is there already, can't be written, or the extra is missing.
    """
    # It pulls in the broker's client.
    from ..producer.sealing import BadKey, make_pair  # noqa: PLC0415

    private = name.with_name(f"{name.name}.key.pem")
    public = name.with_name(f"{name.name}.pub.pem")
    password = os.environ.get(PASSWORD)
    try:
        key_id = make_pair(private, public, password.encode() if password else None)
    except BadKey as error:
        raise console.CannotStart(str(error)) from None
    if as_json:
        console.print_json({"key": key_id, "private": str(private), "public": str(public)})
        return
    click.echo(f"key {key_id}")
    click.echo(f"  {public}: for services, as operator_key_file")
    click.echo(f"  {private}: for whoever looks at dead letters, as --key; keep it secret")
