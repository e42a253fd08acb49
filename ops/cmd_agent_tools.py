"""`sluice agent tools`: what there is for a model to call."""

from collections.abc import Iterator, Sequence

import click
from msgspec import structs

from ..schemas.errors import tame
from ..schemas.tools import ToolSpec
from ..worker.config import Config
from . import console
from .settings import option_flags

_LONGEST_CHARS = 60


@click.command(name="tools")
@option_flags("agent_tools", "agent_tools_file")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="As the file that agent_tools_file names where these tools are called from elsewhere.",
)
def command(config: Config, as_json: bool) -> None:
    """Print the registered tools: installed ones, those of --agent-tools, and those served
    elsewhere. Needs no broker.

    \b
    Examples:
      sluice agent tools --agent-tools my_tools,sluicegate.worker.tools.examples
      sluice agent tools --agent-tools my_tools --json > tools.json
    """
    # It imports the tools, and what they need.
    from ..worker.tools.registry import Registry  # noqa: PLC0415

    specs = tuple(Registry.load(config).specs.values())
    if as_json:
        console.print_json([structs.replace(each, remote=True) for each in specs])
        return
    if not specs:
        console.warning("there are no tools: name modules that have some with --agent-tools")
        return
    for line in console.table([("TOOL", "QUOTA", "TIMEOUT", "IS", "WHAT"), *_rows(specs)]):
        click.echo(line)


def _rows(specs: Sequence[ToolSpec]) -> Iterator[Sequence[str]]:
    for each in specs:
        quota = "-" if each.quota is None else str(each.quota)
        yield each.name, quota, f"{each.timeout_s:g} s", _is(each), _what(each)


def _is(spec: ToolSpec) -> str:
    said = {
        "approved": spec.needs_approval,
        "idempotent": spec.idempotent,
        "polls": spec.polls,
        "changes state": spec.changes_state,
        "remote": spec.remote,
    }
    return ", ".join(name for name, holds in said.items() if holds) or "-"


def _what(spec: ToolSpec) -> str:
    return tame(next(iter(spec.description.splitlines()), ""), _LONGEST_CHARS)
