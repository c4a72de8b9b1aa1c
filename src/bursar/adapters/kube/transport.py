"""Requests to one API server: connections, deadlines, turns and retries.

Watches have connections of their own, for they hold them for minutes and must not
starve anything else. A request is repeated only where a repetition cannot do harm:
when the server says that it did not take it (429), or when doing it twice is the same
as doing it once and the server names the time to come back.
"""

import asyncio
import contextlib
import math
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from random import Random
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict
from yarl import URL

from bursar.adapters.kube.errors import (
    Answer,
    Subject,
    error_of_answer,
    retry_after_seconds,
    transport_cause,
)
from bursar.adapters.kube.limiter import Limiter, Turn
from bursar.app.ports import BusyError, Clock, ClusterError, UnauthorizedError, UnavailableError

T = TypeVar("T")

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
ERROR_BYTES_MAX: Final = 2**20
KEEPALIVE_SECONDS: Final = 60
"""The API server closes a connection after 90 idle seconds; we must be first."""
TURNS_TO_DROP: Final = 3
READ_BUFFER_BYTES: Final = 2**18


class Credentials(Protocol):
    async def headers(self) -> Mapping[str, str]:
        """What to send with a request so that the server knows us."""

    def reject(self) -> None:
        """The server did not accept the last headers: make new ones."""


class Access(Protocol):
    """How to reach a cluster and who we are there."""

    @property
    def server(self) -> str: ...
    @property
    def ssl_context(self) -> ssl.SSLContext | None: ...
    @property
    def tls_server_name(self) -> str: ...
    @property
    def proxy_url(self) -> str: ...
    @property
    def credentials(self) -> Credentials: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much we ask of a server, and how long we wait for it."""

    in_flight_min: int = 2
    """Requests under way however busy the server says it is; a controller must not stand still."""
    in_flight_max: int = 32
    """Also the number of connections kept for requests."""
    growth_after: int = 20
    """Successes after which one more request may be under way."""
    connect_seconds: float = 10
    request_seconds: float = 30
    list_seconds: float = 60
    turn_seconds: float = 60
    """Longest wait for a turn while others are under way."""
    attempts_max: int = 6
    retry_seconds_max: float = 60
    """No retry begins later than this after the first attempt."""
    send_seconds_max: float = math.inf
    """No body leaves us later than this after it was asked for, even if we were stopped meanwhile.

    For whoever may write only for a while, such as the holder of a Lease.
    """
    backoff_seconds: float = 0.25
    """Upper end of the first random pause; it doubles with each attempt."""
    answer_bytes_max: int = 512 * 2**20
    """Largest answer taken. A list of 50,000 pods without pages is about that."""
    line_bytes_max: int = 8 * 2**20
    """Longest watch event taken. The API server stores no object larger than 1.5 MiB by default."""
    is_gzip_accepted: bool = False
    """Ask for compressed lists: a seventh of the bytes, but no faster on loopback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    target: str
    """Path and query, escaped."""
    subject: Subject
    seconds: float
    body: bytes | None = None
    content_type: str = JSON
    is_idempotent: bool = False
    accepts_gzip: bool = False


