"""What the tests of the dead letters stand on."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from aio_pika.abc import AbstractRobustConnection
from sluicegate.producer.connection import close, connect
from sluicegate.schemas import Names
from sluicegate.worker.config import Config

from .dlq_letters import LIMIT_S


@pytest_asyncio.fixture
async def connection(broker_url: str) -> AsyncGenerator[AbstractRobustConnection]:
    made = await connect(broker_url, timeout_s=LIMIT_S, name="dlq tests")
    yield made
    await close(made)


@pytest.fixture
def config(broker_url: str, namespace: str) -> Config:
    return Config(amqp_url=broker_url, namespace=namespace)


@pytest.fixture
def names(namespace: str) -> Names:
    return Names(namespace)
