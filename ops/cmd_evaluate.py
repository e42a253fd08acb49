"""`sluice evaluate`: the gates against labelled texts."""

from typing import BinaryIO

import click

from ..guards.pipeline import streaming_gates
from ..guards.profiles import profile, profile_names
from . import console
from .embedded_model import resolve_model
from .evaluation import judge, mistakes, parse, report, summary

_PROBLEMS_SHOWN = 20


@click.command(name="evaluate")
@click.argument("file", type=click.File("rb"))
@click.option(
    "--profile",
    "default_profile",
    type=click.Choice(profile_names()),
    default="chat",
    show_default=True,
    help="The profile of lines that name none.",
)
@click.option(
    "--tokenizer",
    metavar="MODEL",
    help="Whose tokens the texts are streamed in: a folder or hub name. Without it SLUICE_MODEL, "
    "else the embedded model.",
)
@click.option("--show", is_flag=True, help="List what was missed and what was a false alarm.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    file: BinaryIO, default_profile: str, tokenizer: str | None, show: bool, as_json: bool
) -> None:
    """Judge the labelled texts of FILE as if a model produced them, token by token.

    FILE has one JSON object a line: {"id", "text", "label": "good" or "bad", "class"?, "profile"?,
    "prompt"?, "token_ids"?}; `-` is standard input. Printed by class and overall: how many of the
    bad texts are found (recall), how many of the good ones are harmed, where and by which gate.

    \b
    Examples:
      sluice evaluate labelled.jsonl --show
      sluice evaluate - --profile code --json < labelled.jsonl | jq .recall
    """
    lines, problems = parse(file)
    if problems or not lines:
        for problem in problems[:_PROBLEMS_SHOWN]:
            console.error(problem)
        if len(problems) > _PROBLEMS_SHOWN:
            console.error(f"and {len(problems) - _PROBLEMS_SHOWN} lines more")
        if not problems:
            console.error("there is nothing to evaluate: no line has a text")
        click.get_current_context().exit(console.USAGE)
    from .tokenizer import load_tokenizer  # noqa: PLC0415  what `--help` doesn't need

    loaded = load_tokenizer(resolve_model(tokenizer))
    # Ordinary text has no special tokens: what is denied matters only where ids are given.
    denied = loaded.denied() if any(line.token_ids is not None for line in lines) else {}
    judged = [
        judge(
            line,
            loaded.steps(loaded.encode(line.text) if line.token_ids is None else line.token_ids),
            streaming_gates(
                profile(line.profile or default_profile),
                vocabulary_size=len(loaded.tokenizer),
                denied=denied,
            ),
        )
        for line in lines
    ]
    result = {"profile": default_profile, "tokenizer": loaded.name, **summary(judged)}
    if as_json:
        console.print_json({**result, "mistakes": list(mistakes(judged))} if show else result)
        return
    if show:
        for one in mistakes(judged):
            about = f": {one['flaw']} ({one['detail']})" if one["flaw"] else ""
            click.echo(f"{one['mistake']}  {one['id']}  {one['class']}{about}\n    {one['text']}")
        click.echo()
    for line in report(result, console.table):
        click.echo(line)
