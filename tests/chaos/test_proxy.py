"""The proxy does to a connection what it says, and nothing else."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from yarl import URL

from ..producer.proxy import ACK, Proxy, proxied

WAIT_S = 10


@pytest_asyncio.fixture
async def echo() -> AsyncGenerator[str]:
    """A server that sends back what it gets, in the place of a broker."""
    writers: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        with contextlib.suppress(OSError):
            while chunk := await reader.read(1024):
                writer.write(chunk)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield f"amqp://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    server.close()
    for writer in writers:
        writer.transport.abort()


@pytest_asyncio.fixture
async def proxy(echo: str) -> AsyncGenerator[Proxy]:
    async with proxied(echo) as one:
        yield one


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, proxy: Proxy) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", URL(proxy.url).port))

    def say(self, words: bytes) -> None:
        self.writer.write(words)

    async def hears(self, count: int) -> bytes:
        async with asyncio.timeout(WAIT_S):
            return await self.reader.readexactly(count)

    async def hears_nothing(self) -> bool:
        try:
            async with asyncio.timeout(0.2):
                await self.reader.read(1)
        except TimeoutError:
            return True
        return False

    async def is_cut(self) -> bool:
        try:
            async with asyncio.timeout(WAIT_S):
                return await self.reader.read() == b""
        except ConnectionError:
            return True
        finally:
            self.writer.close()


async def test_it_passes_on(proxy: Proxy) -> None:
    client = await Client.to(proxy)
    client.say(b"hello")
    assert await client.hears(5) == b"hello"
    client.writer.close()


@pytest.mark.parametrize("way", ["both", "broker", "client"])
async def test_stalled_bytes_come_later(proxy: Proxy, way: str) -> None:
    client = await Client.to(proxy)
    event = (
        proxy.flowing if way == "both" else proxy.towards["broker" if way == "broker" else "client"]
    )
    event.clear()
    client.say(b"hello")
    assert await client.hears_nothing()
    proxy.heal()
    assert await client.hears(5) == b"hello"
    client.writer.close()


async def test_a_cut_is_noticed_and_the_next_connection_works(proxy: Proxy) -> None:
    client = await Client.to(proxy)
    client.say(b"hello")
    await client.hears(5)
    proxy.cut()
    assert await client.is_cut()
    await test_it_passes_on(proxy)


async def test_half_open_the_client_hears_nothing(proxy: Proxy) -> None:
    client = await Client.to(proxy)
    client.say(b"hello")
    await client.hears(5)
    proxy.half_open()
    client.say(b"hello")
    assert await client.hears_nothing()
    await test_it_passes_on(proxy)
    client.writer.close()


@pytest.mark.parametrize("way", ["broker", "client"])
async def test_an_acknowledgement_is_lost_with_its_connection(proxy: Proxy, way: str) -> None:
    client = await Client.to(proxy)
    proxy.lose_ack("broker" if way == "broker" else "client")
    client.say(b"hello")
    assert await client.hears(5) == b"hello"
    assert proxy.losing
    client.say(b"." + ACK + b".")
    assert await client.is_cut()
    assert not proxy.losing


async def test_where_there_is_no_broker_the_client_is_refused() -> None:
    async with proxied("amqp://127.0.0.1:1/") as proxy:
        client = await Client.to(proxy)
        assert await client.is_cut()
