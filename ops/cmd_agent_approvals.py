"""`sluice agent approvals`: see which calls of agent jobs wait for a person, and answer them."""

import asyncio
import getpass
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

import click
import msgspec

from ..schemas import Names
from ..schemas.limits import MAX_DETAIL
from ..worker.config import Config
from ..worker.secrecy import secrecy_of
from . import console
from .dlq_filter import age, utc_now
from .plain_text import escaped, one_line
from .settings import ByTopic, option_flags

if TYPE_CHECKING:
    from ..worker.agent.approvals import Decided, Waiting, WaitingCall, WaitingJob

_BROKER: Final = ("amqp_url", "namespace", "connect_timeout_s")
_NAME_CHARS: Final = 256
_ID_SHOWN: Final = 40
_ARGUMENTS_SHOWN: Final = 80


class ListsByItself(click.Group):
    """A group that lists where no command is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`--json` alone is one of `list`."""
        own = ctx.help_option_names
        if not args or (args[0].startswith("-") and args[0] not in own):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(name="approvals", cls=ListsByItself)
def command() -> None:
    """See which calls of agent jobs wait for a person; approve or deny them.

    A tool that needs approval is not run before somebody says yes. Whoever says nothing in the time
    that the tool has for it, says no. Looking changes nothing, however often.

    \b
    Examples:
      sluice agent approvals                       what waits: the same as `list`
      sluice agent approvals approve 01975c3e-...  every call of the job that waits
      sluice agent approvals deny order-7 call-2-0 --why "that account is closed"
    """


@command.command(name="list", cls=ByTopic)
@option_flags(*_BROKER)
@click.option("--json", "as_json", is_flag=True, help="Each call as a line of JSON, in full.")
def list_(config: Config, as_json: bool) -> None:
    """List the calls that wait, the longest first.

    \b
    Examples:
      sluice agent approvals list
      sluice agent approvals list --json | jq -r 'select(.tool == "pay") | .job_id'

    \b
    Exit status: 0 done, however many there are; 1 somebody else is looking; 3 no broker.
    """
    # It pulls in the broker's client, which `--help` doesn't need.
    from ..worker.agent.approvals import list_waiting  # noqa: PLC0415

    found = asyncio.run(
        list_waiting(config.amqp_url, Names(config.namespace), timeout_s=config.connect_timeout_s)
    )
    now = utc_now()
    if as_json:
        for job in found.jobs:
            for one in job.calls:
                click.echo(escaped(msgspec.json.encode(as_data(job, one, now))))
    elif found.jobs:
        for line in console.table(rows(found, now)):
            click.echo(line)
    count = sum(len(job.calls) for job in found.jobs)
    click.echo(f"{_calls(count)} of {_jobs(len(found.jobs))} waiting", err=True)
    if found.unreadable:
        console.warning(
            f"{found.unreadable} of the messages there can't be read; an agent service moves them "
            "to the dead letters"
        )


def rows(found: "Waiting", now: datetime) -> Iterator[Sequence[str]]:
    """The table's rows. What a model said is tamed and cut."""
    yield "JOB", "ROUND", "CALL", "TOOL", "WAITING", "EXPIRES IN", "ARGUMENTS"
    for job in found.jobs:
        for one in job.calls:
            call = one.call
            yield (
                one_line(job.job_id, 100),
                str(one.round),
                typed(one, job.calls),
                one_line(call.name, _ID_SHOWN),
                age(job.since, now),
                left(one.expires_at, now),
                one_line(msgspec.json.encode(call.arguments).decode(), _ARGUMENTS_SHOWN),
            )


def typed(one: "WaitingCall", calls: "Sequence[WaitingCall]") -> str:
    """What to call it on the command line."""
    from ..worker.agent.approvals import short_name  # noqa: PLC0415  what `--help` doesn't need

    return one_line(short_name(one, calls), 200)


def left(expires_at: datetime, now: datetime) -> str:
    """How long it may wait yet."""
    return "over" if expires_at <= now else age(now, expires_at)


