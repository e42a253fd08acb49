"""A group of commands, each loaded only when it is called."""

import importlib
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import click


class LazyGroup(click.Group):
    """A group that knows its commands' names and help, and imports one only to run it.

    The code of command `a-b` is the attribute `command` of the module `<prefix>a_b` of this
    package.
    """

    def __init__(self, *args: Any, there: Mapping[str, str], prefix: str, **extra: Any) -> None:
        """`there`: name → what it does."""
        super().__init__(*args, **extra)
        self._there = there
        self._prefix = prefix

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in the order of the table."""
        del ctx
        return list(self._there)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported."""
        del ctx
        if cmd_name not in self._there:
            return None
        name = f"{self._prefix}{cmd_name.replace('-', '_')}"
        command: click.Command = importlib.import_module(f".{name}", __package__).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it; a wrong name is answered with the nearest."""
        name = args[0]
        if name not in self._there and not name.startswith("-"):
            near = get_close_matches(name, self._there, n=1)
            hint = (
                f" Did you mean '{near[0]}'?" if near else f" There are: {', '.join(self._there)}."
            )
            ctx.fail(f"No such command '{name}'.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table, without importing any of them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(self._there.items()))
