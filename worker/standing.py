"""Whether the topology stands, with patience for a broker that has just come up."""

import asyncio
import logging
from typing import Final

from aio_pika.abc import AbstractRobustConnection

from ..producer.declare import require
from ..producer.errors import TopologyMissing
from ..schemas.topology import Topology

log = logging.getLogger(__name__)

# A stream is there a second or two after its node, a queue after the exchanges.
PATIENCE_S: Final = 10.0
_PAUSE_S: Final = 0.5


async def require_soon(
    connection: AbstractRobustConnection, topology: Topology, *, patience_s: float = PATIENCE_S
) -> None:
    """Raise TopologyMissing where it does not stand, after up to `patience_s` seconds where some of
    its queues are all that is missing; at once otherwise. Errors as `require`."""
    clock = asyncio.get_running_loop().time
    give_up = clock() + patience_s
    told = False
    while True:
        try:
            await require(connection, topology)
        except TopologyMissing as error:
            if not may_come(error, topology) or clock() >= give_up:
                raise
            if not told:
                log.warning("waiting up to %g s: %s", patience_s, error)
            told = True
        else:
            return
        await asyncio.sleep(_PAUSE_S)


def may_come(error: TopologyMissing, topology: Topology) -> bool:
    """Whether what is missing may be on its way: queues, and not all of them. An exchange is there
    with its node."""
    queues = [each for each in error.missing if each.startswith("queue ")]
    return len(queues) == len(error.missing) < len(topology.queues)
