"""Making connections: direct or through a proxy, with or without TLS."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

from bursar.adapters.http1.connection import Connection
from bursar.adapters.http1.errors import ConnectError, HttpError, connect_error
from bursar.adapters.http1.request import head_bytes
from bursar.adapters.http1.route import Origin, Route, parse_origin, proxy_headers

NEXT_ADDRESS_SECONDS: Final = 0.25
"""Delay before the next address of a name is tried in parallel (RFC 8305)."""
TLS_SHUTDOWN_SECONDS: Final = 1.0
"""How long a TLS shutdown may take."""


async def connect(route: Route) -> Connection:
    """Open a connection. It has no timeout of its own. Raises `HttpError`."""
    if not route.proxy_url:
        with _as_http_errors():
            return await _connect(route.origin, route)
    proxy, _ = parse_origin(route.proxy_url)
    try:
        with _as_http_errors():
            connection = await _connect(proxy, Route(origin=proxy, context=route.context))
    except HttpError as error:
        raise ConnectError(f"the proxy cannot be reached: {error}") from None
    if not route.is_tunnelled:
        return connection
    try:
        await _open_tunnel(connection, route)
        with _as_http_errors():
            return await _start_tls(connection, route)
    except BaseException:
        connection.abort()
        raise


async def _connect(origin: Origin, route: Route) -> Connection:
    is_secure = origin.is_secure
    _, connection = await asyncio.get_running_loop().create_connection(
        Connection,
        origin.host,
        origin.port,
        ssl=(route.context or True) if is_secure else None,
        server_hostname=_name(route, origin) if is_secure else None,
        ssl_shutdown_timeout=TLS_SHUTDOWN_SECONDS if is_secure else None,
        # An IP address resolves to itself, so there is no second address to try.
        happy_eyeballs_delay=None if _is_address(origin.host) else NEXT_ADDRESS_SECONDS,
    )
    return connection


async def _open_tunnel(connection: Connection, route: Route) -> None:
    address = route.origin.address
    response = connection.send_connect(
        head_bytes("CONNECT", address, address, proxy_headers(route.proxy_url))
    )
    await response.wait_for_head()
    if not 200 <= response.status < 300:
        raise ConnectError(f"the proxy answered {response.status}")


async def _start_tls(tunnel: Connection, route: Route) -> Connection:
    connection = Connection()
    if not tunnel.is_open:
        # `start_tls` on a closed transport never returns.
        raise ConnectionResetError
    try:
        transport = await asyncio.get_running_loop().start_tls(
            tunnel.transport,
            connection,
            route.context or ssl.create_default_context(),
            server_hostname=_name(route, route.origin),
            ssl_shutdown_timeout=TLS_SHUTDOWN_SECONDS,
        )
    except TypeError as error:
        # asyncio before 3.13 raises TypeError when TLS inside TLS fails; its context is the cause.
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
    """The name to verify. Names in certificates have no trailing dot."""
    return (route.server_name or origin.host).rstrip(".")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


@contextlib.contextmanager
def _as_http_errors() -> Iterator[None]:
    try:
        yield
    except (socket.gaierror, UnicodeError):
        raise ConnectError("the server's name cannot be resolved") from None
    except OSError as error:
        raise connect_error(error) from None
    except (TypeError, ValueError, OverflowError):
        # For example a zero byte in the host, or a port out of range.
        raise ConnectError("not an address to connect to") from None
