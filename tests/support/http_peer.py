"""An HTTP client for tests that decides itself about every byte it sends."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    code: int
    headers: dict[str, str]
    """Names are lower-case."""
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def is_last(self) -> bool:
        """Whether the server closes the connection after it."""
        return self.headers.get("connection") == "close"


def request_bytes(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """A request with its length. Underscores in names of headers become hyphens."""
    named = {"Host": "localhost", "Content-Length": str(len(body))}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


class HttpPeer:
    """One connection to a server on loopback."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        await self.send(request_bytes(method, path, body, **headers))
        return await self.answer(has_body=method != "HEAD")

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers of the next answer. Raises `asyncio.IncompleteReadError`."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, *lines = head.rstrip("\r\n").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        return int(status.split()[1]), {name.lower(): value.strip() for name, _, value in pairs}

    async def answer(self, *, has_body: bool = True) -> Answer:
        code, headers = await self.head()
        if not has_body:
            return Answer(code, headers, b"")
        if headers.get("transfer-encoding") == "chunked":
            return Answer(code, headers, b"".join([each async for each in self.chunks()]))
        if "content-length" in headers:
            size = int(headers["content-length"])
            return Answer(code, headers, await self.reader.readexactly(size))
        return Answer(code, headers, await self.reader.read())

    async def chunks(self) -> AsyncIterator[bytes]:
        """The chunks of a body, each as soon as it comes."""
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        assert await self.reader.readexactly(2) == b"\r\n"

    async def is_closed(self) -> bool:
        """Wait for the end of the connection; whether nothing came before it."""
        try:
            return not await self.reader.read()
        except ConnectionError:
            return True


@contextlib.asynccontextmanager
async def connected(port: int, context: ssl.SSLContext | None = None) -> AsyncIterator[HttpPeer]:
    """A connection to a port of 127.0.0.1, with TLS if there is a context."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        yield HttpPeer(reader, writer)
    finally:
        writer.transport.abort()
