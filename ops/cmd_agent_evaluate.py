"""`sluice agent evaluate`: watchdog and breaker against traces of agents."""

from typing import Any, BinaryIO, NoReturn, TextIO

import click

from ..guards.watchdog_thresholds import BadWatchdog, read_watchdog
from . import console
from .agent_trace_words import DEV, HELD_OUT
from .agent_traces import BadTrace, Trace, read_traces
from .agent_traces_made import made
from .evaluation_agents import judge_traces, report, summary
from .plain_text import plain


@click.command(name="evaluate")
@click.argument("file", type=click.File("rb"), required=False)
@click.option(
    "--held-out", is_flag=True, help="Without FILE: the traces made of a second set of words."
)
@click.option(
    "--watchdog",
    "deployment",
    type=click.File(encoding="utf-8"),
    help="A deployment's own thresholds: a TOML file with a table for each task type that it "
    "changes or adds.",
)
@click.option(
    "--as-worded",
    is_flag=True,
    help="Beside it, as the baseline, the same metrics without the corrections that were learned "
    "when they were tried.",
)
@click.option("--show", is_flag=True, help="List the healthy ones ended and the loops missed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    file: BinaryIO | None,
    deployment: TextIO | None,
    *,
    held_out: bool,
    as_worded: bool,
    show: bool,
    as_json: bool,
) -> None:
    """Follow the traces of FILE, round by round, until they end or the breaker ends them.

    FILE has one JSON object a line: {"id", "kind", "looping", "onset"?, "task_type"?, "budget"?,
    "tools"?, "rounds": [{"prose"?, "calls"?: [{"tool", "arguments"?, "result"?, "status"?}],
    "tokens"?, "wall_s"?, "waited_s"?, "failed"?}]}; `-` is standard input, and without FILE it is
    the synthetic traces. Printed overall and by kind: how many healthy ones are ended or warned,
    or have no tool left, once those are taken away that were used, which is as good as ended; how
    many loops are stopped, and how many rounds behind the first that only did again what was done.

    \b
    Examples:
      sluice agent evaluate --as-worded
      sluice agent evaluate traces.jsonl --watchdog mine.toml --show
      sluice agent evaluate --held-out --json | jq .variants.ours.healthy_ended
    """
    if file is not None and held_out:
        _refuse("--held-out is for the synthetic traces, and a FILE was given")
    traces = _traces(file, held_out=held_out)
    variants = {"ours": False, **({"as worded": True} if as_worded else {})}
    summaries: dict[str, dict[str, Any]] = {}
    try:
        tables = read_watchdog(deployment.read()) if deployment is not None else {}
        for name, worded in variants.items():
            done = judge_traces(traces, as_worded=worded, deployment=tables)
            summaries[name] = summary(done)
    except (BadWatchdog, UnicodeDecodeError) as error:
        _refuse(f"{deployment.name}: {error}" if deployment is not None else str(error))
    if as_json:
        console.print_json({"traces": len(traces), "variants": summaries})
        return
    for row in report(summaries, console.table):
        click.echo(row)
    if show:
        _print_mistakes(summaries)


def _traces(file: BinaryIO | None, *, held_out: bool) -> list[Trace]:
    if file is None:
        return made(HELD_OUT if held_out else DEV)
    try:
        traces = read_traces(file)
    except BadTrace as error:
        _refuse(f"{file.name}: {error}")
    if not traces:
        _refuse(f"{file.name}: there is nothing to evaluate: no line has a trace")
    return traces


def _print_mistakes(summaries: dict[str, dict[str, Any]]) -> None:
    for name, each in summaries.items():
        for one in each["mistakes"]:
            what = "missed" if one["looping"] else "healthy, ended"
            at = "" if one["ended"] is None else f" in round {one['ended']}: {one['because']}"
            left = "" if one["tools_spent"] is None else f", no tool left in {one['tools_spent']}"
            click.echo(plain(f"{name}: {what}  {one['id']}{left}{at}"))


def _refuse(problem: str) -> NoReturn:
    console.error(problem)
    click.get_current_context().exit(console.USAGE)
