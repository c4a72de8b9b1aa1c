"""How a connection comes about: straight, or through a proxy, and with TLS or without."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from ipaddress import ip_address
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
        with _reasons_told():
            connection = await _connected(proxy, Route(origin=proxy, context=route.context))
    except HttpError as error:
        raise HttpError(f"the proxy cannot be reached: {error}") from None
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
        server_hostname=_name(route, origin) if is_secure else None,
        ssl_shutdown_timeout=FAREWELL_SECONDS if is_secure else None,
        # Of one address there is no other to be tried.
        happy_eyeballs_delay=None if _is_address(origin.host) else NEXT_ADDRESS_SECONDS,
    )
    return connection


async def _open_tunnel(connection: Connection, route: Route) -> None:
    address = route.origin.address
    answer = connection.send_connect(
        head_bytes("CONNECT", address, address, proxy_headers(route.proxy_url))
    )
    await answer.head()
    if not 200 <= answer.status < 300:
        raise HttpError(f"the proxy answered {answer.status}")


async def _secured(tunnel: Connection, route: Route) -> Connection:
    connection = Connection()
    if not tunnel.is_open:
        # Who starts TLS on what has ended waits for ever.
        raise ConnectionResetError
    try:
        transport = await asyncio.get_running_loop().start_tls(
            tunnel.transport,
            connection,
            route.context or ssl.create_default_context(),
            server_hostname=_name(route, route.origin),
            ssl_shutdown_timeout=FAREWELL_SECONDS,
        )
    except TypeError as error:
        # asyncio before 3.13 stumbles over a failure of TLS inside TLS, which led to this one.
        raise _first_cause(error) from None
    if transport is None:
        raise ConnectionResetError
    connection.connection_made(transport)
    return connection


def _first_cause(error: BaseException) -> OSError:
    while error.__context__ is not None:
        error = error.__context__
    return error if isinstance(error, OSError) else ConnectionResetError()


def _name(route: Route, origin: Origin) -> str:
    """What the certificate must be for; names in it do not end with the dot of the root."""
    return (route.server_name or origin.host).rstrip(".")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


@contextlib.contextmanager
def _reasons_told() -> Iterator[None]:
    try:
        yield
    except (socket.gaierror, UnicodeError):
        raise HttpError("the server's name cannot be resolved") from None
    except OSError as error:
        raise connecting_error(error) from None
    except (TypeError, ValueError, OverflowError):
        # Such as a zero byte in a name, or a port that is none.
        raise HttpError("not an address to connect to") from None
