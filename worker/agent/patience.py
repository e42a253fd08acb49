"""Waiting for a broker that is in the way, instead of giving back what would come again at once."""

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from ...producer.errors import BrokerError

log = logging.getLogger(__name__)

T = TypeVar("T")
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0


async def patiently(work: Callable[[int], Awaitable[T]], limit_s: float) -> T:
    """What the work comes to, tried again while the broker is in the way: a stream, for one, is
    back a second or so after its node. `work` gets how often it was tried before. Given back, a job
    would come again at once, and be counted as one that kills its services. Raises BrokerError when
    `limit_s` seconds are over.
    """
    pause_s = _FIRST_PAUSE_S
    give_up = time.monotonic() + limit_s
    for tries in itertools.count():
        try:
            return await work(tries)
        except BrokerError as error:
            if time.monotonic() + pause_s > give_up:
                raise
            log.info("the broker is in the way, trying again: %s", error)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    raise AssertionError  # itertools.count() has no end
