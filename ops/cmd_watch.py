"""`sluice watch`: follow one job as it happens."""

import asyncio

import click
import msgspec

from ..producer import (
    Accepted,
    Completed,
    Delta,
    Finished,
    Interrupted,
    InvalidMessage,
    JobEvent,
    Judged,
    Reason,
    Retrying,
    watch,
)
from ..schemas.codec import encode
from ..schemas.jobs import JobId
from ..worker.config import Config
from . import console
from .seconds import SECONDS
from .settings import ByTopic, option_flags
from .submit_prompt import printable, why_not


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
    view = _View()
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
                    click.echo(encode(event))
                else:
                    view.show(event)
    except TimeoutError:
        return None
    return last


class _View:
    """Events for eyes: text runs on, everything else is a line with its time."""

    def __init__(self) -> None:
        self._in_text = False
        self._expected = 0

    def show(self, event: JobEvent) -> None:
        if isinstance(event.event, Delta):
            if event.event.offset > self._expected and event.event.channel == "content":
                click.echo("[...]", nl=False)
            if event.event.channel == "content":
                self._expected = event.event.offset + len(event.event.text)
            click.echo(printable(event.event.text), nl=False)
            self._in_text = True
            return
        if self._in_text:
            click.echo()
            self._in_text = False
        if isinstance(event.event, Retrying | Interrupted):
            # Its text starts over.
            self._expected = 0
        click.echo(f"{event.at.astimezone():%H:%M:%S}  {_said(event)}")


def _said(event: JobEvent) -> str:
    match event.event:
        case Accepted():
            return f"accepted by {event.worker}, attempt {event.attempt}"
        case Interrupted():
            return f"interrupted on {event.worker}: {event.event.detail}; it will be begun anew"
        case Retrying(next_attempt=number, detail=why, wait_s=wait_s):
            return f"attempt {number} in {wait_s:.0f} s: {printable(why)}"
        case Judged(verdict=verdict):
            worst = verdict.worst()
            why = f": {worst.check}, {printable(worst.detail)}" if worst is not None else ""
            return f"{verdict.outcome} by the checks of {verdict.checker}{why}"
        case Finished():
            return f"finished: {why_not(event.event.outcome) or 'completed'}"
        case Delta():
            return event.event.text
