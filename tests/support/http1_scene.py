"""Requests of our own HTTP client to servers on loopback, in few words."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from bursar.adapters.http1.answer import Answer
from bursar.adapters.http1.client import HttpClient
from bursar.adapters.http1.request import Header, HttpRequest
from bursar.adapters.http1.route import Origin, Route
from support.scripted_server import ScriptedServer, Step, scripted

BYTES_MAX = 2**24


def route_to(port: int, *, scheme: str = "http", host: str = "127.0.0.1", **way: object) -> Route:
    return Route(origin=Origin(scheme, host, port), **way)


def a_request(method: str = "GET", *headers: Header, **more: object) -> HttpRequest:
    return HttpRequest(method=method, target="/x", headers=headers, **more)


async def ask(client: HttpClient, route: Route, request: HttpRequest | None = None) -> Answer:
    async with asyncio.timeout(5):
        return await client.send(route, request or a_request())


async def body_of(answer: Answer) -> bytes:
    async with asyncio.timeout(5):
        return await answer.read(BYTES_MAX)


@contextlib.asynccontextmanager
async def asking(
    *script: Step, **settings: float
) -> AsyncIterator[tuple[ScriptedServer, HttpClient, Route]]:
    async with scripted(*script) as server, HttpClient(**settings) as client:
        yield server, client, route_to(server.port)


# ------------------------------------------------------------------ in between


@dataclass
class Tunnel:
    """A proxy that connects wherever it is asked to."""

    port: int = 0
    heads: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def asked(self) -> list[str]:
        """Where it was asked to connect to."""
        return [head.split()[1] for head in self.heads]


@contextlib.asynccontextmanager
async def tunnel(
    *, known: Mapping[str, str] | None = None, opened: bytes = b"HTTP/1.1 200 OK\r\n\r\n"
) -> AsyncIterator[Tunnel]:
    """Of hosts that only the proxy knows, `known` says where they are."""
    found = Tunnel()

    async def far_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Streams:
        found.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        host, _, port = found.asked[-1].rpartition(":")
        streams = await asyncio.open_connection((known or {}).get(host, host), int(port))
        writer.write(opened)
        return streams

    async with _relay(far_end) as found.port:
        yield found


@contextlib.asynccontextmanager
async def tls_in_front_of(port: int, context: ssl.SSLContext) -> AsyncIterator[int]:
    """A port where TLS is spoken for a plain server behind it."""

    async def far_end(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> Streams:
        return await asyncio.open_connection("127.0.0.1", port)

    async with _relay(far_end, context) as listening:
        yield listening


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
FarEnd = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Streams]]


@contextlib.asynccontextmanager
async def _relay(far_end: FarEnd, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    served: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await far_end(reader, writer)
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.add(asyncio.ensure_future(serve(reader, writer)))

    async with await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1]
        # Whoever spoke through it has left by now.
        async with asyncio.timeout(10):
            await asyncio.gather(*served)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(2**16):
            writer.write(piece)
            await writer.drain()
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
