"""`sluice topology definitions`: the topology, and who may do what, as a file for RabbitMQ."""

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from yarl import URL

from ..schemas.jobs import ReplyKey
from ..schemas.tools import ToolName
from ..schemas.topology import topology
from ..worker.config import Config
from . import console
from .settings import BadSetting, option_flags
from .topology_definitions import definitions, hashed, is_hash
from .topology_roles import roles


@click.command(name="definitions")
@option_flags("amqp_url", "namespace")
@click.option("--users", "with_users", is_flag=True, help="With the users, and their rights.")
@click.option(
    "--rights",
    is_flag=True,
    help="With the rights of users that are there; no password is touched.",
)
@click.option(
    "--reply",
    "replies",
    metavar="KEY",
    multiple=True,
    help="One more user: a backend with this queue of results. Repeatable.",
)
@click.option(
    "--tool",
    "tools",
    metavar="NAME",
    multiple=True,
    help="One more user: who serves this tool elsewhere. Repeatable.",
)
@click.option(
    "--password-file",
    "password_files",
    metavar="USER=FILE",
    multiple=True,
    help="The user's password is the first line of this file. Repeatable.",
)
@click.option(
    "--hash",
    "hashes",
    metavar="USER=HASH",
    multiple=True,
    help="The password as `rabbitmqctl hash_password` prints it. Repeatable.",
)
@click.option("--prefix", default="", metavar="TEXT", help="Put this before each user's name.")
@click.option("--list", "as_list", is_flag=True, help="Only say which users there are, for people.")
def command(  # noqa: PLR0913, PLR0917 - one for each flag
    config: Config,
    with_users: bool,
    rights: bool,
    replies: tuple[str, ...],
    tools: tuple[str, ...],
    password_files: tuple[str, ...],
    hashes: tuple[str, ...],
    prefix: str,
    as_list: bool,
) -> None:
    """Print the topology as RabbitMQ's definitions, in JSON: for `rabbitmqctl import_definitions`,
    or the broker's `load_definitions`. Needs no broker.

    With --users come the users of the roles, each with what its work needs: operator, worker,
    checker, agent, publisher, watcher. No user has a password of ours: without --hash or
    --password-file it can't log in by one until `rabbitmqctl change_password`, and an import again
    takes its password away. What stands is never changed or removed by an import, but for rights
    and passwords. The virtual host is that of amqp_url.

    \b
    Examples:
      sluice topology definitions --users --reply orders > definitions.json
      rabbitmqctl import_definitions definitions.json
      rabbitmqctl change_password worker
      sluice topology definitions --users --password-file worker=/run/secrets/worker
      sluice topology definitions --rights --reply orders     after an update
      sluice topology definitions --list
    """
    if with_users and rights:
        raise click.UsageError("--users and --rights are one too many: --users has the rights")
    if not (with_users or rights or as_list) and (replies or tools or password_files or hashes):
        raise click.UsageError("these are about users: say --users, or --rights")
    wanted = topology(config.namespace)
    for key in replies:
        _checked(key, ReplyKey, "--reply")
    for name in tools:
        _checked(name, ToolName, "--tool")
    chosen = roles(wanted.names, replies, tools)
    if as_list:
        rows = [("user", "for"), *((prefix + each.name, each.work) for each in chosen)]
        for line in console.table(rows):
            click.echo(line)
        return
    names = [each.name for each in chosen]
    if len(set(names)) < len(names):
        raise click.UsageError("two users of the same name: a --reply can't be called like a role")
    known = _hashes(hashes, password_files, names)
    vhost = URL(config.amqp_url).path[1:] or "/"
    console.print_json(
        definitions(
            wanted,
            vhost,
            chosen if with_users or rights else (),
            users=with_users,
            hashes=known,
            prefix=prefix,
        )
    )
    without = [name for name in names if name not in known]
    if with_users and without:
        console.warning(
            f"without a password, and so without a login by one: {', '.join(without)}. Give each "
            "one by `rabbitmqctl change_password`, or here by --hash or --password-file"
        )


def _checked(said: str, kind: object, flag: str) -> None:
    try:
        msgspec.convert(said, kind)
    except msgspec.ValidationError as error:
        raise click.UsageError(f"{flag} {said!r}: {error}") from None


def _hashes(given: Sequence[str], files: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """The hash of each user's password. Raises UsageError, BadSetting; quotes none of them."""
    found: dict[str, str] = {}
    for flag, pairs in (("--hash", given), ("--password-file", files)):
        for pair in pairs:
            user, equals, value = pair.partition("=")
            if not equals or user not in names:
                raise click.UsageError(
                    f"{flag}: say USER=..., and USER is one of {', '.join(names)}"
                )
            if flag == "--password-file":
                value = hashed(_password(Path(value)))
            elif not is_hash(value):
                raise click.UsageError(
                    f"--hash {user}: is no hash as `rabbitmqctl hash_password` prints it"
                )
            found[user] = value
    return found


def _password(path: Path) -> str:
    try:
        first = path.read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(
            [f"--password-file {path}: can't be read ({type(error).__name__})"]
        ) from None
    if not first:
        raise BadSetting([f"--password-file {path}: its first line is empty"])
    return first
