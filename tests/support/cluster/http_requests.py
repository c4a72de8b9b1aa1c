"""Short forms for tests of the HTTP client against servers on loopback."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from bursar.adapters.http1.client import HttpClient
from bursar.adapters.http1.request import Header, HttpRequest
from bursar.adapters.http1.response import Response
from bursar.adapters.http1.route import Origin, Route
from support.faults.relay import Relay, Streams, dial_port
from support.faults.scripted_server import ScriptedServer, Step, scripted
from support.until import PATIENCE_SECONDS

BYTES_MAX = 2**24


def route_to(port: int, *, scheme: str = "http", host: str = "127.0.0.1", **more: object) -> Route:
    return Route(origin=Origin(scheme, host, port), **more)


def a_request(method: str = "GET", *headers: Header, **more: object) -> HttpRequest:
    return HttpRequest(method=method, target="/x", headers=headers, **more)


async def ask(client: HttpClient, route: Route, request: HttpRequest | None = None) -> Response:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await client.send(route, request or a_request())


async def body_of(answer: Response) -> bytes:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await answer.read(BYTES_MAX)


@contextlib.asynccontextmanager
async def asking(
    *script: Step, **settings: float
) -> AsyncIterator[tuple[ScriptedServer, HttpClient, Route]]:
    async with scripted(*script) as server, HttpClient(**settings) as client:
        yield server, client, route_to(server.port)


# ------------------------------------------------------------------ proxies


@dataclass
class Tunnel:
    """A proxy that connects to the target of each CONNECT request."""

    port: int = 0
    heads: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def asked(self) -> list[str]:
        """The targets of the CONNECT requests."""
        return [head.split()[1] for head in self.heads]


@contextlib.asynccontextmanager
async def tunnel(
    *, known: Mapping[str, str] | None = None, opened: bytes = b"HTTP/1.1 200 OK\r\n\r\n"
) -> AsyncIterator[Tunnel]:
    """`known` has the addresses of hosts that only the proxy can resolve."""
    found = Tunnel()

    async def dial(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Streams:
        found.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        host, _, port = found.asked[-1].rpartition(":")
        streams = await asyncio.open_connection((known or {}).get(host, host), int(port))
        writer.write(opened)
        return streams

    async with Relay(dial).running() as relay:
        found.port = relay.port
        yield found
        await relay.wait_until_unused()


@contextlib.asynccontextmanager
async def tls_in_front_of(port: int, context: ssl.SSLContext) -> AsyncIterator[int]:
    """A port that speaks TLS for a server that does not."""
    async with Relay(dial_port(port), context=context).running() as relay:
        yield relay.port
        await relay.wait_until_unused()
