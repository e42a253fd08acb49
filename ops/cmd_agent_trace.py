"""`sluice agent trace`: the rounds of an agent job, drawn."""

import asyncio
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from ..schemas import InvalidMessage, JournalEntry, Reason
from ..schemas.agents import AgentId
from ..schemas.topology import JOURNAL_MAX_AGE
from ..worker.config import Config
from . import console
from .dlq_filter import Duration
from .plain_text import escaped
from .settings import ByTopic, option_flags

if TYPE_CHECKING:
    from .agent_trace_read import Trace
    from .agent_trace_source import Follower

_WIDEST: Final = 120
# Between an operator's sending a job back and its being begun.
_ANOTHER_S: Final = 5.0
_DAYS: Final = JOURNAL_MAX_AGE.removesuffix("D")


@click.command(name="trace", cls=ByTopic)
@option_flags("amqp_url", "namespace", "connect_timeout_s", "publish_timeout_s")
@click.argument("job_id", metavar="JOB")
@click.option("--follow", "-f", is_flag=True, help="Go on while the job does.")
@click.option(
    "--since",
    "since_s",
    metavar="AGE",
    type=Duration(),
    help=f"Look so far back, 2h or 3d; quicker. [default: all that is kept, {_DAYS} days]",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="All of it as one JSON object; with --follow, each line of the journal as it comes.",
)
def command(
    config: Config, job_id: str, follow: bool, since_s: float | None, as_json: bool
) -> None:
    """Draw the rounds of an agent job: what was called and what came of it, what the watchdog
    measured, what the breaker did, and what it cost.

    Read from the journal, which is not changed by it, whether the job runs or has ended; and from
    the dead letters, where the journal has nothing of it any more, or never had. A call that was
    made, and of which nothing came back, is shown as "running" while it may still run, and then as
    "unknown". --follow goes on with the newest attempt: an end that was there before is taken for
    the last after five seconds without another attempt.

    \b
    Examples:
      sluice agent trace 01975c3e-6f2b-7c51-9d10-8a3f0a1b2c3d
      sluice agent trace order-7 --follow
      sluice agent trace order-7 --json | jq '.attempts[-1].ended.outcome'

    \b
    Exit status: 0 it is there, however it ended; 1 nothing is there; 3 no broker.
    """
    try:
        msgspec.convert(job_id, AgentId)
    except msgspec.ValidationError as error:
        raise InvalidMessage(Reason.INVALID_FIELD, "JOB", f"is no job id: {error}") from error
    since = datetime.now(UTC) - timedelta(seconds=since_s) if since_s is not None else None
    found = asyncio.run(_show(config, job_id, since, follow=follow, as_json=as_json))
    if not found:
        back = "so far back" if since_s is not None else f"{_DAYS} days"
        console.error(
            f"nothing of an agent job {job_id}: neither in the journal ({back}) nor among the dead "
            "letters. A job leaves its first trace when it is begun: --follow waits for that. Is "
            "the id right, and is `sluice agent run` running?"
        )
        click.get_current_context().exit(console.FAILED)


async def _show(
    config: Config, job_id: str, since: datetime | None, *, follow: bool, as_json: bool
) -> bool:
    # They pull in the broker's client, which `--help` doesn't need.
    from . import agent_trace_source as source  # noqa: PLC0415
    from .agent_trace_read import gather  # noqa: PLC0415

    async with source.journal(config) as there:
        follower = source.Follower(there, job_id, since)
        lines = await follower.new()
        if follow and lines:
            await _follow(follower, config, job_id, lines, as_json=as_json)
            return True
        traces = gather(job_id, lines, datetime.now(UTC), patience_s=config.agent_step_timeout_s)
        over = bool(traces) and traces[-1].ended is not None
        waiting = () if over else await source.waits_for(config, job_id)
        if not over and not waiting:
            traces = await source.with_dead_letters(config, job_id, traces)
        if traces or (waiting and not follow):
            _print(traces, [_waits(one) for one in waiting], job_id, as_json=as_json)
            return True
        if follow:
            click.echo(f"nothing of {job_id} yet; waiting for it (Ctrl-C ends)", err=True)
            await _follow(follower, config, job_id, lines, as_json=as_json)
        return follow


def _print(
    traces: "Sequence[Trace]", waiting: Sequence[dict[str, Any]], job_id: str, *, as_json: bool
) -> None:
    from . import agent_trace  # noqa: PLC0415

    if as_json:
        data = {"job_id": job_id, "attempts": traces, "waiting": waiting}
        click.echo(escaped(msgspec.json.format(msgspec.json.encode(data), indent=2)))
        return
    if not traces:
        click.echo(f"agent job {job_id}: no call was made yet, and no round is over")
    for number, trace in enumerate(traces):
        if number:
            click.echo()
        for line in agent_trace.drawn(trace, width=_width(), colour=sys.stdout.isatty()):
            click.echo(line)
    for one in waiting:
        click.echo(agent_trace.waiting_line(one["tool"], one["arguments"], one["expires_at"]))


def _waits(one: Any) -> dict[str, Any]:
    return {
        "tool": one.call.name,
        "arguments": one.call.arguments,
        "effect_id": one.call.effect_id,
        "expires_at": one.expires_at,
    }


def _width() -> int:
    return min(_WIDEST, shutil.get_terminal_size().columns)


async def _follow(
    follower: "Follower", config: Config, job_id: str, lines: list[JournalEntry], *, as_json: bool
) -> None:
    """Print what is new, until the newest attempt has ended. An end that is there already may be
    that of the attempt before one that is just being begun."""
    from .agent_trace import Growing  # noqa: PLC0415
    from .agent_trace_read import attempt_of, gather  # noqa: PLC0415

    growing = Growing(width=_width(), colour=sys.stdout.isatty())
    known: list[JournalEntry] = []
    old = bool(lines)
    lines = lines or await follower.wait()
    while lines:
        known += lines
        trace = gather(job_id, known, datetime.now(UTC), patience_s=config.agent_step_timeout_s)[-1]
        said = (
            (_as_json(attempt_of(line), line) for line in lines) if as_json else growing.more(trace)
        )
        for line in said:
            click.echo(line)
        if trace.ended is None:
            lines = await follower.wait()
        elif old and trace.ended.outcome != "completed":
            lines = await follower.wait(_ANOTHER_S)
        else:
            return
        old = False


def _as_json(attempt: int, line: JournalEntry) -> str:
    fields = {"attempt": attempt, **msgspec.to_builtins(line)}
    return escaped(msgspec.json.encode(fields)).decode()
