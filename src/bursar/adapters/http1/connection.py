"""One connection: a request is written at once, and its response is parsed as it arrives.

llhttp parses the framing of responses, where mistakes are dangerous. This module decides whether
a response is complete, cut short or unrequested, and pauses the socket while the reader is slow.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from bursar.adapters.http1.errors import DisconnectedError, HttpError, system_reason
from bursar.adapters.http1.response import Response
from bursar.adapters.http1.transport_memory import free_closed, socket_transport

UNREAD_BYTES_MAX: Final = 2**19
"""With more unread bytes than this, the socket is paused until the response is read."""
HEAD_BYTES_MAX: Final = 2**16
"""Largest head. The bound also holds for trailers and for chunks without data."""
SMALL_REQUEST_BYTES: Final = 2**16

_VERSIONS: Final = ("1.0", "1.1")
_NOT_HTTP: Final = "the answer is not valid HTTP"
_CUT_SHORT: Final = "the connection was closed inside the answer"
_NEVER_BEGUN: Final = "the connection was closed before the answer"


class Connection(asyncio.Protocol):
    """Made by `connect`. At most one request is in flight on it."""

    on_idle: Callable[[], None] | None = None
    """Called when a response is complete and the next request may be sent."""
    on_lost: Callable[[], None] | None = None
    """Called when the connection is closed."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        self._socket_transport: asyncio.BaseTransport | None = None
        """The transport below TLS; the same one without TLS."""
        self._parser: HttpResponseParser | None = None
        self._response: Response | None = None
        self._request_bytes = 0
        self._head_bytes = 0
        self._header_bytes = 0
        self._bodiless_bytes = 0
        self._is_tunnel = False
        self._is_interim = False
        self._is_invalid = False
        self._is_paused = False
        self._is_done = False

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None, "connected"
        return self._transport

    @property
    def is_open(self) -> bool:
        return (
            self._transport is not None and not self._is_done and not self._transport.is_closing()
        )

    def send(self, request: bytes) -> Response:
        assert self._response is None, "one request at a time"
        if self._parser is None:
            self._parser = HttpResponseParser(self)
        self._response = response = Response(self._resume, self.abort)
        self._request_bytes = len(request)
        self._head_bytes = self._header_bytes = self._bodiless_bytes = 0
        if self.is_open:
            self.transport.write(request)
        else:
            self._lose(None)
        return response

    def send_connect(self, request: bytes) -> Response:
        """Ask a proxy for a tunnel. After a 2xx head, the bytes belong to the tunnel."""
        self._is_tunnel = True
        return self.send(request)

    def abort(self) -> None:
        self._is_done = True
        if self._transport is not None:
            self._transport.abort()

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            if self.is_open:
                self.transport.resume_reading()

    def _abort_soon(self) -> None:
        """Abort in the next loop iteration: asyncio's TLS fails if aborted inside a callback."""
        self._is_done = True
        self._parser = None
        asyncio.get_running_loop().call_soon(self.abort)

    # -------------------------------------------------------------- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._socket_transport = socket_transport(transport)

    def data_received(self, data: bytes) -> None:
        response, parser = self._response, self._parser
        if self._is_done:
            return
        if response is None or parser is None:
            # Unrequested data would be taken for the response to the next request.
            self._abort_soon()
            return
        before = response.unread_cost
        try:
            parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self._is_invalid = True
        if not response.has_head:
            self._head_bytes += len(data)
        self._bodiless_bytes = (
            self._bodiless_bytes + len(data) if response.unread_cost == before else 0
        )
        if self._is_invalid or max(self._head_bytes, self._bodiless_bytes) > HEAD_BYTES_MAX:
            self._break()
        elif self._response is not None and response.unread_cost > UNREAD_BYTES_MAX:
            self._is_paused = True
            self.transport.pause_reading()
        response.wake()

    def eof_received(self) -> None:
        """Close at once, even with data left to send: no response to it could arrive."""
        self._lose(None)
        self._abort_soon()

    def connection_lost(self, error: Exception | None) -> None:
        self._lose(error)
        # Break the reference cycles with the parser and the transport, and that of the socket.
        self._parser = self._transport = None
        free_closed(self._socket_transport)
        self._socket_transport = None
        self._is_done = True
        self.closed.set()
        if self.on_lost is not None:
            self.on_lost()

    def _break(self) -> None:
        """Fail the response and close: the stream can no longer be parsed."""
        if self._response is not None:
            self._response.fail(HttpError, _NOT_HTTP)
            self._response = None
        self._abort_soon()

    def _lose(self, error: Exception | None) -> None:
        response, self._response = self._response, None
        if response is None:
            return
        is_whole = response.has_head and response.ends_with_connection
        if is_whole and error is None and not self._is_done:
            response.is_complete = True
        else:
            response.fail(*self._fault_of_loss(response, error))
        response.wake()

    def _fault_of_loss(
        self, response: Response, error: Exception | None
    ) -> tuple[type[HttpError], str]:
        if isinstance(error, ssl.SSLError):
            # In TLS 1.3 the server rejects a client certificate after the handshake.
            return HttpError, f"the connection failed: {system_reason(error)}"
        if response.has_head:
            return HttpError, _CUT_SHORT
        if isinstance(error, OSError) and not isinstance(error, ConnectionError):
            return HttpError, f"the connection failed: {system_reason(error)}"
        return (HttpError if self._head_bytes else DisconnectedError), _NEVER_BEGUN

    # -------------------------------------------------------------- called by the parser

    def on_message_begin(self) -> None:
        # A second response behind the one that was requested.
        self._is_invalid = self._is_invalid or self._response is None

    def on_header(self, name: bytes, value: bytes) -> None:
        response = self._response
        if response is None or response.has_head:
            return
        # `_head_bytes` counts only heads that are still incomplete; this counts all of them.
        self._header_bytes += len(name) + len(value)
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        before = response.headers.get(key)
        response.headers[key] = text if before is None else f"{before}, {text}"

    def on_headers_complete(self) -> None:
        response, parser = self._response, self._parser
        if response is None or parser is None:
            return
        status = parser.get_status_code()
        is_strange = status < 100 or parser.get_http_version() not in _VERSIONS
        if is_strange or self._header_bytes > HEAD_BYTES_MAX:
            self._is_invalid = True
            return
        self._is_interim = status < 200
        if self._is_interim:
            response.headers.clear()
            return
        response.status = status
        response.has_head = True
        if self._is_tunnel and status < 300:
            # RFC 9110: Content-Length in the response to CONNECT is ignored.
            self._response = None

    def on_body(self, body: bytes) -> None:
        if self._response is not None and self._response.has_head:
            self._response.add(body)

    def on_message_complete(self) -> None:
        response, parser = self._response, self._parser
        if response is None or parser is None or self._is_interim or self._is_invalid:
            return
        response.is_complete = True
        self._response = None
        is_kept = parser.should_keep_alive() and self._is_all_sent(response)
        self._resume()
        if is_kept and self.on_idle is not None:
            self.on_idle()
        else:
            self._abort_soon()

    def _is_all_sent(self, response: Response) -> bool:
        """Whether the next request would not wait behind a body that the server does not read."""
        is_refused_early = response.status >= 400 and self._request_bytes > SMALL_REQUEST_BYTES
        return not is_refused_early and self.transport.get_write_buffer_size() == 0
