"""What a producer can do with fewer rights on the broker, and what it says where it can't."""

import asyncio
import base64
import json
import urllib.request
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.producer import AccessRefused, GenerationJob, Producer, TopologyMissing
from sluicegate.producer.connection import close, connect
from sluicegate.producer.declare import apply, one_channel
from sluicegate.schemas import Names, topology
from sluicegate.schemas.topology import reply

from .fake_worker import working

pytestmark = pytest.mark.broker

NAMES = Names("rights")


@dataclass(frozen=True)
class Limited:
    """A broker whose operator has set everything up, and who gives `backend` limited rights."""

    broker: PrivateBroker

    @property
    def operator_url(self) -> str:
        return self.broker.url

    @property
    def backend_url(self) -> str:
        return self.broker.url.replace("guest:guest", "backend:secret")

    async def grant(self, *, configure: str = "", write: str = "", read: str = "") -> None:
        rights = {"configure": configure, "write": write, "read": read}
        await self._put("users/backend", {"password": "secret", "tags": ""})
        await self._put("permissions/%2F/backend", rights)

    async def _put(self, path: str, body: dict[str, str]) -> None:
        request = urllib.request.Request(  # noqa: S310  a URL of our own
            f"{self.broker.management_url}api/{path}",
            data=json.dumps(body).encode(),
            method="PUT",
            headers={
                "Authorization": f"Basic {base64.b64encode(b'guest:guest').decode()}",
                "Content-Type": "application/json",
            },
        )
        await asyncio.to_thread(_send, request)


def _send(request: urllib.request.Request) -> None:
    with urllib.request.urlopen(request, timeout=20):  # noqa: S310  a URL of our own
        pass


@pytest_asyncio.fixture(scope="module")
async def limited() -> AsyncGenerator[Limited]:
    async with PrivateBroker(plugins=["rabbitmq_management"]) as broker:
        connection = await connect(broker.url, timeout_s=10, name="operator")
        await apply(connection, topology(NAMES.namespace))
        queue, binding = reply(NAMES, "orders")
        async with one_channel(connection, 10) as channel:
            await channel.queue_declare(queue.name, durable=True, arguments=dict(queue.arguments))
            await channel.queue_bind(queue.name, binding.exchange, binding.routing_key)
        await close(connection)
        yield Limited(broker)


async def test_a_queue_that_the_operator_made_is_enough(limited: Limited) -> None:
    await limited.grant(write=r"^rights(\.control|\.dlx)?$", read=r"^rights\.results\.orders$")
    async with (
        working(limited.operator_url, NAMES.namespace),
        Producer(limited.backend_url, "orders", namespace="rights", events=False) as producer,
    ):
        handle = await producer.publish(GenerationJob(prompt="x"))
        assert (await handle.result(timeout=10)).ok


async def test_what_the_operator_did_not_make_is_missing(limited: Limited) -> None:
    await limited.grant(write=".*", read=".*")
    with pytest.raises(TopologyMissing, match=r"rights\.results\.invoices"):
        async with Producer(limited.backend_url, "invoices", namespace="rights", events=False):
            pass


async def test_a_private_queue_needs_the_right_to_configure(limited: Limited) -> None:
    await limited.grant(write=".*", read=".*")
    with pytest.raises(AccessRefused, match=r"may not declare the queue 'rights\.results\.private"):
        async with Producer(limited.backend_url, namespace="rights"):
            pass


async def test_so_do_events(limited: Limited) -> None:
    await limited.grant(write=".*", read=".*")
    with pytest.raises(AccessRefused, match=r"queue 'rights\.events\.\w+' for events"):
        async with Producer(limited.backend_url, "orders", namespace="rights"):
            pass


async def test_without_the_right_to_publish_the_error_says_so(limited: Limited) -> None:
    await limited.grant(configure=r"^rights\..*", write=r"^rights\..*", read=".*")
    async with Producer(limited.backend_url, namespace="rights") as producer:
        with pytest.raises(AccessRefused, match="may not write to exchange 'rights'"):
            await producer.publish(GenerationJob(prompt="x"))
        with pytest.raises(AccessRefused):
            await producer.publish(GenerationJob(prompt="x"))
