"""`sluice evaluate`: the gates against labelled texts."""

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final, TextIO

import click

from ..guards.coherence import Acting
from ..guards.pipeline import streaming_gates
from ..guards.profiles import BadProfile, profile, profile_names, read_tables
from . import console
from .embedded_model import resolve_model
from .evaluation import Judged, Labelled, judge, mistakes, parse, report, summary

_PROBLEMS_SHOWN: Final = 20
_EVERY_S: Final = 0.5
# Where a line names no profile and nobody said another.
_DEFAULT: Final = "chat"


@click.command(name="evaluate")
@click.argument("file", type=click.File("rb"))
@click.option(
    "--profile",
    "default_profile",
    type=click.Choice(profile_names()),
    default=_DEFAULT,
    show_default=True,
    help="The profile of lines that name none.",
)
@click.option("--ignore-profiles", is_flag=True, help="Judge every line as if it named no profile.")
@click.option(
    "--gates",
    type=click.File(encoding="utf-8"),
    help="A deployment's own thresholds: a TOML file with a table for each profile it changes.",
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
    file: BinaryIO,
    default_profile: str,
    ignore_profiles: bool,
    gates: TextIO | None,
    tokenizer: str | None,
    show: bool,
    as_json: bool,
) -> None:
    """Judge the labelled texts of FILE as if a model produced them, token by token.

    FILE has one JSON object a line: {"id", "text", "label": "good" or "bad", "class"?, "profile"?,
    "prompt"?, "token_ids"?, "onset"?}; `-` is standard input. A text that runs to its end is then
    judged as a whole. Printed by class and overall: how many of the bad texts are found (recall),
    how many of the good ones are harmed, where, how long after the onset, and by which gate.

    \b
    Examples:
      sluice evaluate labelled.jsonl --show
      sluice evaluate labelled.jsonl --ignore-profiles --gates mine.toml
      sluice evaluate - --profile code --json < labelled.jsonl | jq .recall
    """
    lines = _read(file)
    deployment = _thresholds(gates)
    from ..worker.model_tokenizer import load_tokenizer  # noqa: PLC0415  what `--help` doesn't need

    loaded = load_tokenizer(resolve_model(tokenizer))
    # Ordinary text has no special tokens: what is denied matters only where ids are given.
    denied = loaded.denied() if any(line.token_ids is not None for line in lines) else {}

    def judged(line: Labelled) -> Judged:
        named = None if ignore_profiles else line.profile
        thresholds = profile(named or default_profile, deployment=deployment)
        streaming = streaming_gates(
            thresholds, vocabulary_size=len(loaded.tokenizer), denied=denied
        )
        acting = Acting(
            streaming, findings=thresholds.coherence_findings, span=thresholds.coherence_span
        )
        ids = loaded.encode(line.text) if line.token_ids is None else line.token_ids
        return judge(line, loaded.steps(ids), acting.feed, thresholds)

    done = [judged(line) for line in _with_progress(lines)]
    result = {"profile": default_profile, "tokenizer": loaded.name, **summary(done)}
    if as_json:
        console.print_json({**result, "mistakes": list(mistakes(done))} if show else result)
        return
    if show:
        for one in mistakes(done):
            about = f": {one['flaw']} ({one['detail']})" if one["flaw"] else ""
            click.echo(f"{one['mistake']}  {one['id']}  {one['class']}{about}\n    {one['text']}")
        click.echo()
    for row in report(result, console.table):
        click.echo(row)


def _read(file: BinaryIO) -> list[Labelled]:
    lines, problems = parse(file)
    if problems or not lines:
        for problem in problems[:_PROBLEMS_SHOWN]:
            console.error(problem)
        if len(problems) > _PROBLEMS_SHOWN:
            console.error(f"and {len(problems) - _PROBLEMS_SHOWN} lines more")
        if not problems:
            console.error("there is nothing to evaluate: no line has a text")
        click.get_current_context().exit(console.USAGE)
    return lines


def _thresholds(gates: TextIO | None) -> dict[str, dict[str, Any]]:
    if gates is None:
        return {}
    try:
        tables = read_tables(gates.read())
    except (BadProfile, UnicodeDecodeError) as error:
        console.error(f"{gates.name}: {error}")
        click.get_current_context().exit(console.USAGE)
    return tables


def _with_progress(lines: Sequence[Labelled]) -> Iterator[Labelled]:
    """The lines; on a terminal it is shown how far they are."""
    shown = sys.stderr.isatty()
    last = time.monotonic()
    for number, line in enumerate(lines):
        if shown and time.monotonic() - last > _EVERY_S:
            last = time.monotonic()
            click.echo(f"\r{number} of {len(lines)} texts", nl=False, err=True)
        yield line
    if shown:
        click.echo("\r\x1b[K", nl=False, err=True)
