"""`sluice config`: what is in force and where it comes from, and a template for a file."""

import textwrap
from typing import Any

import click
import msgspec

from ..producer.connection import safe_url
from ..worker.config import Config
from . import console
from .redaction import hidden
from .settings import (
    FIELDS,
    ByTopic,
    Field,
    Settings,
    current_settings,
    option_flags,
)


@click.group(name="config", help="Print the settings in force, or a template for a file.")
def command() -> None:
    """Settings: see `sluice --help` for where they come from."""


@command.command(cls=ByTopic)
@option_flags()
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
def show(config: Config, as_json: bool) -> None:
    """Print each setting in force and where its value comes from.

    Takes the flags of `sluice worker`, so that a command line can be tried out. Passwords and
    tokens are never printed.
    """
    del config
    settings = current_settings()
    if as_json:
        console.print_json(as_data(settings))
        return
    click.echo(f"# file: {settings.file or 'none'}")
    for line in console.table(as_rows(settings)):
        click.echo(line)


@command.command()
def init() -> None:
    """Print a TOML file with every setting, its meaning and its default, all commented out.

    \b
    Example:
      sluice config init > sluice.toml
    """
    click.echo(template())


def as_rows(settings: Settings) -> list[tuple[str, str, str]]:
    """Name, source and value of each setting, the value last because it may be long."""
    return [
        (name, str(settings.sources[name]), shown(name, getattr(settings.config, name)) or '""')
        for name in FIELDS
    ]


def as_data(settings: Settings) -> dict[str, Any]:
    """The same for programs."""
    return {
        "file": str(settings.file) if settings.file else None,
        "settings": {
            name: {
                "value": masked(name, getattr(settings.config, name)),
                "source": settings.sources[name],
            }
            for name in FIELDS
        },
    }


def template() -> str:
    """A settings file: uncommented as a whole, it says the defaults."""
    parts = [
        "# Settings of sluicegate. A variable SLUICE_<NAME> is stronger than a line here,",
        "# and a flag --<name> stronger than both. Durations end in _s and are seconds.",
    ]
    topic = ""
    for field in FIELDS.values():
        if field.topic != topic:
            topic = field.topic
            parts.append(f"\n# ---- {topic} ----")
        description = textwrap.fill(
            field.description, 98, initial_indent="# ", subsequent_indent="# "
        )
        parts.append(f"\n{description}\n#{field.name} = {_toml(field)}")
    return "\n".join(parts)


def _toml(field: Field) -> str:
    # For text, numbers, yes and no, and the empty table, JSON and TOML agree.
    return msgspec.json.encode(field.default).decode()


def masked(name: str, value: Any) -> Any:
    """The value of a field fit for eyes and programs: no password, no token."""
    return safe_url(value) if name == "amqp_url" else hidden(value)


def shown(name: str, value: Any) -> str:
    """The same as text."""
    safe = masked(name, value)
    return safe if isinstance(safe, str) else msgspec.json.encode(safe).decode()
