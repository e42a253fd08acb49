"""`sluice agent submit`: publish an agent job, and wait for what becomes of it."""

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click

from ..producer import AgentJob, GenerationResult
from ..schemas.codec import encode
from ..worker.config import Config
from . import agent_text, console, submit_prompt
from .agent_job_file import agent_job
from .agent_submit import publish_and_follow
from .plain_text import escaped, plain
from .seconds import SECONDS
from .settings import ByTopic, option_flags

STDIN: Final = "-"


@click.command(name="submit", cls=ByTopic)
@option_flags("amqp_url", "namespace", "connect_timeout_s", "publish_timeout_s")
@click.option("--task", metavar="TEXT", help="What to do; - reads it from standard input.")
@click.option(
    "--file",
    metavar="FILE",
    help="The job as JSON, with the fields of docs/protocol.md; - reads standard input. Flags are "
    "stronger.",
)
@click.option("--tool", "tools", multiple=True, metavar="NAME", help="May be called. Repeatable.")
@click.option("--system", metavar="TEXT", help="What it is told before anything else.")
@click.option("--task-type", metavar="NAME", help="The watchdog's thresholds: qa, coding, ...")
@click.option(
    "--format", type=click.Choice(["auto", "text", "grammar"]), help="How calls are said."
)
@click.option("--budget-tokens", type=int, metavar="N", help="Of prompts and answers together.")
@click.option("--budget-calls", type=int, metavar="N", help="Tool calls.")
@click.option("--budget-rounds", type=int, metavar="N", help="Answers of the model.")
@click.option(
    "--budget-s", type=SECONDS, metavar="SECONDS", help="Time, less waiting for a person."
)
@click.option(
    "--deadline-in", type=SECONDS, metavar="SECONDS", help="To be done so many seconds from now."
)
@click.option("--max-tokens", type=int, metavar="N", help="Of each answer at most.")
@click.option("--temperature", type=float, metavar="NUMBER", help="0 is greedy.")
@click.option("--seed", type=int, metavar="N", help="The same seed, the same answers.")
@click.option("--profile", metavar="NAME", help="The profile of the gates, such as chat or code.")
@click.option("--id", "job_id", metavar="ID", help="The job's id. [default: a new one]")
@click.option(
    "--reply",
    metavar="KEY",
    help="The reply key of the result [default: a private queue with --wait, `default` without].",
)
@click.option("--wait", is_flag=True, help="Wait for the result and print its text.")
@click.option(
    "--timeout",
    "timeout_s",
    type=SECONDS,
    metavar="SECONDS",
    help="With --wait: stop waiting after this long; the job goes on. [default: no limit]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@click.pass_context
def command(context: click.Context, /, config: Config, **said: Any) -> None:
    """Publish an agent job, and wait for its result.

    Standard output gets the answer alone; each round, and each call that waits for a person, goes
    to standard error as it happens. A job that was stopped comes back as "partial": its text says
    what is done and what is not. Whoever stops waiting doesn't stop the job.

    \b
    Examples:
      sluice agent submit --task "Is Lima larger than Paris?" --tool lookup --wait
      sluice agent submit --file job.json --budget-tokens 50000 --wait --json
      git diff | sluice agent submit --task - --system "You review code." --wait

    \b
    Exit status: 0 completed; 1 it was not; 2 bad usage or input, nothing published; 3 no broker;
    130 interrupted.
    """
    job = _job(said)
    encode(job)  # raises what is wrong with it, before anything is connected
    if not job.tools:
        click.echo("note: without tools it can only answer; --tool NAME gives it some", err=True)
    if said["wait"]:
        context.exit(_wait(config, job, said))
    if said["timeout_s"] is not None:
        raise click.UsageError("--timeout goes with --wait.")
    reply_to = said["reply"] or job.reply_to
    asyncio.run(submit_prompt.publish_only(config, job, reply_to))
    if said["as_json"]:
        console.print_json({"job_id": job.id, "reply_to": reply_to})
    else:
        click.echo(job.id)


def _job(said: dict[str, Any]) -> AgentJob:
    if said["task"] is None and said["file"] is None:
        raise click.UsageError("say what to do: --task TEXT, or --file FILE.")
    if said["task"] == STDIN and said["file"] == STDIN:
        raise click.UsageError("only one of --task and --file can read standard input.")
    task = said["task"]
    if task == STDIN:
        task = _utf8(sys.stdin.buffer.read())
    body: bytes | None = None
    if said["file"] is not None:
        body = sys.stdin.buffer.read() if said["file"] == STDIN else Path(said["file"]).read_bytes()
    fields = {
        "task": task,
        "system": said["system"],
        "task_type": said["task_type"],
        "format": said["format"],
        "profile": said["profile"],
        "id": said["job_id"],
    }
    if said["deadline_in"] is not None:
        fields["deadline"] = _from_now(said["deadline_in"])
    budget = {
        "tokens": said["budget_tokens"],
        "tool_calls": said["budget_calls"],
        "rounds": said["budget_rounds"],
        "wall_s": said["budget_s"],
    }
    sampling = {name: said[name] for name in ("max_tokens", "temperature", "seed")}
    return agent_job(
        body,
        _given(fields),
        {"budget": _given(budget), "sampling": _given(sampling)},
        said["tools"],
    )


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _from_now(seconds: float) -> str:
    try:
        return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
    except OverflowError as error:
        raise click.UsageError(f"--deadline-in {seconds:g} is too far away.") from error


def _utf8(data: bytes) -> str:

    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"standard input is not UTF-8 text: {error}") from error


def _wait(config: Config, job: AgentJob, said: dict[str, Any]) -> int:
    result = asyncio.run(
        publish_and_follow(config, job, said["reply"], timeout_s=said["timeout_s"], tell=_tell)
    )
    return show(result, as_json=said["as_json"])


def _tell(line: str) -> None:
    click.echo(f"[{plain(line)}]", err=True)


def show(result: GenerationResult, *, as_json: bool) -> int:
    """Print a result; the exit status that it means."""
    if as_json:
        click.echo(escaped(encode(result)))
    elif result.text:
        click.echo(submit_prompt.printable(result.text))
    if not as_json and (record := result.agent) is not None:
        _tell(agent_text.in_a_line(record))
        for line in agent_text.not_done(record):
            click.echo(line, err=True)
    if (why := submit_prompt.why_not(result.outcome)) is not None:
        console.error(f"job {result.job_id} was {plain(why)}")
        return console.FAILED
    return console.OK
