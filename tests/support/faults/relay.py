"""A TCP relay on loopback between a client and a server. Tests can cut it or pause it."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

from support.until import PATIENCE_SECONDS

CHUNK_BYTES = 2**16

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Streams]]
"""Opens the connection to the server, given the streams of the client."""


def dial_port(port: int) -> Dial:
    async def dial(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> Streams:
        return await asyncio.open_connection("127.0.0.1", port)

    return dial


class Relay:
    """Passes bytes on in both directions. With a TLS context, clients speak TLS to it."""

    def __init__(self, dial: Dial, *, context: ssl.SSLContext | None = None) -> None:
        self._dial = dial
        self._context = context
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self.port = 0

    def cut(self) -> None:
        """Drop every connection; new ones can be made at once."""
        for writer in self._writers:
            writer.transport.abort()

    def hold(self) -> None:
        """Keep connections open and pass nothing on, as a network does that loses packets."""
        self._flows.clear()

    def let_go(self) -> None:
        self._flows.set()

    async def wait_until_unused(self) -> None:
        """Wait until every connection was closed by its client or its server."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*self._tasks)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Relay"]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._context)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            self.let_go()
            server.close()
            self.cut()
            await self.wait_until_unused()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            there, back = await self._dial(reader, writer)
            self._writers.add(back)
            await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
            self._writers.discard(back)
        except (OSError, asyncio.IncompleteReadError):
            writer.close()
        finally:
            self._writers.discard(writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                await self._flows.wait()
                writer.write(chunk)
                await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
