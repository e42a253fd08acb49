"""Following one job from outside: whoever published it, whatever its reply key."""

from collections.abc import AsyncGenerator

from ..schemas.events import JobEvent
from ..schemas.topology import DEFAULT_NAMESPACE, Names
from .connection import close, connect
from .errors import ProducerClosed
from .event_feed import EventFeed
from .event_log import EventLog


async def watch(
    url: str,
    job_id: str,
    *,
    namespace: str = DEFAULT_NAMESPACE,
    connect_timeout_s: float = 5.0,
) -> AsyncGenerator[JobEvent]:
    """A job's events from now on, up to the one that says "finished".

    A job that has finished before gives none, so wait with a limit of your own. Raises
    BrokerUnreachable, TopologyMissing, AccessRefused.
    """
    log = EventLog()
    died: list[BaseException] = []

    def on_death(error: BaseException) -> None:
        died.append(error)
        log.end()

    connection = await connect(url, timeout_s=connect_timeout_s, name=f"sluicegate watch {job_id}")
    feed = EventFeed(connection, Names(namespace), f"*.{job_id}.#", log.add)
    try:
        await feed.start(on_death)
        async for event in log.follow():
            yield event
    finally:
        await feed.stop()
        await close(connection)
    if died:
        raise ProducerClosed(f"the watch broke down ({died[0]!r}): start it again")
