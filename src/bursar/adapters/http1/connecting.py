"""How a connection comes about: straight, or through a proxy, and with TLS or without."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from typing import Final

from bursar.adapters.http1.connection import Connection
from bursar.adapters.http1.errors import HttpError, connecting_error
from bursar.adapters.http1.request import head_bytes
from bursar.adapters.http1.route import Origin, Route, parse_origin, proxy_headers

NEXT_ADDRESS_SECONDS: Final = 0.25
"""After this another address of the same name is tried beside the first, as RFC 8305 wants it."""
FAREWELL_SECONDS: Final = 1.0
"""How long the other side has for the end of TLS where we gave up a connection."""


async def connect(route: Route) -> Connection:
    """Raises `HttpError`; whoever cannot wait for ever sets a deadline."""
    if not route.proxy_url:
        with _reasons_told():
            return await _connected(route.origin, route)
    proxy, _ = parse_origin(route.proxy_url)
    try:
        connection = await _connected(proxy, Route(origin=proxy, context=route.context))
    except (OSError, UnicodeError):
        raise HttpError("the proxy cannot be reached") from None
    if not route.is_tunnelled:
        return connection
    try:
        await _open_tunnel(connection, route)
        with _reasons_told():
            return await _secured(connection, route)
    except BaseException:
        connection.abort()
        raise


async def _connected(origin: Origin, route: Route) -> Connection:
    is_secure = origin.is_secure
    _, connection = await asyncio.get_running_loop().create_connection(
        Connection,
        origin.host,
        origin.port,
        ssl=(route.context or True) if is_secure else None,
        server_hostname=(route.server_name or origin.host) if is_secure else None,
        ssl_shutdown_timeout=FAREWELL_SECONDS if is_secure else None,
        happy_eyeballs_delay=NEXT_ADDRESS_SECONDS,
    )
    return connection


async def _open_tunnel(connection: Connection, route: Route) -> None:
    address = route.origin.address
    answer = connection.send(
        head_bytes("CONNECT", address, address, proxy_headers(route.proxy_url))
    )
    await answer.head()
    if not 200 <= answer.status < 300:
        raise HttpError(f"the proxy answered {answer.status}")


async def _secured(tunnel: Connection, route: Route) -> Connection:
    connection = Connection()
    transport = await asyncio.get_running_loop().start_tls(
        tunnel.transport,
        connection,
        route.context or ssl.create_default_context(),
        server_hostname=route.server_name or route.origin.host,
        ssl_shutdown_timeout=FAREWELL_SECONDS,
    )
    if transport is None:
        raise ConnectionResetError
    connection.connection_made(transport)
    return connection


@contextlib.contextmanager
def _reasons_told() -> Iterator[None]:
    try:
        yield
    except (socket.gaierror, UnicodeError):
        raise HttpError("the server's name cannot be resolved") from None
    except OSError as error:
        raise connecting_error(error) from None
