"""What the tests of agent jobs stand on."""

from collections.abc import AsyncGenerator

import pytest_asyncio
from sluicegate.worker.config import Config

from .troupe import Troupe


@pytest_asyncio.fixture
async def troupe(broker_url: str, namespace: str) -> AsyncGenerator[Troupe]:
    config = Config(
        amqp_url=broker_url,
        namespace=namespace,
        engine="scripted",
        metrics_port=0,
        publish_timeout_s=5.0,
        max_model_len=200_000,
        drain_grace_s=5.0,
    )
    one = Troupe(broker_url, namespace, config)
    yield one
    await one.stop()

