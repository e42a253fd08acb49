"""A broker that has just come up: what is on its way is waited for, and nothing else."""

import asyncio

import pytest
from aio_pika.abc import AbstractRobustConnection
from sluicegate.producer import declare
from sluicegate.producer.errors import TopologyMissing
from sluicegate.schemas import Names, topology
from sluicegate.worker.standing import may_come, require_soon

from .conftest import WAIT_S, Desk


async def without_journal(connection: AbstractRobustConnection, names: Names) -> None:
    async with declare.one_channel(connection, WAIT_S) as channel:
        await channel.queue_delete(names.journal)


@pytest.mark.broker
async def test_a_stream_that_comes_a_little_later_is_waited_for(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    whole = topology(desk.names.namespace)
    await without_journal(desk.connection, desk.names)
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        waiting = group.create_task(require_soon(desk.connection, whole, patience_s=WAIT_S))
        while "waiting up to" not in caplog.text:
            await asyncio.sleep(0.01)
        assert not waiting.done()
        await declare.apply(desk.connection, whole)
    assert caplog.text.count("waiting up to") == 1


@pytest.mark.broker
async def test_a_stream_that_does_not_come_is_missing(desk: Desk) -> None:
    await without_journal(desk.connection, desk.names)
    with pytest.raises(TopologyMissing, match=r"agents\.journal"):
        await require_soon(desk.connection, topology(desk.names.namespace), patience_s=0.7)


def test_only_queues_come_later_than_their_node_and_never_all_of_them() -> None:
    whole = topology("x")
    queues = [f"queue {each.name!r}" for each in whole.queues]
    exchange = f"exchange {whole.exchanges[0].name!r}"
    assert may_come(TopologyMissing(queues[:1]), whole)
    assert may_come(TopologyMissing(queues[1:]), whole)
    assert not may_come(TopologyMissing(queues), whole)
    assert not may_come(TopologyMissing([exchange]), whole)
    assert not may_come(TopologyMissing([exchange, queues[0]]), whole)
