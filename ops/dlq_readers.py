"""Whether anybody is there for the results of what is sent back."""

from collections.abc import Iterable
from typing import Final

from ..producer.connection import close, connect
from ..producer.errors import AccessRefused, TopologyMissing
from ..producer.look import standing
from ..schemas import Names
from ..worker.config import Config

# Reply keys that are looked up before a person is asked: a round trip or two for each.
MOST_ASKED: Final = 200


async def without_queue(config: Config, reply_keys: Iterable[str]) -> set[str]:
    """Those of the keys (the first 200) that no queue of results stands for, as a private one does
    not when its publisher is gone. Raises BrokerUnreachable."""
    names = Names(config.namespace)
    gone: set[str] = set()
    connection = await connect(
        config.amqp_url, timeout_s=config.connect_timeout_s, name="sluice dlq requeue (readers)"
    )
    try:
        for key in list(dict.fromkeys(reply_keys))[:MOST_ASKED]:
            try:
                await standing(connection, names.results_queue(key))
            except TopologyMissing:
                gone.add(key)
            except AccessRefused:
                continue
    finally:
        await close(connection)
    return gone
