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

from bursar.adapters.http1.errors import DisconnectedError, HttpError, system_reason

UNREAD_BYTES_MAX: Final = 2**19
"""Beyond this nothing more is taken from the socket until somebody reads."""
HEAD_BYTES_MAX: Final = 2**16

_VERSIONS: Final = ("1.0", "1.1")
_NOT_HTTP: Final = "the answer is not HTTP as it should be"
_CUT_SHORT: Final = "the connection was closed inside the answer"


class Answer:
    """What comes back for one request. Await `head` before anything else is looked at."""

    def __init__(self, connection: "Connection") -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        """By names in small letters; what was sent twice is joined by a comma."""
        self._connection = connection
        self._pieces: list[bytes] = []
        self.unread_bytes = 0
        self.is_headed = False
        self.is_complete = False
        self._fault: HttpError | None = None
        self._news: asyncio.Future[None] | None = None

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def ends_with_connection(self) -> bool:
        """Whether nothing but the end of the connection says where the body ends."""
        is_chunked = self.headers.get("transfer-encoding", "").lower().endswith("chunked")
        return not is_chunked and "content-length" not in self.headers

    async def head(self) -> None:
        """Wait for status and headers. Raises `HttpError`."""
        while not self.is_headed:
            await self._wait()

    async def next_piece(self) -> bytes:
        """What of the body came meanwhile, or comes next; empty at its end. Raises `HttpError`."""
        pieces = await self._next_pieces()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def read(self, bytes_max: int) -> bytes:
        """The body; of one that is too large, a little more than may be taken."""
        pieces: list[bytes] = []
        size = 0
        while size <= bytes_max and (more := await self._next_pieces()):
            pieces += more
            size += sum(map(len, more))
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _next_pieces(self) -> list[bytes]:
        while not self._pieces:
            if self.is_complete:
                return []
            await self._wait()
        pieces, self._pieces = self._pieces, []
        self.unread_bytes = 0
        self._connection.resume()
        return pieces

    def drop(self) -> None:
        """Nobody reads on. The connection of an answer that is not complete ends with it.

        At once, and not by a farewell that would go on after everything else has ended.
        """
        if not self.is_complete:
            self._connection.abort()

    async def _wait(self) -> None:
        if self._fault is not None:
            raise self._fault
        self._news = asyncio.get_running_loop().create_future()
        try:
            await self._news
        finally:
            self._news = None

    # -------------------------------------------------------------- told by the connection

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.unread_bytes += len(piece)

    def fail(self, fault: HttpError) -> None:
        self._fault = fault

    def tell(self) -> None:
        """Wake who waits."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


class Connection(asyncio.Protocol):
    """Made by `connecting`. One request at a time is under way on it."""

    on_idle: Callable[[], None] | None = None
    """Called when an answer is complete and the next request may go out."""
    on_lost: Callable[[], None] | None = None

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._answer: Answer | None = None
        self._head_bytes = 0
        self._is_interim = False
        self._is_unsound = False
        self._is_paused = False

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None, "connected"
        return self._transport

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(self, request: bytes) -> Answer:
        assert self._answer is None, "one request at a time"
        self._answer = answer = Answer(self)
        self._head_bytes = 0
        if self.is_open:
            self.transport.write(request)
        else:
            self._lose(None)
        return answer

    def resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            if self.is_open:
                self.transport.resume_reading()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # -------------------------------------------------------------- told by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            return
        answer = self._answer
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self._is_unsound = True
        if answer is not None and not answer.is_headed:
            self._head_bytes += len(data)
        if self._is_unsound or self._head_bytes > HEAD_BYTES_MAX:
            self._break(HttpError(_NOT_HTTP))
        if answer is None:
            return
        if self._answer is not None and answer.unread_bytes > UNREAD_BYTES_MAX:
            self._is_paused = True
            self.transport.pause_reading()
        answer.tell()

    def connection_lost(self, error: Exception | None) -> None:
        self._lose(error)
        # They hold each other.
        self._parser = None
        if self.on_lost is not None:
            self.on_lost()

    def _break(self, fault: HttpError) -> None:
        """What came is of no use, and what comes would not be either."""
        if self._answer is not None:
            self._answer.fail(fault)
            self._answer = None
        self.abort()

    def _lose(self, error: Exception | None) -> None:
        answer, self._answer = self._answer, None
        if answer is None:
            return
        if answer.is_headed and answer.ends_with_connection and error is None:
            answer.is_complete = True
        else:
            answer.fail(self._fault_of_loss(answer, error))
        answer.tell()

    def _fault_of_loss(self, answer: Answer, error: Exception | None) -> HttpError:
        if isinstance(error, ssl.SSLError):
            # What a server thinks of our certificate comes after the handshake.
            return HttpError(f"the connection failed: {system_reason(error)}")
        if answer.is_headed:
            return HttpError(_CUT_SHORT)
        if isinstance(error, OSError) and not isinstance(error, ConnectionError):
            return HttpError(f"the connection failed: {system_reason(error)}")
        words = "the connection was closed before the answer"
        return HttpError(words) if self._head_bytes else DisconnectedError(words)

    # -------------------------------------------------------------- told by the parser

    def on_message_begin(self) -> None:
        # An answer that nobody asked for would be taken for that to the next request.
        self._is_unsound = self._is_unsound or self._answer is None

    def on_header(self, name: bytes, value: bytes) -> None:
        answer = self._answer
        if answer is None or answer.is_headed:
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        before = answer.headers.get(key)
        answer.headers[key] = text if before is None else f"{before}, {text}"

    def on_headers_complete(self) -> None:
        answer, parser = self._answer, self._parser
        if answer is None or parser is None:
            return
        self._is_unsound = self._is_unsound or parser.get_http_version() not in _VERSIONS
        status = parser.get_status_code()
        self._is_interim = status < 200
        if self._is_interim:
            answer.headers.clear()
            return
        answer.status = status
        answer.is_headed = True

    def on_body(self, body: bytes) -> None:
        if self._answer is not None:
            self._answer.add(body)

    def on_message_complete(self) -> None:
        answer, parser = self._answer, self._parser
        if answer is None or parser is None or self._is_interim:
            return
        answer.is_complete = True
        self._answer = None
        is_kept = parser.should_keep_alive()
        self.resume()
        if is_kept and self.on_idle is not None:
            self.on_idle()
        else:
            self.abort()
