"""Requests over connections that are kept alive for the next request."""

import asyncio
from typing import Final, Self
from weakref import WeakValueDictionary

from bursar.adapters.http1.connect import connect
from bursar.adapters.http1.connection import Connection
from bursar.adapters.http1.errors import ConnectTimeoutError, DisconnectedError, HttpError
from bursar.adapters.http1.request import HttpRequest, request_bytes
from bursar.adapters.http1.response import Response
from bursar.adapters.http1.route import Route
from bursar.adapters.http1.transport_memory import InputBuffer

KEEPALIVE_SECONDS: Final = 15
"""How long an idle connection is kept. The API server closes it after 90 s; we must be first."""
IDLE_MAX: Final = 4
"""How many idle connections of a route are kept for `KEEPALIVE_SECONDS`. Each costs about 55 kB."""
OPENING_MAX: Final = 4
"""How many connections of a route are opened at a time. In a burst of short requests, most of
those that wait for their turn find that a connection has become idle."""
SURPLUS_SECONDS: Final = 2
"""How long idle connections beyond `IDLE_MAX` are kept, in case a burst of requests goes on."""


class HttpClient:
    """Use it as a context manager, or call `close`, which aborts every connection.

    The number of requests in flight is not bounded here; the caller bounds it.
    """

    def __init__(
        self,
        *,
        connect_seconds: float = 10.0,
        keepalive_seconds: float = KEEPALIVE_SECONDS,
        surplus_seconds: float = SURPLUS_SECONDS,
    ) -> None:
        self._connect_seconds = connect_seconds
        self._keepalive_seconds = keepalive_seconds
        self._surplus_seconds = surplus_seconds
        self._input_buffer = InputBuffer()
        self._open: set[Connection] = set()
        self._idle: dict[Route, dict[Connection, asyncio.TimerHandle]] = {}
        self._turns: WeakValueDictionary[Route, asyncio.Semaphore] = WeakValueDictionary()
        """By route: limits the connections that are being opened. Kept only while one is opened."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Abort every connection, and wait until the event loop has closed its socket."""
        connections = list(self._open)
        for connection in connections:
            connection.abort()
        for connection in connections:
            await connection.closed.wait()

    async def send(self, route: Route, request: HttpRequest) -> Response:
        """Return the response once its head is there. Close it after use. Raises `HttpError`."""
        data = request_bytes(request, route)
        connection = self._take_idle(route)
        is_kept = connection is not None
        if connection is None:
            connection, is_kept = await self._in_turn(route)
        try:
            return await _exchange(connection, request, data)
        except DisconnectedError:
            # The server closed the idle connection before the request reached it.
            if not (is_kept and request.is_idempotent):
                raise
        return await _exchange(await self._connect(route), request, data)

    async def _in_turn(self, route: Route) -> tuple[Connection, bool]:
        """A connection, and whether it is a kept one that became idle before it was our turn."""
        turns = self._turns.setdefault(route, asyncio.Semaphore(OPENING_MAX))
        try:
            async with asyncio.timeout(self._connect_seconds), turns:
                kept = self._take_idle(route)
                return (await self._opened(route), False) if kept is None else (kept, True)
        except TimeoutError:
            raise self._too_slow() from None

    async def _connect(self, route: Route) -> Connection:
        try:
            async with asyncio.timeout(self._connect_seconds):
                return await self._opened(route)
        except TimeoutError:
            raise self._too_slow() from None

    def _too_slow(self) -> ConnectTimeoutError:
        return ConnectTimeoutError(f"no connection within {self._connect_seconds:g} s")

    async def _opened(self, route: Route) -> Connection:
        connection = await connect(route)
        if connection.is_open:
            self._open.add(connection)
            self._input_buffer.share(connection.transport)
        connection.on_idle = lambda: self._keep(route, connection)
        connection.on_lost = lambda: self._forget(route, connection)
        return connection

    # -------------------------------------------------------------- kept connections

    def _take_idle(self, route: Route) -> Connection | None:
        """The most recently used connection, so that the others can expire."""
        idle = self._idle.get(route)
        while idle:
            connection, timer = idle.popitem()
            timer.cancel()
            if connection.is_open:
                return connection
        return None

    def _keep(self, route: Route, connection: Connection) -> None:
        idle = self._idle.setdefault(route, {})
        is_surplus = len(idle) >= IDLE_MAX
        seconds = self._surplus_seconds if is_surplus else self._keepalive_seconds
        loop = asyncio.get_running_loop()
        idle[connection] = loop.call_later(seconds, connection.abort)

    def _forget(self, route: Route, connection: Connection) -> None:
        self._open.discard(connection)
        # Break the reference cycle between the connection and these callbacks.
        connection.on_idle = connection.on_lost = None
        idle = self._idle.get(route, {})
        timer = idle.pop(connection, None)
        if timer is not None:
            timer.cancel()
        if not idle:
            # A route holds a TLS context, which is replaced when a certificate is renewed.
            self._idle.pop(route, None)


async def _exchange(connection: Connection, request: HttpRequest, data: bytes) -> Response:
    if request.is_late():
        connection.abort()
        raise HttpError("too late to be sent")
    response = connection.send(data)
    try:
        await response.wait_for_head()
    except BaseException:
        response.close()
        raise
    return response
