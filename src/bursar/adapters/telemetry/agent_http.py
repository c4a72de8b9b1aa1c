"""Metrics and health of the agent over plain HTTP: nothing in there is secret, and nothing writes.

A few pages for a probe and a scraper do not justify a framework in the memory of every node.
So this is the least of HTTP/1.1: a request line, headers that are read over, one answer, and
the connection is closed. Whoever is slow or sends too much is hung up on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Final, TypeAlias

from bursar.adapters.telemetry.agent_health import Health
from bursar.adapters.telemetry.exposition import CONTENT_TYPE

TEXT: Final = "text/plain; charset=utf-8"
READING: Final = ("GET", "HEAD")
REQUEST_SECONDS: Final = 10.0
"""From the connection to the last byte of the answer."""
HEAD_BYTES_MAX: Final = 16 << 10
CONNECTIONS_MAX: Final = 32

Answer: TypeAlias = tuple[HTTPStatus, bytes, str]
Page: TypeAlias = Callable[[], Awaitable[Answer]]


def agent_pages(
    *, metrics: Callable[[], bytes], health: Callable[[], Awaitable[Health]]
) -> Mapping[str, Page]:
    async def alive() -> Answer:
        return HTTPStatus.OK, b"OK\n", TEXT

    async def ready() -> Answer:
        found = await health()
        code = HTTPStatus.OK if found.is_good else HTTPStatus.SERVICE_UNAVAILABLE
        return code, str(found).encode(), TEXT

    async def exposition() -> Answer:
        return HTTPStatus.OK, metrics(), CONTENT_TYPE

    return {"/healthz": alive, "/readyz": ready, "/metrics": exposition}


class PageServer:
    """Build it, `start` it, `stop` it. It is not to be started twice."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._listener: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; the port, which matters if 0 was asked for. Raises `OSError`."""
        assert self._listener is None, "a server is started once"
        self._listener = await asyncio.start_server(
            self._connected, host, port, limit=HEAD_BYTES_MAX
        )
        listening: int = self._listener.sockets[0].getsockname()[1]
        return listening

    async def stop(self) -> None:
        assert self._listener is not None
        self._listener.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)
        await self._listener.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            if len(self._open) <= CONNECTIONS_MAX:
                await self._served(reader, writer)
        except asyncio.CancelledError:
            # Ours, from `stop`; asyncio would complain of a connection that ends like that.
            pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(
            OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
                path = rest.partition(" ")[0].partition("?")[0]
                writer.write(_written(await self._answer(method, path), has_body=method != "HEAD"))
                await writer.drain()

    async def _answer(self, method: str, path: str) -> Answer:
        page = self._pages.get(path)
        if page is None:
            return HTTPStatus.NOT_FOUND, b"404 page not found", TEXT
        if method not in READING:
            return HTTPStatus.METHOD_NOT_ALLOWED, b"only GET is answered here", TEXT
        return await page()


def _written(answer: Answer, *, has_body: bool) -> bytes:
    code, body, kind = answer
    head = (
        f"HTTP/1.1 {code.value} {code.phrase}\r\nServer: bursar\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\nX-Content-Type-Options: nosniff\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (body if has_body else b"")
