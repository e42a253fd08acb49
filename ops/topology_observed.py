"""What stands on the broker, by the management API where it answers, else by what AMQP can tell."""

import asyncio

from aio_pika.abc import AbstractRobustConnection

from ..producer.connection import cluster_name
from ..schemas.topology import Topology
from . import console, management, topology_amqp
from .topology_check import BINDINGS_UNSEEN, Observed


async def observe(
    connection: AbstractRobustConnection,
    wanted: Topology,
    api: management.Access,
    *,
    api_is_given: bool,
) -> Observed:
    """All that can be seen of it. Changes nothing.

    Raises CannotStart where the API was asked for by name and can't be used, BrokerUnreachable.
    """
    try:
        name = cluster_name(connection)
        return await asyncio.to_thread(management.observe, api, cluster_name=name)
    except management.NoManagement as error:
        if api_is_given:
            raise console.CannotStart(f"the management API: {error}") from None
        observed = await topology_amqp.observe(connection, wanted)
        return Observed(
            observed.exchanges,
            observed.queues,
            None,
            (f"{BINDINGS_UNSEEN} ({error})", *observed.unchecked),
        )
