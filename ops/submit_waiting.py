"""Why a job that somebody waits for has no answer yet: said while they wait."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from ..producer import SluiceError
from ..producer.connection import close, connect
from ..producer.look import standing
from ..worker.config import Config

# A job that is begun at once has its first token by then, as a rule.
FIRST_S: Final = 5.0
EVERY_S: Final = 30.0


async def tell_while_waiting(
    config: Config, queue: str, tell: Callable[[str], None], *, first_s: float = FIRST_S
) -> None:
    """`tell` after `first_s` seconds, and then twice a minute, how the queue of a job stands. Runs
    until it is cancelled."""
    waited_s, pause_s = 0.0, first_s
    while True:
        await asyncio.sleep(pause_s)
        waited_s += pause_s
        tell(f"no result after {waited_s:.0f} s: {await _how_it_stands(config, queue)}")
        pause_s = EVERY_S


async def _how_it_stands(config: Config, queue: str) -> str:
    with contextlib.suppress(SluiceError):  # a user who may not ask, or no broker at this moment
        connection = await connect(
            config.amqp_url, timeout_s=config.connect_timeout_s, name="sluice submit (looks)"
        )
        try:
            return _said(queue, *await standing(connection, queue))
        finally:
            await close(connection)
    return "is a worker running?"


def _said(queue: str, waiting: int, consumers: int) -> str:
    jobs = f"{waiting:,} {'job waits' if waiting == 1 else 'jobs wait'} in {queue}"
    if not consumers:
        return f"{jobs}, and no worker takes from it. `sluice worker` starts one"
    workers = "worker takes" if consumers == 1 else "workers take"
    return f"{jobs}, and {consumers} {workers} from it"
