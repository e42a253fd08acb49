"""The real thing, once per run: a broker, `sluice worker` on vLLM with the embedded model."""

import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from sluicegate.ops.embedded_model import offline_environment, resolve_model
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.ops.service_process import ServiceProcess
from sluicegate.producer import Producer, declare
from sluicegate.producer.connection import close, connect
from sluicegate.schemas import topology

NAMESPACE = "live.v1"
READY_S = 300.0


@dataclass
class Site:
    """A broker and the worker on it. Tests may kill either; who kills the worker starts another."""

    broker: PrivateBroker
    folder: Path
    settings: dict[str, object]
    worker: ServiceProcess

    def producer(self, reply: str | None = None) -> Producer:
        return Producer(self.broker.url, reply, namespace=NAMESPACE)

    async def new_worker(self) -> None:
        """Put a fresh worker in the place of one that is gone."""
        self.worker = ServiceProcess(self.folder, self.settings)
        await self.worker.start()
        await self.worker.ready(READY_S)


@pytest.fixture(scope="session")
def model() -> str:
    """The model's folder; nothing may look for a hub from here on."""
    found = resolve_model(os.environ.get("SLUICE_MODEL"))
    os.environ.update(offline_environment())
    return found


@pytest_asyncio.fixture(scope="session")
async def _started(model: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Site]:
    folder = tmp_path_factory.mktemp("live")
    async with PrivateBroker() as broker:
        connection = await connect(broker.url, timeout_s=20, name="live tests")
        await declare.apply(connection, topology(NAMESPACE))
        await close(connection)
        settings: dict[str, object] = {
            "amqp_url": broker.url,
            "namespace": NAMESPACE,
            "model": model,
            "max_model_len": 1024,
            "enforce_eager": True,
            "lanes": "interactive=6,batch=2",
            "drain_grace_s": 20,
        }
        site = Site(broker, folder, settings, ServiceProcess(folder, settings))
        await site.worker.start()
        await site.worker.ready(READY_S)
        try:
            yield site
        finally:
            await site.worker.stop()


@pytest_asyncio.fixture
async def site(_started: Site) -> Site:
    """Broker and worker, both up when the test begins."""
    await _started.broker.start()
    await _started.worker.ready(READY_S)
    return _started
