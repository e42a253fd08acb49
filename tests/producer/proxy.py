"""A TCP proxy in front of the broker that does to connections what networks do: it stalls them, in
one direction or both, cuts them, and leaves one end believing that the other is still there."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Final, Literal

from yarl import URL

Direction = Literal["broker", "client"]
# Class and method of AMQP's basic.ack as they stand in a frame. From a client it settles a
# delivery, from the broker it confirms a publish. No JSON holds these bytes.
ACK: Final = b"\x00\x3c\x00\x50"


@dataclass(eq=False)
class _Link:
    """One connection: both its ends, and the tasks between them."""

    client: asyncio.StreamWriter
    broker: asyncio.StreamWriter
    pumps: list[asyncio.Task[None]] = field(default_factory=list)

    def abort(self) -> None:
        for writer in (self.client, self.broker):
            writer.transport.abort()


class Proxy:
    """Passes bytes on while `flowing`, and while `towards` their end; `url` is the broker's,
    through this proxy."""

    def __init__(self, target: str) -> None:
        self._target = URL(target)
        self.url = ""
        self.flowing = asyncio.Event()
        self.towards: dict[Direction, asyncio.Event] = {
            "broker": asyncio.Event(),
            "client": asyncio.Event(),
        }
        for event in (self.flowing, *self.towards.values()):
            event.set()
        self._lose_ack: Direction | None = None
        self._links: set[_Link] = set()

    def __repr__(self) -> str:
        return f"<Proxy {self.url}: {len(self._links)} connections>"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a connection; refuse it where the broker refuses ours."""
        try:
            there_reader, there_writer = await asyncio.open_connection(
                self._target.host, self._target.port
            )
        except OSError:
            writer.transport.abort()
            return
        link = _Link(writer, there_writer)
        self._links.add(link)
        ends: tuple[tuple[asyncio.StreamReader, asyncio.StreamWriter, Direction], ...] = (
            (reader, there_writer, "broker"),
            (there_reader, writer, "client"),
        )
        for source, sink, towards in ends:
            task = asyncio.create_task(self._pump(link, source, sink, towards))
            link.pumps.append(task)
            task.add_done_callback(lambda _, link=link: self._over(link))

    def cut(self) -> None:
        """Reset every connection, both ends of it."""
        for link in tuple(self._links):
            link.abort()

    def half_open(self) -> None:
        """The broker's end is gone, and the client hears nothing of it. What is connected anew
        works."""
        for link in tuple(self._links):
            for pump in link.pumps:
                pump.cancel()
            link.broker.transport.abort()

    def lose_ack(self, towards: Direction) -> None:
        """Cut all connections at the next acknowledgement that way, which is lost: to the client a
        confirmation of a publish, to the broker the settlement of a delivery."""
        self._lose_ack = towards

    @property
    def losing(self) -> bool:
        """Whether that acknowledgement is still to come."""
        return self._lose_ack is not None

    def heal(self) -> None:
        """Pass everything on again."""
        self._lose_ack = None
        for event in (self.flowing, *self.towards.values()):
            event.set()

    async def stop(self) -> None:
        """End every connection."""
        links = tuple(self._links)
        pumps = [pump for link in links for pump in link.pumps]
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        for link in links:
            link.abort()
        self._links.clear()

    def _over(self, link: _Link) -> None:
        """Both ends have left it. One that is half open is kept: dropped, it would close."""
        if all(pump.done() for pump in link.pumps) and link.client.transport.is_closing():
            self._links.discard(link)

    async def _pump(
        self,
        link: _Link,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        towards: Direction,
    ) -> None:
        try:
            while chunk := await source.read(65536):
                await self.flowing.wait()
                await self.towards[towards].wait()
                if self._lose_ack == towards and ACK in chunk:
                    self._lose_ack = None
                    link.abort()
                    self.cut()
                    return
                sink.write(chunk)
                await sink.drain()
        except OSError:
            pass
        # The other pump reads the end of this, and leaves too. Cancelled, the sink stays open.
        sink.close()


@contextlib.asynccontextmanager
async def proxied(url: str, query: str = "") -> AsyncGenerator[Proxy]:
    proxy = Proxy(url)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    proxy.url = str(URL(url).with_port(port)) + query
    try:
        yield proxy
    finally:
        server.close()
        await proxy.stop()
