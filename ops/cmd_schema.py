"""`sluice schema`: the JSON Schema of the messages, for publishers in other languages."""

import click

from ..schemas.json_schema import message_schemas
from . import console


@click.command(name="schema")
@click.argument(
    "name", metavar="[NAME]", required=False, type=click.Choice(sorted(message_schemas()))
)
@click.option("--json", "as_json", is_flag=True, help="Accepted for likeness: it is always JSON.")
def command(name: str | None, as_json: bool) -> None:
    """Print the JSON Schema of message NAME, or one JSON object with all of them.

    NAME is what `type` says in the message: generation_job, agent_job, generation_result,
    job_event, tool_request, tool_reply, candidate, dead_letter, cancel_job, agent_context or
    journal_entry.

    \b
    Examples:
      sluice schema generation_job
      sluice schema | jq keys
    """
    del as_json
    schemas = message_schemas()
    console.print_json(schemas[name] if name else schemas)
