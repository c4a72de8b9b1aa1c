"""The HTTP server of every Bursar process: HTTPS or plain HTTP, bounded, with an orderly stop.

It speaks HTTP/1.1 with keep-alive, as kube-apiserver does to webhooks. See
docs/adr/0012-http-server.md for the reasons.
"""

import asyncio
from typing import Final

from bursar.adapters.serving.connection import Connection, ServerState
from bursar.adapters.serving.limits import DEFAULT_LIMITS, ServerLimits
from bursar.adapters.serving.message import Routes, http_date
from bursar.adapters.serving.tls.channel import FindContext
from bursar.app.cluster.ports import Clock

SWEEP_SECONDS: Final = 1.0
"""How often deadlines of connections are checked."""
BACKLOG: Final = 256
"""Connections that the kernel keeps until they are accepted. Beyond that, clients try again."""


class HttpServer:
    """Create it, `start` it on one address or several, then `stop` it once."""

    def __init__(
        self, routes: Routes, *, clock: Clock, limits: ServerLimits = DEFAULT_LIMITS
    ) -> None:
        self._state = ServerState(routes=routes, limits=limits.within_open_files(), clock=clock)
        self._listeners: list[asyncio.Server] = []
        self._sweeping: asyncio.Task[None] | None = None

    @property
    def is_stopping(self) -> bool:
        return self._state.is_stopping

    async def start(self, host: str, port: int, find_context: FindContext | None = None) -> int:
        """Listen, with TLS if `find_context` is given. Raises `OSError`.

        Returns the port, which differs from `port` if that is 0.
        """
        listener = await asyncio.get_running_loop().create_server(
            lambda: Connection(self._state, find_context), host, port, backlog=BACKLOG
        )
        self._listeners.append(listener)
        self._state.date = http_date(self._state.clock.now())
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(self._sweep())
        listening: int = listener.sockets[0].getsockname()[1]
        return listening

    async def stop(self, *, delay_seconds: float = 0) -> None:
        """Accept no more connections, answer the requests in progress, then close.

        For `delay_seconds` the server still accepts connections, because clients of a Service do
        not know at once that this endpoint is gone. Meanwhile it is not ready, and each response
        says that it is the last on its connection, so that clients leave.

        After that, open connections accept requests for `linger_seconds` more: a client that has
        begun to send a request cannot know that the server is about to close the connection.
        """
        state = self._state
        state.is_stopping = True
        if delay_seconds:
            await state.clock.sleep(delay_seconds)
        state.is_accepting = False
        for listener in self._listeners:
            listener.close()
        if state.connections:
            await state.clock.sleep(state.limits.linger_seconds)
        for connection in list(state.connections):
            connection.finish()
        while state.connections:
            state.emptied.clear()
            await state.emptied.wait()
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        for listener in self._listeners:
            await listener.wait_closed()

    async def _sweep(self) -> None:
        """End what takes too long, on all connections."""
        state = self._state
        while True:
            state.date = http_date(state.clock.now())
            now = state.clock.monotonic()
            for connection in list(state.connections):
                if connection.deadline <= now:
                    connection.expire()
            state.bounds.report(now)
            await state.clock.sleep(SWEEP_SECONDS)
