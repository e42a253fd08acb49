"""Publishing one agent job, and following it to its result."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from ..producer import (
    Accepted,
    AgentJob,
    ApprovalWanted,
    GenerationResult,
    Handle,
    JobEvent,
    Producer,
    ResultTimeout,
    RoundEnded,
    SluiceError,
)
from ..worker.config import Config
from ..worker.secrecy import secrecy_of
from . import agent_text

Tell = Callable[[str], None]

# Without any sign of life for so long, somebody may wonder.
QUIET_S: Final = 60.0


class StoppedWaiting(SluiceError):
    """The time to wait is over; the job goes on."""


async def publish_and_follow(
    config: Config, job: AgentJob, reply: str | None, *, timeout_s: float | None, tell: Tell
) -> GenerationResult:
    """Publish, `tell` what happens to it as it happens, and give the result.

    Raises StoppedWaiting after `timeout_s` seconds; None waits as long as it takes.
    """
    async with Producer(
        config.amqp_url,
        reply,
        namespace=config.namespace,
        connect_timeout_s=config.connect_timeout_s,
        secrecy=secrecy_of(config),
        publish_timeout_s=config.publish_timeout_s,
    ) as producer:
        handle = await producer.publish(job)
        tell(f"job {job.id}")
        teller = _Teller(tell)
        async with asyncio.TaskGroup() as group:
            beside = [
                group.create_task(teller.follow(handle), name="events"),
                group.create_task(teller.hint(), name="hints"),
            ]
            try:
                return await handle.result(timeout=timeout_s)
            except ResultTimeout as error:
                raise StoppedWaiting(
                    f"no result of job {job.id} within {timeout_s:g} s. The job goes on: "
                    f"`sluice agent trace {job.id} --follow`"
                ) from error
            except asyncio.CancelledError:
                tell(f"the job goes on: `sluice agent trace {job.id} --follow`")
                raise
            finally:
                # What has come by now is told; a finished job's events end by themselves.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(2.0 if handle.done else 0.0):
                        await asyncio.shield(beside[0])
                for task in beside:
                    task.cancel()


class _Teller:
    """Says what happens to one job, and hints where nothing does."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._heard = asyncio.Event()

    async def follow(self, handle: Handle) -> None:
        async for event in handle.events():
            self._heard.set()
            if (line := said(event)) is not None:
                self._tell(line)

    async def hint(self) -> None:
        try:
            async with asyncio.timeout(QUIET_S):
                await self._heard.wait()
        except TimeoutError:
            self._tell(
                f"nothing happened for {QUIET_S:.0f} s: is `sluice agent run` running, and has it "
                "room?"
            )


def said(event: JobEvent) -> str | None:
    """What happened, on one line; None for what needs no word."""
    match event.event:
        case Accepted():
            return f"begun by {event.worker}"
        case RoundEnded() as ended:
            return agent_text.round_ended(ended)
        case ApprovalWanted() as wanted:
            return agent_text.approval_wanted(wanted)
        case _:
            return None
