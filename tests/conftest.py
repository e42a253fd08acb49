"""What the live tests stand on: a real broker, and a namespace of its own for each test.

`SLUICE_AMQP_URL` names a broker to use; otherwise the run starts a private one.
"""

import os
import secrets
import signal
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from sluicegate.ops.private_broker import PrivateBroker, broker_or_private
from sluicegate.producer import declare
from sluicegate.producer.connection import close, connect, open_channel
from sluicegate.schemas import topology

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell has started the suite in the background. Tests that press Ctrl-C need it for their
    # children.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest_asyncio.fixture(scope="session")
async def broker_url() -> AsyncGenerator[str]:
    """The broker of this run. Tests must not stop it; see `killable_broker`."""
    async with broker_or_private(os.environ.get("SLUICE_AMQP_URL")) as url:
        yield url


@pytest_asyncio.fixture(scope="session")
async def _second_broker() -> AsyncGenerator[PrivateBroker]:
    async with PrivateBroker() as broker:
        yield broker


@pytest_asyncio.fixture
async def killable_broker(_second_broker: PrivateBroker) -> PrivateBroker:
    """A private broker that a test may kill and start. It runs when the test begins."""
    await _second_broker.start()
    return _second_broker


@pytest_asyncio.fixture
async def namespace(broker_url: str) -> AsyncGenerator[str]:
    """A namespace with the whole topology, for one test alone; removed after it."""
    name = f"test.{secrets.token_hex(6)}"
    await apply_namespace(broker_url, name)
    yield name
    await delete_namespace(broker_url, name)


@pytest_asyncio.fixture
async def killable_namespace(killable_broker: PrivateBroker) -> str:
    """As `namespace`, on the broker that a test may kill.

    It is left there: deleting queues that dead-letter at least once while the node has only just
    come back makes RabbitMQ 3.10.8 give up (its dead-letter worker crashes until the node stops).
    """
    name = f"test.{secrets.token_hex(6)}"
    await apply_namespace(killable_broker.url, name)
    return name


@pytest.fixture
def bare_namespace() -> str:
    """A namespace with nothing in it."""
    return f"test.{secrets.token_hex(6)}"


async def apply_namespace(url: str, name: str) -> None:
    connection = await connect(url, timeout_s=20, name="tests")
    try:
        await declare.apply(connection, topology(name))
    finally:
        await close(connection)


async def delete_namespace(url: str, name: str) -> None:
    connection = await connect(url, timeout_s=20, name="tests")
    try:
        channel = await open_channel(connection, timeout_s=20)
        for queue in topology(name).queues:
            await channel.queue_delete(queue.name)
        for exchange in topology(name).exchanges:
            await channel.exchange_delete(exchange.name)
    finally:
        await close(connection)
