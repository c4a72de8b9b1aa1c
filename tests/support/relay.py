"""A TCP relay on loopback: a line between a client and a server that can be cut or held up."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

CHUNK_BYTES = 2**16


class Relay:
    """Passes bytes on, both ways, until told otherwise."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self.port = 0

    def cut(self) -> None:
        """Drop every connection; new ones can be made at once."""
        for writer in self._writers:
            writer.transport.abort()

    def hold(self) -> None:
        """Keep connections open and pass nothing on, as a network does that swallows packets."""
        self._flows.clear()

    def let_go(self) -> None:
        self._flows.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Relay"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            self.let_go()
            server.close()
            self.cut()
            await asyncio.sleep(0.05)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, back}
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        self._writers -= {writer, back}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                await self._flows.wait()
                writer.write(chunk)
                await writer.drain()
        writer.close()