def as_data(job: "WaitingJob", one: "WaitingCall", now: datetime) -> dict[str, Any]:
    """A call for a program."""
    return {
        "job_id": job.job_id,
        "revision": job.revision,
        "round": one.round,
        "call_id": one.call.id,
        "effect_id": one.call.effect_id,
        "tool": one.call.name,
        "arguments": one.call.arguments,
        "waiting_since": job.since,
        "expires_at": one.expires_at,
        "expires_in_s": round(max(0.0, (one.expires_at - now).total_seconds()), 3),
        "task": job.task,
    }


@command.command(name="approve", cls=ByTopic)
@option_flags(*_BROKER)
@click.argument("job_id", metavar="JOB")
@click.argument("calls", metavar="[CALL]...", nargs=-1)
@click.option("--by", metavar="NAME", help="Who says so; otherwise your login name.")
@click.option("--why", metavar="TEXT", default="", help="A word on it, kept in the job's record.")
def approve(config: Config, job_id: str, calls: tuple[str, ...], by: str | None, why: str) -> None:
    """Say yes to the calls of a job that wait, all of them where none is named.

    The job goes on once no call of it waits. Ended at any moment, even by kill -9, it is done or
    not done.

    \b
    Examples:
      sluice agent approvals approve 01975c3e-6f2b-7c51-9d10-8a3f0a1b2c3d
      sluice agent approvals approve order-7 call-2-0 call-2-1 --by "Kim, on call"

    \b
    Exit status: 0 done; 1 nothing of that waits, or it was too late; 3 no broker.
    """
    _say(config, job_id, calls, "approved", by, why)


@command.command(name="deny", cls=ByTopic)
@option_flags(*_BROKER)
@click.argument("job_id", metavar="JOB")
@click.argument("calls", metavar="[CALL]...", nargs=-1)
@click.option("--by", metavar="NAME", help="Who says so; otherwise your login name.")
@click.option("--why", metavar="TEXT", default="", help="The model is told this.")
def deny(config: Config, job_id: str, calls: tuple[str, ...], by: str | None, why: str) -> None:
    """Say no to the calls of a job that wait, all of them where none is named.

    The model is told so, and why. The job goes on once no call of it waits.

    \b
    Examples:
      sluice agent approvals deny order-7 --why "not on a Friday"

    \b
    Exit status: 0 done; 1 nothing of that waits, or it was too late; 3 no broker.
    """
    _say(config, job_id, calls, "denied", by, why)


def _say(
    config: Config,
    job_id: str,
    calls: tuple[str, ...],
    state: Literal["approved", "denied"],
    by: str | None,
    why: str,
) -> None:
    from ..worker.agent.approvals import decide  # noqa: PLC0415  what `--help` doesn't need

    done = asyncio.run(
        decide(
            config.amqp_url,
            Names(config.namespace),
            job_id,
            state,
            calls=calls or None,
            by=one_line(login() if by is None else by, _NAME_CHARS),
            why=one_line(why, MAX_DETAIL),
            timeout_s=config.connect_timeout_s,
            secrecy=secrecy_of(config),
        )
    )
    click.echo("\n".join(said(done, state)))


def said(done: "Decided", state: str) -> Iterator[str]:
    """What was done, in words."""
    job = one_line(done.context.id, 100)
    yield f"{_calls(len(done.calls))} of job {job} {state}: {_named(done.calls)}"
    if done.late:
        yield f"{_calls(len(done.late))} had timed out, which means no: {_named(done.late)}"
    if done.left:
        yield f"{_calls(len(done.left))} waiting yet, and the job with it: {_named(done.left)}"
    else:
        yield "The job goes on."


def _named(calls: "Sequence[WaitingCall]") -> str:
    return ", ".join(f"{one_line(one.call.name, _ID_SHOWN)} ({typed(one, calls)})" for one in calls)


def _calls(count: int) -> str:
    return f"{count} call{'' if count == 1 else 's'}"


def _jobs(count: int) -> str:
    return f"{count} job{'' if count == 1 else 's'}"


def login() -> str:
    """The user's name; empty where the system has none for this user, as in a container."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
