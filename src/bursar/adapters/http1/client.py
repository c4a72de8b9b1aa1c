"""Requests over connections that are kept for the next one."""

import asyncio
from typing import Final, Self

from bursar.adapters.http1.answer import Answer
from bursar.adapters.http1.connecting import connect
from bursar.adapters.http1.connection import Connection
from bursar.adapters.http1.errors import ConnectTimeoutError, DisconnectedError, HttpError
from bursar.adapters.http1.request import HttpRequest, request_bytes
from bursar.adapters.http1.route import Route

KEEPALIVE_SECONDS: Final = 60
"""The API server closes a connection after 90 idle seconds; we must be first."""
TURNS_TO_DROP: Final = 3


class HttpClient:
    """Use it as a context manager, or `close` it: its connections end, whatever they are at.

    How many requests are under way at once is for its user to bound.
    """

    def __init__(
        self, *, connect_seconds: float = 10.0, keepalive_seconds: float = KEEPALIVE_SECONDS
    ) -> None:
        self._connect_seconds = connect_seconds
        self._keepalive_seconds = keepalive_seconds
        self._open: set[Connection] = set()
        self._idle: dict[Route, dict[Connection, asyncio.TimerHandle]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        for connection in list(self._open):
            connection.abort()
        # What was dropped is gone once the loop has had a turn for it.
        for _ in range(TURNS_TO_DROP):
            await asyncio.sleep(0)

    async def send(self, route: Route, request: HttpRequest) -> Answer:
        """The answer, with its head; read it or `drop` it. Raises `HttpError`."""
        written = request_bytes(request, route)
        connection = self._take_idle(route)
        if connection is not None:
            try:
                return await _exchange(connection, request, written)
            except DisconnectedError:
                # The server had closed it while nobody looked.
                if not request.is_repeatable:
                    raise
        return await _exchange(await self._connect(route), request, written)

    async def _connect(self, route: Route) -> Connection:
        try:
            async with asyncio.timeout(self._connect_seconds):
                connection = await connect(route)
        except TimeoutError:
            problem = f"no connection within {self._connect_seconds:g} s"
            raise ConnectTimeoutError(problem) from None
        if connection.is_open:
            self._open.add(connection)
        connection.on_idle = lambda: self._keep(route, connection)
        connection.on_lost = lambda: self._forget(route, connection)
        return connection

    # -------------------------------------------------------------- kept connections

    def _take_idle(self, route: Route) -> Connection | None:
        """The one that was used last: the others may then end of old age."""
        idle = self._idle.get(route)
        while idle:
            connection, timer = idle.popitem()
            timer.cancel()
            if connection.is_open:
                return connection
        return None

    def _keep(self, route: Route, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._keepalive_seconds, connection.abort)
        self._idle.setdefault(route, {})[connection] = timer

    def _forget(self, route: Route, connection: Connection) -> None:
        self._open.discard(connection)
        # The two hold each other through these.
        connection.on_idle = connection.on_lost = None
        idle = self._idle.get(route, {})
        timer = idle.pop(connection, None)
        if timer is not None:
            timer.cancel()
        if not idle:
            # A route goes with its certificate, and certificates are renewed.
            self._idle.pop(route, None)


async def _exchange(connection: Connection, request: HttpRequest, written: bytes) -> Answer:
    if request.is_late():
        connection.abort()
        raise HttpError("too late to be sent")
    answer = connection.send(written)
    try:
        await answer.head()
    except BaseException:
        answer.drop()
        raise
    return answer
