"""A TCP proxy in front of the broker that can stall, as networks do."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from yarl import URL


class Proxy:
    """Passes bytes on while `flowing`; `url` is the broker's, through this proxy."""

    def __init__(self, target: str) -> None:
        self._target = URL(target)
        self.url = ""
        self.flowing = asyncio.Event()
        self.flowing.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(
            self._target.host, self._target.port
        )
        for source, sink in ((reader, there_writer), (there_reader, writer)):
            task = asyncio.create_task(self._pump(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while chunk := await source.read(65536):
                await self.flowing.wait()
                sink.write(chunk)
                await sink.drain()
        except OSError:
            pass
        finally:
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
