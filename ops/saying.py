"""Control messages from the command line: who says them, and how they reach the broker."""

import getpass
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from aio_pika.abc import AbstractRobustConnection

from ..producer.confirms import ConfirmedPublisher
from ..producer.connection import close, connect
from ..schemas import CancelJob, Names, Pause, Resume, encode
from ..schemas.codec import tag_of
from ..worker.config import Config, secured
from ..worker.control import Control

PUBLISH_S = 10.0


def who() -> str:
    """User and host, for whoever reads in a log who did it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "?"
    return f"{user}@{socket.gethostname()}"[:256]


@asynccontextmanager
async def connected(config: Config, what: str) -> AsyncGenerator[AbstractRobustConnection]:
    """A connection for one command. Raises BrokerUnreachable."""
    connection = await connect(
        secured(config).amqp_url, timeout_s=config.connect_timeout_s, name=f"sluice {what}"
    )
    try:
        yield connection
    finally:
        await close(connection)


async def say(
    connection: AbstractRobustConnection,
    names: Names,
    messages: Sequence[CancelJob | Pause | Resume],
) -> None:
    """Publish them, in order; return when all are on record. Raises BrokerError, Unroutable among
    them where the broker has no log for them yet."""
    publisher = ConfirmedPublisher(connection)
    try:
        for message in messages:
            await publisher.publish(
                names.control if isinstance(message, CancelJob) else names.pauses,
                "",
                encode(message),
                kind=tag_of(type(message)),
                correlation_id=message.job_id if isinstance(message, CancelJob) else None,
                timeout_s=PUBLISH_S,
            )
    finally:
        await publisher.close()


async def in_force(connection: AbstractRobustConnection, names: Names) -> tuple[Pause, ...]:
    """What is paused now, by the log, oldest first. Raises BrokerError."""
    control = Control(names, "", "worker")
    died: list[BaseException] = []
    async with control.listening(connection, died.append):
        await control.caught_up()
    if control.trouble is not None:
        raise control.trouble
    return control.pauses.all(datetime.now(UTC))
