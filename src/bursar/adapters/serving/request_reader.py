"""Requests from the bytes of one connection.

llhttp, the parser of Node.js, does the framing. It refuses what request smuggling needs: two
lengths, a length beside a transfer coding, line feeds alone, spaces before a colon. The reader
adds the bounds on sizes and refuses what this server does not implement.
"""

from http import HTTPStatus
from typing import Final, NamedTuple

from httptools import (
    HttpParserError,
    HttpParserInvalidURLError,
    HttpParserUpgrade,
    HttpRequestParser,
    parse_url,
)

from bursar.adapters.serving.limits import ServerLimits
from bursar.adapters.serving.message import (
    NO_PEER,
    Guard,
    Handler,
    Peer,
    Request,
    Response,
    Route,
    Routes,
    fixed,
    refusal,
)

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
HEADER_COST: Final = 32
"""Bytes that a header costs beside its name and value, so that empty ones are bounded too."""

_NOT_FOUND: Final = refusal(HTTPStatus.NOT_FOUND, "404 page not found")
_NO_ROUTE: Final = Route(fixed(_NOT_FOUND))
_NO_BODY: Final = refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "no body is expected here")
_NOT_HTTP: Final = refusal(HTTPStatus.BAD_REQUEST, "the request is not valid HTTP/1.1")
_NO_REQUEST: Final = Request(method="", path="")


class Arrived(NamedTuple):
    """A request and the handler that answers it."""

    request: Request
    handler: Handler
    is_last: bool
    """Whether the connection must be closed after the response."""
    is_chunkable: bool = True
    """Whether the client understands chunked responses. Clients of HTTP/1.0 do not."""


class Headed(NamedTuple):
    """The head of a request, and the guard that decides whether its body is read."""

    request: Request
    guard: Guard


