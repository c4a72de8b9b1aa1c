"""One HTTP client in one case, for `http_client.py`: it prints its figures as JSON.

Only the client under test is imported, so that the process has the memory of that client alone.
"""
# ruff: noqa: PLC0415 - for that reason

import asyncio
import json
import resource
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

SECONDS = 2.0
IN_FLIGHT = 16
HELD = 4
LIST_BYTES = 2**26
EVENTS = 20_000
EVENT_BYTES = 9_001
PATCH = b'[{"op":"remove","path":"/spec/schedulingGates/0"}]'
HEADERS = [("Accept", "application/json"), ("Authorization", "Bearer " + "t" * 900)]
PATCH_HEADERS = [*HEADERS, ("Content-Type", "application/json-patch+json")]


class Client(Protocol):
    """What this benchmark asks of each library."""

    async def fetch(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """Return the whole body of a response."""

    def stream(self, path: str) -> AsyncIterator[bytes]:
        """Yield the body of a response while it arrives."""


Opened = AsyncIterator[Client]


@asynccontextmanager
async def ours(port: int, context: ssl.SSLContext) -> Opened:
    from bursar.adapters.http1.client import HttpClient
    from bursar.adapters.http1.request import HttpRequest
    from bursar.adapters.http1.route import Origin, Route

    route = Route(origin=Origin("https", "localhost", port), context=context)

    async with HttpClient() as http:

        class Ours:
            async def fetch(self, method: str, path: str, body: bytes | None = None) -> bytes:
                headers = HEADERS if body is None else PATCH_HEADERS
                request = HttpRequest(method=method, target=path, headers=headers, body=body)
                response = await http.send(route, request)
                return await response.read(2**30)

            async def stream(self, path: str) -> AsyncIterator[bytes]:
                request = HttpRequest(method="GET", target=path, headers=HEADERS)
                response = await http.send(route, request)
                while piece := await response.next_piece():
                    yield piece

        yield Ours()


@asynccontextmanager
async def aiohttp(port: int, context: ssl.SSLContext) -> Opened:
    import aiohttp

    url = f"https://localhost:{port}"
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        class Aiohttp:
            async def fetch(self, method: str, path: str, body: bytes | None = None) -> bytes:
                headers = HEADERS if body is None else PATCH_HEADERS
                async with session.request(
                    method, url + path, data=body, headers=headers
                ) as response:
                    return await response.read()

            async def stream(self, path: str) -> AsyncIterator[bytes]:
                async with session.get(url + path, headers=HEADERS) as response:
                    async for piece in response.content.iter_any():
                        yield piece

        yield Aiohttp()


@asynccontextmanager
async def httpcore(port: int, context: ssl.SSLContext) -> Opened:
    import httpcore

    url = f"https://localhost:{port}"
    async with httpcore.AsyncConnectionPool(ssl_context=context, max_connections=None) as pool:

        class Httpcore:
            async def fetch(self, method: str, path: str, body: bytes | None = None) -> bytes:
                headers = HEADERS if body is None else PATCH_HEADERS
                response = await pool.request(method, url + path, headers=headers, content=body)
                return response.content

            async def stream(self, path: str) -> AsyncIterator[bytes]:
                async with pool.stream("GET", url + path, headers=HEADERS) as response:
                    async for piece in response.aiter_stream():
                        yield piece

        yield Httpcore()


@asynccontextmanager
async def httpx(port: int, context: ssl.SSLContext) -> Opened:
    import httpx

    url = f"https://localhost:{port}"
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(verify=context, limits=limits) as client:

        class Httpx:
            async def fetch(self, method: str, path: str, body: bytes | None = None) -> bytes:
                headers = HEADERS if body is None else PATCH_HEADERS
                response = await client.request(method, url + path, headers=headers, content=body)
                return response.content

            async def stream(self, path: str) -> AsyncIterator[bytes]:
                async with client.stream("GET", url + path, headers=HEADERS) as response:
                    async for piece in response.aiter_raw():
                        yield piece

        yield Httpx()


# ------------------------------------------------------------------ cases


def resident_mb() -> float:
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(text.partition("VmRSS:")[2].split()[0]) / 1000


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def cpu_seconds() -> float:
    return time.process_time()


async def memory(client: Client) -> dict[str, float]:
    await asyncio.gather(*(client.fetch("GET", "/small") for _ in range(HELD)))
    return {"mb": resident_mb()}


async def _requests(send: Callable[[], Awaitable[object]], in_flight: int) -> dict[str, float]:
    sent = 0

    async def work(seconds: float) -> None:
        nonlocal sent
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            await send()
            sent += 1

    await asyncio.gather(*(work(SECONDS / 10) for _ in range(in_flight)))
    sent, started, cpu = 0, time.perf_counter(), cpu_seconds()
    await asyncio.gather(*(work(SECONDS) for _ in range(in_flight)))
    spent, cpu = time.perf_counter() - started, cpu_seconds() - cpu
    return {"per_s": sent / spent, "cpu_us": cpu / sent * 1e6}


async def get_one(client: Client) -> dict[str, float]:
    return await _requests(lambda: client.fetch("GET", "/small"), 1)


async def get(client: Client) -> dict[str, float]:
    return await _requests(lambda: client.fetch("GET", "/small"), IN_FLIGHT)


async def patch(client: Client) -> dict[str, float]:
    return await _requests(lambda: client.fetch("PATCH", "/small", PATCH), IN_FLIGHT)


async def list_(client: Client) -> dict[str, float]:
    await client.fetch("GET", "/small")
    started, cpu = time.perf_counter(), cpu_seconds()
    body = await client.fetch("GET", "/list")
    spent, cpu = time.perf_counter() - started, cpu_seconds() - cpu
    assert len(body) == LIST_BYTES, len(body)
    return {"ms": spent * 1e3, "cpu_ms": cpu * 1e3, "mb": peak_mb()}


async def watch(client: Client) -> dict[str, float]:
    await client.fetch("GET", "/small")
    started, cpu = time.perf_counter(), cpu_seconds()
    size = 0
    async for piece in client.stream("/watch"):
        size += len(piece)
    spent, cpu = time.perf_counter() - started, cpu_seconds() - cpu
    assert size == EVENTS * EVENT_BYTES, size
    return {"ms": spent * 1e3, "cpu_ms": cpu * 1e3}


CLIENTS: dict[str, Any] = {"ours": ours, "aiohttp": aiohttp, "httpcore": httpcore, "httpx": httpx}
CASES = {
    "memory": memory,
    "get_one": get_one,
    "get": get,
    "patch": patch,
    "list": list_,
    "watch": watch,
}


async def main() -> None:
    name, case, port, authority = sys.argv[1:5]
    context = ssl.create_default_context(cafile=authority)
    async with CLIENTS[name](int(port), context) as client:
        found = await CASES[case](client)
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main())
