"""Publishing one job from the command line, and perhaps waiting for it."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncGenerator
from typing import Final, TextIO

import click

from ..producer import (
    Completed,
    Delta,
    Expired,
    GenerationJob,
    GenerationResult,
    Handle,
    Outcome,
    Producer,
    ResultTimeout,
    SluiceError,
)
from ..producer.confirms import ConfirmedPublisher
from ..producer.connection import close, connect
from ..producer.sending import Job, send_job, stamped
from ..producer.tasks import end, see_through
from ..schemas.codec import encode
from ..schemas.topology import Names
from ..worker.config import Config
from ..worker.secrecy import secrecy_of
from .plain_text import escaped, plain
from .submit_stream import StreamedText
from .submit_waiting import tell_while_waiting

CALL_OFF_S: Final = 2.0


class WaitedLongEnough(SluiceError):
    """The time to wait for a result is over; the job was called off."""


async def publish_only(config: Config, job: Job, reply_to: str) -> None:
    """Publish and go. The result waits on the queue of `reply_to`."""
    connection = await connect(
        config.amqp_url,
        timeout_s=config.connect_timeout_s,
        name=f"sluice submit {socket.gethostname()}:{os.getpid()}",
    )
    try:
        await send_job(
            ConfirmedPublisher(connection),
            Names(config.namespace),
            stamped(job, reply_to),
            timeout_s=config.publish_timeout_s,
        )
    finally:
        await close(connection)


async def publish_and_wait(
    config: Config, job: GenerationJob, reply: str | None, *, timeout_s: float, as_json: bool
) -> GenerationResult:
    """Publish, show the text as it comes where the job says so, and give the result.

    Whoever stops waiting calls the job off: nobody would see its result. Raises WaitedLongEnough.
    """
    async with Producer(
        config.amqp_url,
        reply,
        namespace=config.namespace,
        connect_timeout_s=config.connect_timeout_s,
        secrecy=secrecy_of(config),
        publish_timeout_s=config.publish_timeout_s,
        events=job.stream,
    ) as producer:
        handle = await producer.publish(job)
        streamed = StreamedText(printable) if job.stream else None
        try:
            async with _told_why(config, job, streamed):
                deadline = asyncio.get_running_loop().time() + timeout_s
                if streamed is not None:
                    await _stream(handle, streamed, deadline, as_json=as_json)
                left_s = max(0.0, deadline - asyncio.get_running_loop().time())
                result = await handle.result(timeout=left_s)
        except ResultTimeout as error:
            await see_through(_call_off(handle))
            kept = f"on the queue of --reply {reply}" if reply else "in the dead letters"
            raise WaitedLongEnough(
                f"no result of job {job.id} within {timeout_s:g} s. The job was called off; a "
                f"result that still comes ends {kept}. Is a worker running, and is --timeout "
                "long enough?"
            ) from error
        except BaseException:
            called_off = await see_through(_call_off(handle))
            became = "was called off" if called_off else "could not be called off, and goes on"
            click.echo(f"Job {job.id} {became}.", err=True)
            raise
        if streamed is not None and not as_json:
            _complete(streamed.answer, result)
        return result


@contextlib.asynccontextmanager
async def _told_why(
    config: Config, job: GenerationJob, streamed: StreamedText | None
) -> AsyncGenerator[None]:
    """Beside the body, whoever waits is told why, as long as nothing was printed."""

    def tell(text: str) -> None:
        if streamed is None or not streamed.begun:
            click.echo(text, err=True)

    queue = Names(config.namespace).jobs_queue(job.lane)
    teller = asyncio.create_task(tell_while_waiting(config, queue, tell), name="submit waits")
    try:
        yield
    finally:
        await end(teller)


async def _stream(handle: Handle, shown: StreamedText, deadline: float, *, as_json: bool) -> None:
    """Print deltas as they come."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(deadline):
            async for event in handle.events():
                if as_json:
                    click.echo(escaped(encode(event)))
                elif isinstance(event.event, Delta):
                    shown.show(event.event)
            shown.end_reasoning()
            return
    shown.end_reasoning()
    if shown.answer and not as_json:
        click.echo()  # what follows is an error, on a line of its own


def _complete(streamed: str, result: GenerationResult) -> None:
    """End the streamed text: with what the events did not bring, where they lost some."""
    if result.text.startswith(streamed):
        click.echo(printable(result.text[len(streamed) :]))
    else:
        click.echo("\n[some of the stream was lost; the whole text:]", err=True)
        click.echo(printable(result.text))


async def _call_off(handle: Handle) -> bool:
    with contextlib.suppress(SluiceError, TimeoutError):
        async with asyncio.timeout(CALL_OFF_S):
            return await handle.cancel()
    return False


def why_not(outcome: Outcome) -> str | None:
    """In words, why a job was not completed; None where it was."""
    match outcome:
        case Completed():
            return None
        case Expired():
            return f"expired: its deadline was {outcome.deadline.isoformat()}"
        case _:
            kind = str(outcome.__struct_config__.tag)
            reason = getattr(outcome, "reason", None)
            if reason is None:
                return kind
            field = getattr(outcome, "field", None)
            where = f", field {field}" if field else ""
            return f"{kind} ({reason}{where}): {getattr(outcome, 'detail', '')}"


def printable(text: str, stream: TextIO | None = None) -> str:
    """Generated text as it may go to a terminal: without the characters that drive it. `stream` is
    standard output, where none is named; a file or a program gets the text as it is."""
    return plain(text) if (stream or sys.stdout).isatty() else text
