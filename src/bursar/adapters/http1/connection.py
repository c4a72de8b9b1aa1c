"""One connection: a request goes out in one piece, and its answer is read as it comes.

The framing of answers, where mistakes are dangerous, is llhttp's. What is left is who waits
for what: an answer is complete, or cut short, or nobody asked for it; and a reader who is
slow makes the socket wait, and with it the server.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from bursar.adapters.http1.answer import Answer
from bursar.adapters.http1.errors import DisconnectedError, HttpError, system_reason

UNREAD_BYTES_MAX: Final = 2**19
"""Beyond this nothing more is taken from the socket until somebody reads."""
HEAD_BYTES_MAX: Final = 2**16
"""Also for what comes after a body, which is as good as a head."""
SMALL_REQUEST_BYTES: Final = 2**16

_VERSIONS: Final = ("1.0", "1.1")
_NOT_HTTP: Final = "the answer is not HTTP as it should be"
_CUT_SHORT: Final = "the connection was closed inside the answer"
_NEVER_BEGUN: Final = "the connection was closed before the answer"


class Connection(asyncio.Protocol):
    """Made by `connecting`. One request at a time is under way on it."""

    on_idle: Callable[[], None] | None = None
    """Called when an answer is complete and the next request may go out."""
    on_lost: Callable[[], None] | None = None

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: HttpResponseParser | None = None
        self._answer: Answer | None = None
        self._request_bytes = 0
        self._head_bytes = 0
        self._header_bytes = 0
        self._bodiless_bytes = 0
        self._is_tunnel = False
        self._is_interim = False
        self._is_unsound = False
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

    def send(self, request: bytes) -> Answer:
        assert self._answer is None, "one request at a time"
        if self._parser is None:
            self._parser = HttpResponseParser(self)
        self._answer = answer = Answer(self._resume, self.abort)
        self._request_bytes = len(request)
        self._head_bytes = self._header_bytes = self._bodiless_bytes = 0
        if self.is_open:
            self.transport.write(request)
        else:
            self._lose(None)
        return answer

    def send_connect(self, request: bytes) -> Answer:
        """Ask for a tunnel. If the answer is good, what follows its head is somebody else's."""
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

    def _end_soon(self) -> None:
        """Not at once: TLS does not take it well to be ended while it hands out data."""
        self._is_done = True
        self._parser = None
        asyncio.get_running_loop().call_soon(self.abort)

    # -------------------------------------------------------------- told by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        answer, parser = self._answer, self._parser
        if self._is_done:
            return
        if answer is None or parser is None:
            # An answer that nobody asked for would be taken for that to the next request.
            self._end_soon()
            return
        before = answer.unread_cost
        try:
            parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self._is_unsound = True
        if not answer.is_headed:
            self._head_bytes += len(data)
        self._bodiless_bytes = (
            self._bodiless_bytes + len(data) if answer.unread_cost == before else 0
        )
        if self._is_unsound or max(self._head_bytes, self._bodiless_bytes) > HEAD_BYTES_MAX:
            self._break()
        elif self._answer is not None and answer.unread_cost > UNREAD_BYTES_MAX:
            self._is_paused = True
            self.transport.pause_reading()
        answer.tell()

    def eof_received(self) -> None:
        """Without waiting for what we may still have to send: nobody would answer that."""
        self._lose(None)
        self._end_soon()

    def connection_lost(self, error: Exception | None) -> None:
        self._lose(error)
        # They hold each other.
        self._parser = self._transport = None
        self._is_done = True
        if self.on_lost is not None:
            self.on_lost()

    def _break(self) -> None:
        """What came is of no use, and what comes would not be either."""
        if self._answer is not None:
            self._answer.fail(HttpError, _NOT_HTTP)
            self._answer = None
        self._end_soon()

    def _lose(self, error: Exception | None) -> None:
        answer, self._answer = self._answer, None
        if answer is None:
            return
        is_whole = answer.is_headed and answer.ends_with_connection
        if is_whole and error is None and not self._is_done:
            answer.is_complete = True
        else:
            answer.fail(*self._fault_of_loss(answer, error))
        answer.tell()

    def _fault_of_loss(
        self, answer: Answer, error: Exception | None
    ) -> tuple[type[HttpError], str]:
        if isinstance(error, ssl.SSLError):
            # What a server thinks of our certificate comes after the handshake.
            return HttpError, f"the connection failed: {system_reason(error)}"
        if answer.is_headed:
            return HttpError, _CUT_SHORT
        if isinstance(error, OSError) and not isinstance(error, ConnectionError):
            return HttpError, f"the connection failed: {system_reason(error)}"
        return (HttpError if self._head_bytes else DisconnectedError), _NEVER_BEGUN

    # -------------------------------------------------------------- told by the parser

    def on_message_begin(self) -> None:
        # One more behind the answer that was asked for.
        self._is_unsound = self._is_unsound or self._answer is None

    def on_header(self, name: bytes, value: bytes) -> None:
        answer = self._answer
        if answer is None or answer.is_headed:
            return
        # A head that comes all at once is not counted with those that do not end.
        self._header_bytes += len(name) + len(value)
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        before = answer.headers.get(key)
        answer.headers[key] = text if before is None else f"{before}, {text}"

    def on_headers_complete(self) -> None:
        answer, parser = self._answer, self._parser
        if answer is None or parser is None:
            return
        status = parser.get_status_code()
        is_strange = status < 100 or parser.get_http_version() not in _VERSIONS
        if is_strange or self._header_bytes > HEAD_BYTES_MAX:
            self._is_unsound = True
            return
        self._is_interim = status < 200
        if self._is_interim:
            answer.headers.clear()
            return
        answer.status = status
        answer.is_headed = True
        if self._is_tunnel and status < 300:
            # Whatever it says of a length is to be ignored.
            self._answer = None

    def on_body(self, body: bytes) -> None:
        if self._answer is not None and self._answer.is_headed:
            self._answer.add(body)

    def on_message_complete(self) -> None:
        answer, parser = self._answer, self._parser
        if answer is None or parser is None or self._is_interim or self._is_unsound:
            return
        answer.is_complete = True
        self._answer = None
        is_kept = parser.should_keep_alive() and self._is_all_sent(answer)
        self._resume()
        if is_kept and self.on_idle is not None:
            self.on_idle()
        else:
            self._end_soon()

    def _is_all_sent(self, answer: Answer) -> bool:
        """Whether the next request would not wait behind a body that nobody reads any more."""
        is_refused_early = answer.status >= 400 and self._request_bytes > SMALL_REQUEST_BYTES
        return not is_refused_early and self.transport.get_write_buffer_size() == 0