class Transport:
    """Sends requests; use it as a context manager."""

    def __init__(
        self, access: Access, *, clock: Clock, rng: Random, user_agent: str, limits: Limits
    ) -> None:
        self._access = access
        self._clock = clock
        self._rng = rng
        self._user_agent = user_agent
        self._limits = limits
        self._requests: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None
        self.limiter = Limiter(
            floor=limits.in_flight_min,
            ceiling=limits.in_flight_max,
            growth_after=limits.growth_after,
        )

    async def __aenter__(self) -> Self:
        assert self._requests is None, "a client is entered once"
        self._requests = self._session(connections=self._limits.in_flight_max)
        self._watches = self._session(connections=0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for session in (self._requests, self._watches):
            if session is not None:
                await session.close()
        # What was dropped is gone once the loop has had a turn for it.
        for _ in range(TURNS_TO_DROP):
            await asyncio.sleep(0)

    def _session(self, *, connections: int) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections, keepalive_timeout=KEEPALIVE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BUFFER_BYTES,
        )

    # -------------------------------------------------------------- sending

    async def exchange(self, request: Request) -> bytes:
        """The body of a successful answer."""
        return await self._persist(request, self._attempt)

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer whose body comes bit by bit; its connection is closed with the block."""
        response = await self._persist(request, self._open)
        try:
            yield response
        finally:
            drop(response)

    async def _persist(
        self, request: Request, attempt: Callable[[Request, float], Awaitable[T]]
    ) -> T:
        """Attempt a request until it succeeds, fails for good, or time is up."""
        started = self._clock.monotonic()
        may_renew = True
        number = 0
        while True:
            number += 1
            try:
                return await attempt(request, started)
            except UnauthorizedError:
                self._access.credentials.reject()
                if not may_renew:
                    raise
                may_renew = False
            except (BusyError, UnavailableError) as error:
                pause = self._pause(request, error, number)
                elapsed = self._clock.monotonic() - started
                if pause is None or elapsed + pause > self._limits.retry_seconds_max:
                    raise
                await self._clock.sleep(pause)

    def _pause(self, request: Request, error: ClusterError, number: int) -> float | None:
        """Seconds until the next attempt; None if there should be none."""
        is_untaken = isinstance(error, BusyError)
        is_invited = (
            error.code == HTTPStatus.SERVICE_UNAVAILABLE
            and error.retry_after is not None
            and request.is_idempotent
        )
        if number >= self._limits.attempts_max or not (is_untaken or is_invited):
            return None
        spread = self._limits.backoff_seconds * 2 ** (number - 1)
        # Those who were told the same time must not all come back at it.
        return (error.retry_after or 0.0) + self._rng.uniform(0, spread)

    async def _attempt(self, request: Request, asked_at: float) -> bytes:
        headers = await self._headers(request)
        with await self._turn(request) as turn:
            async with self._deadline(request, turn):
                body = self._body(request, asked_at)
                response = await self._send(self._requests, request, headers, body)
                try:
                    await self._require_success(response, request, turn)
                    answer = await _read(response, request.subject, self._limits.answer_bytes_max)
                finally:
                    # A complete answer has given its connection back; anything else ends it.
                    drop(response)
                turn.succeeded()
                return answer

    async def _open(self, request: Request, asked_at: float) -> aiohttp.ClientResponse:
        headers = await self._headers(request)
        with await self._turn(request) as turn:
            async with self._deadline(request, turn):
                body = self._body(request, asked_at)
                response = await self._send(self._watches, request, headers, body)
                try:
                    await self._require_success(response, request, turn)
                except BaseException:
                    drop(response)
                    raise
                turn.succeeded()
                return response

    async def _turn(self, request: Request) -> Turn:
        seconds = self._limits.turn_seconds
        try:
            return await self.limiter.turn(seconds_max=seconds)
        except TimeoutError:
            problem = f"no turn within {seconds:g} s, {self.limiter.in_flight} requests under way"
            raise request.subject.unavailable(problem) from None

    @contextlib.asynccontextmanager
    async def _deadline(self, request: Request, turn: Turn) -> AsyncIterator[None]:
        """Bound an attempt in time, and translate what goes wrong below HTTP."""
        try:
            async with asyncio.timeout(request.seconds):
                yield
        except aiohttp.ConnectionTimeoutError:
            turn.throttled()
            problem = f"no connection within {self._limits.connect_seconds:g} s"
            raise request.subject.unavailable(problem) from None
        except TimeoutError:
            turn.throttled()
            problem = f"no answer within {request.seconds:g} s"
            raise request.subject.unavailable(problem) from None
        except (aiohttp.ClientError, OSError) as error:
            raise request.subject.unavailable(transport_cause(error)) from None

    async def _headers(self, request: Request) -> Mapping[str, str]:
        headers = CIMultiDict(
            {
                "Accept": JSON,
                "Accept-Encoding": "gzip" if request.accepts_gzip else "identity",
                "User-Agent": self._user_agent,
            }
        )
        # Extended, not updated: who impersonates names each group in a header of its own.
        headers.extend(await self._access.credentials.headers())
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        return headers

    def _body(self, request: Request, asked_at: float) -> "_PunctualBody | None":
        if request.body is None:
            return None
        send_by = asked_at + self._limits.send_seconds_max
        return _PunctualBody(request.body, is_late=lambda: self._clock.monotonic() > send_by)

    async def _send(
        self,
        session: aiohttp.ClientSession | None,
        request: Request,
        headers: Mapping[str, str],
        body: "_PunctualBody | None",
    ) -> aiohttp.ClientResponse:
        assert session is not None, "a client is used inside `async with`"
        return await session.request(
            request.method,
            URL(self._access.server.rstrip("/") + request.target, encoded=True),
            data=body,
            headers=headers,
            # A redirect would carry our credentials to somebody else.
            allow_redirects=False,
            # Read after the credentials were asked, who may have renewed a certificate.
            ssl=self._access.ssl_context or True,
            server_hostname=self._access.tls_server_name or None,
            proxy=self._access.proxy_url or None,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._limits.connect_seconds),
        )

    async def _require_success(
        self, response: aiohttp.ClientResponse, request: Request, turn: Turn
    ) -> None:
        if 200 <= response.status < 300:
            _require_json(response, request.subject)
            return
        if response.status == HTTPStatus.TOO_MANY_REQUESTS:
            turn.throttled()
        elif response.status < 500:
            turn.succeeded()
        header = response.headers.get("Retry-After")
        answer = Answer(
            code=response.status,
            body=await read_start(response, ERROR_BYTES_MAX),
            retry_after=retry_after_seconds(header, self._clock.now()),
        )
        raise error_of_answer(
            request.subject, answer, is_json_patch=request.content_type == JSON_PATCH
        )


def drop(response: aiohttp.ClientResponse) -> None:
    """End the connection of an answer that is not wanted any more; a complete one has none.

    At once, and not by a farewell that would go on after everything else has ended.
    """
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


class _PunctualBody(aiohttp.BytesPayload):
    """Asks once more, as the last thing before it is sent, whether it is too late for that.

    A process can be stopped at any moment, by a debugger, a freezer or a host that is moved, and
    wakes up with connections that are ready. No deadline fires before they have been used.
    """

    def __init__(self, value: bytes, *, is_late: Callable[[], bool]) -> None:
        super().__init__(value)
        self._is_late = is_late

    async def write(self, writer: AbstractStreamWriter) -> None:
        self._require_time()
        await super().write(writer)

    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        self._require_time()
        await super().write_with_length(writer, content_length)

    def _require_time(self) -> None:
        if self._is_late():
            raise aiohttp.ClientError("too late to be sent")


async def _read(response: aiohttp.ClientResponse, subject: Subject, bytes_max: int) -> bytes:
    body = await read_start(response, bytes_max)
    if len(body) > bytes_max:
        raise subject.unavailable(f"the answer is larger than {bytes_max} bytes")
    return body


async def read_start(response: aiohttp.ClientResponse, bytes_max: int) -> bytes:
    """The body; of one that is too large, a little more than may be taken."""
    pieces: list[bytes] = []
    size = 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > bytes_max:
            break
    return b"".join(pieces)


def _require_json(response: aiohttp.ClientResponse, subject: Subject) -> None:
    """A page of somebody in between may come with a code of success too."""
    if response.content_type != JSON:
        raise subject.unavailable("not JSON: something else than an API server answered")