class _RefusedError(Exception):
    """Stops the parser; the response says why."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response: Final = response


class RequestReader:
    """Feed it what the client sends; it returns the requests that are complete."""

    def __init__(self, routes: Routes, limits: ServerLimits) -> None:
        self._routes = routes
        self._limits = limits
        self._parser = HttpRequestParser(self)
        self._arrived: list[Arrived | Headed] = []
        self._arrived_head_bytes = 0
        """Size of the heads of the requests in `_arrived`."""
        self.peer: Peer = NO_PEER
        """The client, as requests name it."""
        self._is_done = False
        """Whether nothing more is read, because the last request has arrived."""
        self.is_mid_request = False
        """Whether a request has begun to arrive."""
        self.wants_continue = False
        """Whether the client waits for `CONTINUE` before it sends the body."""
        self._reset()

    def _reset(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._hosts = 0
        self._head_bytes = 0
        self._unparsed_bytes = 0
        """Input since the parser last passed on a part of the request."""
        self._has_progress = False
        """Whether the last piece of input completed the head or held a part of the body."""
        self._is_headed = False
        self._route = _NO_ROUTE
        self._method = self._path = self._query = ""
        self._is_last = False
        self._body: bytes | bytearray = b""

    @property
    def body_bytes(self) -> int:
        """How much of the body of the request that is arriving is kept."""
        return len(self._body)

    def feed(self, data: bytes | memoryview) -> list[Arrived | Headed]:
        """Return the requests that end in this piece of input, and the guarded heads."""
        if self._is_done:
            return []
        try:
            self._has_progress = False
            self._parser.feed_data(data)
            if self.is_mid_request and not self._arrived:
                # The parser keeps a header or trailer until it is complete, so it is counted here.
                self._unparsed_bytes = 0 if self._has_progress else self._unparsed_bytes + len(data)
                if self._unparsed_bytes > self._limits.head_bytes_max:
                    raise self._too_large()
        except HttpParserUpgrade:
            self._is_done = True
        except _RefusedError as error:
            self._refuse(error.response)
        except HttpParserError as error:
            cause = error.__context__
            self._refuse(cause.response if isinstance(cause, _RefusedError) else _NOT_HTTP)
        arrived, self._arrived = self._arrived, []
        self._arrived_head_bytes = 0
        return arrived

    def give_up(self, response: Response) -> list[Arrived | Headed]:
        """Refuse the request that is arriving."""
        self._refuse(response)
        arrived, self._arrived = self._arrived, []
        return arrived

    def stop(self) -> None:
        """Read nothing more, and drop what has arrived of a request."""
        self._is_done = True
        self._body = b""

    def close(self) -> None:
        """Drop the parser, which refers back to this object."""
        self.stop()
        del self._parser

    def _refuse(self, response: Response) -> None:
        if not self._is_done:
            self.stop()
            request = (
                Request(method=self._method, path=self._path) if self._is_headed else _NO_REQUEST
            )
            self._arrived.append(Arrived(request, fixed(response), is_last=True))

    def _too_large(self) -> _RefusedError:
        text = f"the head of the request is larger than {self._limits.head_bytes_max} bytes"
        return _RefusedError(refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text))

    # -------------------------------------------------------------- called by the parser

    def on_message_begin(self) -> None:
        limits = self._limits
        # Decoded headers take several times their size, so the heads are bounded together, too.
        is_large = self._arrived_head_bytes > limits.head_bytes_max
        if is_large or len(self._arrived) >= limits.pipelined_max:
            text = "too many requests before a response was read"
            raise _RefusedError(refusal(HTTPStatus.TOO_MANY_REQUESTS, text))
        self.is_mid_request = not self._is_done

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value) + HEADER_COST)
        if self._is_headed:
            return  # Trailers are counted and ignored.
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        before = self._headers.get(key)
        self._headers[key] = text if before is None else f"{before}, {text}"
        self._hosts += key == "host"

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self._limits.head_bytes_max:
            raise self._too_large()

    def on_headers_complete(self) -> None:
        if self._is_done:
            return
        self._is_headed = self._has_progress = True
        headers, parser = self._headers, self._parser
        self._method = parser.get_method().decode("latin-1")
        self._path, _, self._query = self._target().partition("?")
        is_current = parser.get_http_version() == "1.1"
        coding = headers.get("transfer-encoding", "")
        if self._hosts != 1 and (is_current or self._hosts):
            raise _RefusedError(refusal(HTTPStatus.BAD_REQUEST, "one Host header is required"))
        if coding and not (is_current and coding.lower() == "chunked"):
            text = "the only transfer coding is chunked, in HTTP/1.1"
            raise _RefusedError(refusal(HTTPStatus.NOT_IMPLEMENTED, text))
        length = int(headers.get("content-length", "0"))
        if parser.should_upgrade() and (coding or length):
            # The parser would take the body for the other protocol.
            text = "an upgrade with a body is not supported"
            raise _RefusedError(refusal(HTTPStatus.NOT_IMPLEMENTED, text))
        self._is_last = not is_current or parser.should_upgrade() or not parser.should_keep_alive()
        self._route = self._find_route(has_body=bool(coding or length))
        self._bound_body(length)
        if self._route.guard is not None:
            self._arrived.append(Headed(self._request(b""), self._route.guard))
        expects = headers.get("expect", "").lower() == "100-continue"
        self.wants_continue = is_current and expects and bool(coding or length)

    def on_body(self, piece: bytes) -> None:
        self.wants_continue = False
        self._has_progress = True
        self._bound_body(len(self._body) + len(piece))
        if not self._body:
            self._body = piece
        elif isinstance(self._body, bytearray):
            self._body += piece
        else:
            # Not a list of pieces: chunks of one byte each would cost fifty times as much.
            self._body = bytearray(self._body) + piece

    def on_message_complete(self) -> None:
        if self._is_done:
            return
        self.is_mid_request = self.wants_continue = False
        self._arrived_head_bytes += self._head_bytes
        request = self._request(bytes(self._body))
        is_chunkable = self._parser.get_http_version() == "1.1"
        self._arrived.append(Arrived(request, self._route.handler, self._is_last, is_chunkable))
        # Whatever follows is ignored, as is another protocol after an upgrade.
        self._is_done = self._is_last
        self._reset()

    def _request(self, body: bytes) -> Request:
        return Request(
            method=self._method,
            path=self._path,
            query=self._query,
            headers=self._headers,
            body=body,
            peer=self.peer,
        )

    def _target(self) -> str:
        """Path and query. Proxies send a whole URL, which names the same path."""
        if self._url.startswith(b"/"):
            return self._url.decode("latin-1")
        try:
            url = parse_url(self._url)
        except HttpParserInvalidURLError:
            return ""
        return (b"%b?%b" % (url.path or b"/", url.query or b"")).decode("latin-1")

    def _find_route(self, *, has_body: bool) -> Route:
        """The route of this request. A body that no handler reads is refused unread."""
        method = "GET" if self._method == "HEAD" else self._method
        route = self._routes.get((method, self._path))
        if route is not None and has_body and not route.body_bytes_max:
            raise _RefusedError(_NO_BODY)
        if route is None and has_body:
            raise _RefusedError(self._no_route())
        return route or Route(fixed(self._no_route()))

    def _no_route(self) -> Response:
        allowed = sorted(each for each, path in self._routes if path == self._path)
        if not allowed:
            return _NOT_FOUND
        text = f"only {', '.join(allowed)} is answered here"
        allow = ("Allow", ", ".join([*allowed, "HEAD"] if "GET" in allowed else allowed))
        return refusal(HTTPStatus.METHOD_NOT_ALLOWED, text, allow)

    def _bound_body(self, size: int) -> None:
        most = self._route.body_bytes_max
        if size > most:
            text = f"the body is larger than {most} bytes"
            raise _RefusedError(refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text))
