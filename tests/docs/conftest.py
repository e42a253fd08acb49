"""A private broker with the configuration that the documents recommend, and a scripted worker.

Always private: the examples use the default namespace, which on a user's own broker is in use.
"""

import shutil
import subprocess
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from sluicegate.ops.broker_node import free_ports
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.ops.service_process import ServiceProcess
from sluicegate.schemas.topology import DEFAULT_NAMESPACE

from ..conftest import apply_namespace
from .pages import read

READY_S = 60.0


@dataclass(frozen=True)
class Certificates:
    """A server's certificate, signed by itself, and the port where the broker shows it."""

    certificate: Path
    key: Path
    port: int

    @property
    def config(self) -> str:
        return (
            f"listeners.ssl.1 = 127.0.0.1:{self.port}\n"
            f"ssl_options.cacertfile = {self.certificate}\n"
            f"ssl_options.certfile = {self.certificate}\n"
            f"ssl_options.keyfile = {self.key}\n"
            "ssl_options.verify = verify_peer\n"
            "ssl_options.fail_if_no_peer_cert = false\n"
        )


@pytest.fixture(scope="package")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates | None:
    """None where the program `openssl` is missing, which nothing else here needs."""
    if shutil.which("openssl") is None:
        return None
    folder = tmp_path_factory.mktemp("tls")
    made = Certificates(folder / "server.pem", folder / "server.key", free_ports(1)[0])
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    key = ["-newkey", "rsa:2048", "-nodes", "-keyout", str(made.key)]
    subprocess.run(
        ["openssl", "req", "-x509", "-days", "2", *key, *subject, "-out", str(made.certificate)],
        check=True,
        capture_output=True,
    )
    return made


@pytest_asyncio.fixture(scope="package")
async def docs_broker(certificates: Certificates | None) -> AsyncGenerator[PrivateBroker]:
    """The broker, with the topology under its default name. It starts with our rabbitmq.conf."""
    tls = certificates.config if certificates else ""
    config = read("ops/deploy/rabbitmq.conf") + tls
    async with PrivateBroker(config=config, plugins=["rabbitmq_management"]) as broker:
        await apply_namespace(broker.url, DEFAULT_NAMESPACE)
        yield broker


@pytest_asyncio.fixture
async def scripted_worker(
    docs_broker: PrivateBroker, tmp_path: Path
) -> AsyncGenerator[ServiceProcess]:
    """`sluice worker` with the engine that says the prompt back."""
    settings = {"amqp_url": docs_broker.url, "engine": "scripted"}
    async with ServiceProcess(tmp_path, settings) as worker:
        await worker.ready(READY_S)
        yield worker
