"""`sluice watch`: follow one job as it happens."""

import asyncio
from typing import Final

import click
import msgspec

from ..producer import (
    Accepted,
    ApprovalWanted,
    Completed,
    Delta,
    Finished,
    Interrupted,
    InvalidMessage,
    JobEvent,
    Judged,
    Reason,
    Reasoned,
    Retrying,
    RoundEnded,
    watch,
)
from ..schemas.codec import encode
from ..schemas.jobs import JobId
from ..schemas.lineage import Channel
from ..worker.config import Config
from . import agent_text, console
from .plain_text import escaped, one_line
from .reasoning_text import in_a_line
from .seconds import SECONDS
from .settings import ByTopic, option_flags
from .submit_prompt import printable, why_not

# Of what is said of an event: more than any of ours, and no more of anybody else's.
_LINE_CHARS: Final = 2_000


@click.command(name="watch", cls=ByTopic)
@option_flags("amqp_url", "namespace", "connect_timeout_s")
@click.argument("job_id", metavar="JOB")
@click.option("--json", "as_json", is_flag=True, help="Each event as a line of JSON.")
@click.option(
    "--timeout",
    "timeout_s",
    type=SECONDS,
    metavar="SECONDS",
    default=600.0,
    show_default=True,
    help="Give up where the job has not finished by then.",
)
def command(config: Config, job_id: str, as_json: bool, timeout_s: float) -> None:
    """Follow one job as it happens, from now on, until it is finished.

    Its text is shown where the job was published with streaming. Of a job that has finished before
    there is nothing to see: its result is where its reply key says.

    \b
    Exit status: 0 completed; 1 not completed, or not finished in time; 3 no broker.

    \b
    Example, in two terminals:
      sluice watch story-1
      sluice submit --id story-1 --prompt "Tell me a story" --stream
    """
    try:
        msgspec.convert(job_id, JobId)
    except msgspec.ValidationError as error:
        raise InvalidMessage(Reason.INVALID_FIELD, "JOB", f"is no job id: {error}") from error
    last = asyncio.run(_follow(config, job_id, timeout_s, as_json=as_json))
    if last is None:
        console.error(
            f"job {job_id} did not finish within {timeout_s:g} s. It may have finished before, or "
            "wait for a worker"
        )
        click.get_current_context().exit(console.FAILED)
    if not isinstance(last.event, Finished) or not isinstance(last.event.outcome, Completed):
        click.get_current_context().exit(console.FAILED)


async def _follow(
    config: Config, job_id: str, timeout_s: float, *, as_json: bool
) -> JobEvent | None:
    """Print the events; gives the last one, or None where the time ran out."""
    last: JobEvent | None = None
    view = View()
    try:
        async with asyncio.timeout(timeout_s):
            async for event in watch(
                config.amqp_url,
                job_id,
                namespace=config.namespace,
                connect_timeout_s=config.connect_timeout_s,
            ):
                last = event
                if as_json:
                    click.echo(escaped(encode(event)))
                else:
                    view.show(event)
    except TimeoutError:
        return None
    return last


class View:
    """Events for eyes: text runs on, everything else is a line with its time. The reasoning is dim,
    and it and the answer behind it have a head line each."""

    def __init__(self) -> None:
        self._channel: Channel | None = None
        # Where the next piece of each is to begin, in characters.
        self._expected: dict[Channel, int] = {}

    def show(self, event: JobEvent) -> None:
        if isinstance(event.event, Delta):
            self._piece(event, event.event)
            return
        self._leave_text()
        kept = event.event.kept if isinstance(event.event, Interrupted | Accepted) else 0
        if isinstance(event.event, Retrying | Interrupted | Accepted) and not kept:
            # Its text starts over.
            self._expected = {}
        self._line(event, _said(event))

    def _piece(self, event: JobEvent, delta: Delta) -> None:
        if delta.channel != self._channel:
            self._leave_text()
            if delta.channel == "reasoning":
                self._line(event, "reasoning:")
            elif "reasoning" in self._expected:
                self._line(event, "answer:")
            self._channel = delta.channel
        if delta.offset > self._expected.get(delta.channel, 0):
            click.echo("[...]", nl=False)
        self._expected[delta.channel] = delta.offset + len(delta.text)
        text = printable(delta.text)
        click.echo(click.style(text, dim=True) if delta.channel == "reasoning" else text, nl=False)

    def _leave_text(self) -> None:
        if self._channel is not None:
            click.echo()
            self._channel = None

    def _line(self, event: JobEvent, said: str) -> None:
        click.echo(f"{event.at.astimezone():%H:%M:%S}  {one_line(said, _LINE_CHARS)}")


def _said(event: JobEvent) -> str:
    match event.event:
        case Accepted(kept=kept):
            said = f"accepted by {event.worker}, attempt {event.attempt}"
            said += f", which goes on from {kept:,} tokens" if kept else ""
        case Interrupted():
            kept = event.event.kept
            then = f"goes on from {kept:,} tokens" if kept else "will be begun anew"
            said = f"interrupted on {event.worker}: {event.event.detail}; it {then}"
        case Retrying(next_attempt=number, detail=why, wait_s=wait_s):
            said = f"attempt {number} in {wait_s:.0f} s: {why}"
        case Reasoned(record=record):
            said = f"reasoning: {in_a_line(record)}"
        case Judged(verdict=verdict):
            worst = verdict.worst()
            why = f": {worst.check}, {worst.detail}" if worst is not None else ""
            said = f"{verdict.outcome} by the checks of {verdict.checker}{why}"
        case RoundEnded() as ended:
            said = agent_text.round_ended(ended)
        case ApprovalWanted() as wanted:
            said = agent_text.approval_wanted(wanted)
        case Finished():
            said = f"finished: {why_not(event.event.outcome) or 'completed'}"
        case Delta():
            said = event.event.text
    return said
