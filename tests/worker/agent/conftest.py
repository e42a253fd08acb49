"""What the tests of agent jobs stand on."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from aio_pika.abc import AbstractRobustConnection
from sluicegate.producer.connection import close, connect
from sluicegate.schemas import Names
from sluicegate.worker.config import Config

from .troupe import WAIT_S, Troupe


@pytest_asyncio.fixture
async def troupe(broker_url: str, namespace: str) -> AsyncGenerator[Troupe]:
    config = Config(
        amqp_url=broker_url,
        namespace=namespace,
        engine="scripted",
        # Whoever plays the model counts what it is asked.
        canary_prompt="",
        metrics_port=0,
        publish_timeout_s=5.0,
        max_model_len=200_000,
        drain_grace_s=5.0,
    )
    one = Troupe(broker_url, namespace, config)
    yield one
    await one.stop()


@pytest_asyncio.fixture
async def connection(broker_url: str) -> AsyncGenerator[AbstractRobustConnection]:
    made = await connect(broker_url, timeout_s=WAIT_S, name="agent tests")
    yield made
    await close(made)


@pytest.fixture
def names(namespace: str) -> Names:
    return Names(namespace)
