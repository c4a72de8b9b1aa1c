"""An HTTPS server: a few paths, bounded bodies, an orderly end.

HTTP/1.1 with keep-alive, which is how API servers speak to webhooks that offer nothing
newer. See docs/adr/0006-admission-server.md for why aiohttp's low level.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, TypeAlias

from aiohttp import web

from bursar.app.cluster.ports import Clock

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
READY_PATH: Final = "/readyz"
"""Whatever its route says, a server that is about to end is not ready."""
BODY_BYTES_MAX: Final = 3 * 2**20
"""A review holds an object twice, and an API server stores none above 1.5 MiB by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A request that has arrived as a whole. It prints neither body nor credentials."""

    method: str
    path: str
    content_type: str
    authorization: str = field(default="", repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Outgoing:
    body: bytes = b""
    code: int = HTTPStatus.OK
    content_type: str = TEXT


Route: TypeAlias = Callable[[Incoming], Awaitable[Outgoing]]


@dataclass(frozen=True, slots=True)
class Bounded:
    """A route that takes bodies of another size than the rest of the server."""

    route: Route
    body_bytes_max: int

    async def __call__(self, incoming: Incoming) -> Outgoing:
        return await self.route(incoming)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    body_bytes_max: int = BODY_BYTES_MAX
    """On routes that do not say themselves."""
    body_seconds: float = 10
    """For a body to arrive in; an API server gives up after ten seconds, too."""
    handshake_seconds: float = 10
    idle_seconds: float = 180
    """An API server closes what it does not use after 90 seconds; it must be first, or its next
    request meets a closed connection."""
    linger_seconds: float = 1
    """After the last new connection, how long requests on open ones are still awaited."""
    farewell_seconds: float = 2
    """For a client to confirm the end of a TLS connection."""
    finish_seconds: float = 15
    """For what is under way at the end; pods have 30 seconds to end by default."""


DEFAULT_LIMITS: Final = ServerLimits()
# Without a name of ours, everybody would be told the versions of our libraries.
_HEADERS: Final = {"Server": "bursar", "X-Content-Type-Options": "nosniff"}


class HttpsServer:
    """Build it, `start` it, `stop` it. It is not to be started twice."""

    def __init__(
        self, routes: Mapping[str, Route], *, clock: Clock, limits: ServerLimits = DEFAULT_LIMITS
    ) -> None:
        self._routes = routes
        self._clock = clock
        self._limits = limits
        self._connections: web.Server | None = None
        self._listener: asyncio.Server | None = None
        self.is_ending = False

    async def start(self, host: str, port: int, context: ssl.SSLContext) -> int:
        """Listen; the port, which matters if 0 was asked for. Raises `OSError`."""
        assert self._connections is None, "a server is started once"
        self._connections = web.Server(
            self._serve,
            access_log=None,
            keepalive_timeout=self._limits.idle_seconds,
            lingering_time=2.0,
        )
        self._listener = await asyncio.get_running_loop().create_server(
            self._connections,
            host,
            port,
            ssl=context,
            ssl_handshake_timeout=self._limits.handshake_seconds,
            ssl_shutdown_timeout=self._limits.farewell_seconds,
        )
        listening: int = self._listener.sockets[0].getsockname()[1]
        return listening

    async def stop(self) -> None:
        """Accept nothing more, answer what was asked, then close.

        A client that has begun to send on an open connection cannot know that we are about
        to close it, so those are given a moment, and every answer says that it is the last.
        """
        assert self._connections is not None
        assert self._listener is not None
        self.is_ending = True
        self._listener.close()
        if self._connections.connections:
            await self._clock.sleep(self._limits.linger_seconds)
        self._connections.pre_shutdown()
        await self._connections.shutdown(self._limits.finish_seconds)
        await self._listener.wait_closed()

    async def _serve(self, request: web.BaseRequest) -> web.Response:
        outgoing = await self._outgoing(request)
        response = web.Response(
            body=outgoing.body,
            status=outgoing.code,
            headers={**_HEADERS, "Content-Type": outgoing.content_type},
        )
        if self.is_ending:
            response.force_close()
        return response

    async def _outgoing(self, request: web.BaseRequest) -> Outgoing:
        route = self._routes.get(request.path)
        if route is None:
            return Outgoing(b"404 page not found", HTTPStatus.NOT_FOUND)
        if self.is_ending and request.path == READY_PATH:
            return Outgoing(b"shutting down", HTTPStatus.SERVICE_UNAVAILABLE)
        bytes_max = self._limits.body_bytes_max
        if isinstance(route, Bounded):
            bytes_max = route.body_bytes_max
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                body = await _body(request, bytes_max)
        except TimeoutError:
            return Outgoing(b"the body did not arrive in time", HTTPStatus.REQUEST_TIMEOUT)
        if body is None:
            problem = f"the body is larger than {bytes_max} bytes"
            return Outgoing(problem.encode(), HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        headers = request.headers
        return await route(
            Incoming(
                method=request.method,
                path=request.path,
                content_type=headers.get("Content-Type", ""),
                authorization=headers.get("Authorization", ""),
                body=body,
            )
        )


async def _body(request: web.BaseRequest, bytes_max: int) -> bytes | None:
    """None if it is too large, which often its length tells before it is read."""
    if (request.content_length or 0) > bytes_max:
        return None
    body = bytearray()
    async for piece in request.content.iter_any():
        body += piece
        if len(body) > bytes_max:
            return None
    return bytes(body)
