"""Requests and responses as handlers see them, and the table of routes."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from http import HTTPStatus
from typing import Final, TypeAlias

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
_BODILESS: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
"""Status codes whose responses have neither a body nor a length."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The client of a connection."""

    address: str = ""
    """IP address of the client; empty if it is not known."""
    names: tuple[str, ...] | None = None
    """Common name and alternative names of the verified client certificate.

    None if the client has shown none, or one with unreadable names, or if the server does not ask
    for one.
    """


NO_PEER: Final = Peer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request that has arrived, or its head alone. Its repr shows neither headers nor body."""

    method: str
    path: str
    """As sent, without the query. Percent-encoding is not decoded."""
    query: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Names are lower-case. The values of a repeated header are joined with a comma."""
    body: bytes = field(default=b"", repr=False)
    peer: Peer = field(default=NO_PEER, repr=False)

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")

    @property
    def authorization(self) -> str:
        return self.headers.get("authorization", "")

    @property
    def bearer_token(self) -> str:
        """The token of the Authorization header; empty if there is none."""
        scheme, _, token = self.authorization.partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    @property
    def media_type(self) -> str:
        """The Content-Type without its parameters."""
        return self.content_type.partition(";")[0].strip()


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to a request.

    A body of bytes is sent with its length. An asynchronous generator is streamed: each piece
    is sent as soon as the generator yields it. If the client leaves, the generator is closed.
    """

    body: bytes | AsyncGenerator[bytes, None] = b""
    code: int = HTTPStatus.OK
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()
    """Further headers. Names and values must be constants, or few: rendered heads are cached."""


Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
Guard: TypeAlias = Callable[[Request], Awaitable[Response | None]]
"""Decides from the head of a request, before its body is read.

Returns None to let the request pass, or the response that refuses it.
"""


@dataclass(frozen=True, slots=True)
class Route:
    """A handler, the largest request body that it takes, and who may send one."""

    handler: Handler
    body_bytes_max: int = 0
    """0: requests with a body are refused."""
    guard: Guard | None = None
    """None: any client may ask."""


Routes: TypeAlias = Mapping[tuple[str, str], Route]
"""Routes by method and path. A HEAD request is answered by the GET route of its path."""


def fixed(response: Response) -> Handler:
    """A handler that gives every request the same response."""

    async def answer(_: Request) -> Response:
        return response

    return answer


def refusal(code: HTTPStatus, text: str, *headers: tuple[str, str]) -> Response:
    return Response(text.encode(), code, TEXT, headers)


@lru_cache(maxsize=256)
def _head(code: int, content_type: str, headers: tuple[tuple[str, str], ...]) -> bytes:
    fields = [
        ("Server", "bursar"),
        ("X-Content-Type-Options", "nosniff"),
        ("Content-Type", content_type),
        *headers,
    ]
    lines = [f"HTTP/1.1 {code} {HTTPStatus(code).phrase}", *(f"{n}: {v}" for n, v in fields)]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a line break in a response header")
    return "\r\n".join(lines).encode("latin-1")


def http_date(moment: datetime) -> bytes:
    """The Date header for a moment of UTC. Names do not depend on the locale."""
    day, month = _DAYS[moment.weekday()], _MONTHS[moment.month - 1]
    return f"{day}, {moment:%d} {month} {moment:%Y %H:%M:%S} GMT".encode()


def encode_response(response: Response, date: bytes, *, is_head: bool, is_last: bool) -> bytes:
    """Head and body of a response whose body is bytes."""
    body = response.body
    assert isinstance(body, bytes)
    head = _head(response.code, response.content_type, response.headers)
    close = b"\r\nConnection: close" if is_last else b""
    if response.code in _BODILESS:
        return b"%b\r\nDate: %b%b\r\n\r\n" % (head, date, close)
    return b"%b\r\nDate: %b%b\r\nContent-Length: %d\r\n\r\n%b" % (
        head,
        date,
        close,
        len(body),
        b"" if is_head else body,
    )


def encode_stream_head(
    response: Response, date: bytes, *, is_chunked: bool, is_last: bool
) -> bytes:
    """The head of a streamed response."""
    head = _head(response.code, response.content_type, response.headers)
    close = b"\r\nConnection: close" if is_last else b""
    chunked = b"\r\nTransfer-Encoding: chunked" if is_chunked else b""
    return b"%b\r\nDate: %b%b%b\r\n\r\n" % (head, date, close, chunked)
