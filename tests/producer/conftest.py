from collections.abc import AsyncGenerator

import pytest_asyncio

from .fake_worker import FakeWorker, working


@pytest_asyncio.fixture
async def worker(broker_url: str, namespace: str) -> AsyncGenerator[FakeWorker]:
    """A fake worker that answers every job at once."""
    async with working(broker_url, namespace) as fake:
        yield fake
