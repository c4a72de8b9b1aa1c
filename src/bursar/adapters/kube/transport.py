"""Requests to one API server: connections, timeouts, request slots and retries.

Watches do not occupy request slots: they last for minutes and must not starve other requests. A
request is retried only if that is safe: the server did not process it (429), or it is idempotent
and the server names the time of the retry (503 with Retry-After).
"""

import asyncio
import contextlib
import math
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from random import Random
from typing import Final, Protocol, Self, TypeVar

from bursar.adapters.client_auth.credentials import Credentials
from bursar.adapters.http1.body import read_body
from bursar.adapters.http1.client import HttpClient
from bursar.adapters.http1.errors import (
    ConnectError,
    ConnectTimeoutError,
    HttpError,
    UntrustedError,
)
from bursar.adapters.http1.request import JSON, USER_AGENT, Headers, HttpRequest
from bursar.adapters.http1.response import Response
from bursar.adapters.http1.route import Route, parse_origin
from bursar.adapters.kube.errors import Subject, error_of_response, retry_after_seconds
from bursar.adapters.kube.limiter import Limiter, Slot
from bursar.app.cluster.ports import (
    BusyError,
    Clock,
    ClusterError,
    TooLargeError,
    UnauthorizedError,
    UnavailableError,
    UnreachableError,
    UntrustedServerError,
)

T = TypeVar("T")

JSON_PATCH: Final = "application/json-patch+json"
ERROR_BYTES_MAX: Final = 2**20


class Access(Protocol):
    """How to reach an API server and as which user. See `ClusterAccess`."""

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
    """Limits on requests, response sizes and waiting times."""

    in_flight_min: int = 2
    """Requests in flight even if the server throttles; a controller must not stop."""
    in_flight_max: int = 32
    """Maximum requests in flight. Each uses one connection; watches come on top."""
    growth_after: int = 20
    """Successes in a row after which one more request may be in flight."""
    connect_seconds: float = 10
    request_seconds: float = 30
    list_seconds: float = 60
    slot_seconds: float = 60
    """Longest wait for a request slot."""
    attempts_max: int = 6
    retry_seconds_max: float = 60
    """No retry starts later than this after the first attempt."""
    send_seconds_max: float = math.inf
    """No request with a body is sent later than this after the call, even after a suspension.

    It protects writes that are allowed only for a while, such as those of a leader.
    """
    backoff_seconds: float = 0.25
    """Upper end of the first random back-off; it doubles with each attempt."""
    answer_bytes_max: int = 512 * 2**20
    """Largest response accepted. A list of 50,000 pods without pages is about that."""
    page_bytes_max: int = 32 * 2**20
    """Largest page of a list accepted. Five hundred usual pods are about 5 MiB."""
    line_bytes_max: int = 8 * 2**20
    """Longest watch event accepted. By default the API server stores objects up to 1.5 MiB."""
    is_gzip_accepted: bool = False
    """Request compressed lists: a seventh of the bytes, but no faster on loopback."""


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
    bytes_max: int | None = None
    """Largest response accepted; None: `Limits.answer_bytes_max`."""
    send_by: float | None = None
    """Latest time to send it, on the monotonic clock; `Limits.send_seconds_max` holds as well."""


class Transport:
    """Sends requests. Use it as a context manager."""

    def __init__(self, access: Access, *, clock: Clock, rng: Random, limits: Limits) -> None:
        self._access = access
        self._clock = clock
        self._rng = rng
        self._limits = limits
        self._origin, self._base_path = parse_origin(access.server)
        self._http = HttpClient(connect_seconds=limits.connect_seconds)
        self._is_entered = False
        self.has_asked = self.has_answer = False
        """Whether a request was begun, and whether the server has answered one."""
        self.limiter = Limiter(
            floor=limits.in_flight_min,
            ceiling=limits.in_flight_max,
            growth_after=limits.growth_after,
        )

    async def __aenter__(self) -> Self:
        assert not self._is_entered, "a client is entered once"
        self._is_entered = True
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    # -------------------------------------------------------------- sending

    async def exchange(self, request: Request) -> bytes:
        """Return the body of a successful response. Raises `ClusterError`."""
        return await self._retry(request, self._attempt)

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        """A response to be read while it arrives; the end of the block closes its connection."""
        response = await self._retry(request, self._open)
        try:
            yield response
        finally:
            response.close()

    async def _retry(
        self, request: Request, attempt: Callable[[Request, float], Awaitable[T]]
    ) -> T:
        """Attempt a request until it succeeds, cannot be retried, or time is up."""
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
        """Seconds until the next attempt; None if the request must not be retried."""
        is_unprocessed = isinstance(error, BusyError)
        is_invited = (
            error.code == HTTPStatus.SERVICE_UNAVAILABLE
            and error.retry_after is not None
            and request.is_idempotent
        )
        if number >= self._limits.attempts_max or not (is_unprocessed or is_invited):
            return None
        spread = self._limits.backoff_seconds * 2 ** (number - 1)
        # Clients with the same Retry-After must not all retry at the same time.
        return (error.retry_after or 0.0) + self._rng.uniform(0, spread)

    async def _attempt(self, request: Request, asked_at: float) -> bytes:
        headers = await self._headers(request)
        with await self._slot(request) as slot:
            async with self._deadline(request, slot):
                response = await self._send(request, headers, asked_at)
                try:
                    await self._require_success(response, request, slot)
                    body = await self._body(response, request)
                finally:
                    # The connection of a complete response is kept; any other is closed.
                    response.close()
                slot.succeeded()
                return body

    async def _open(self, request: Request, asked_at: float) -> Response:
        headers = await self._headers(request)
        with await self._slot(request) as slot:
            async with self._deadline(request, slot):
                response = await self._send(request, headers, asked_at)
                try:
                    await self._require_success(response, request, slot)
                except BaseException:
                    response.close()
                    raise
                slot.succeeded()
                return response

    async def _slot(self, request: Request) -> Slot:
        seconds = self._limits.slot_seconds
        try:
            return await self.limiter.acquire(seconds_max=seconds)
        except TimeoutError:
            problem = f"not sent within {seconds:g} s, {self.limiter.in_flight} requests in flight"
            raise request.subject.unavailable(problem) from None

    @contextlib.asynccontextmanager
    async def _deadline(self, request: Request, slot: Slot) -> AsyncIterator[None]:
        """Apply the timeout of an attempt, and translate errors of the HTTP client."""
        try:
            async with asyncio.timeout(request.seconds):
                yield
        except TimeoutError:
            slot.throttled()
            problem = f"no answer within {request.seconds:g} s"
            raise request.subject.unavailable(problem) from None
        except HttpError as error:
            if isinstance(error, ConnectTimeoutError):
                slot.throttled()
            raise request.subject.fault(_kind_of(error), str(error)) from None

    async def _headers(self, request: Request) -> Headers:
        headers = [
            ("Accept", JSON),
            ("Accept-Encoding", "gzip" if request.accepts_gzip else "identity"),
            ("User-Agent", USER_AGENT),
        ]
        headers += await self._access.credentials.headers()
        if request.body is not None:
            headers.append(("Content-Type", request.content_type))
        return headers

    async def _send(self, request: Request, headers: Headers, asked_at: float) -> Response:
        assert self._is_entered, "a client is used inside `async with`"
        # Read after `credentials.headers()`, which may have renewed the client certificate.
        route = Route(
            origin=self._origin,
            context=self._access.ssl_context,
            server_name=self._access.tls_server_name,
            proxy_url=self._access.proxy_url,
        )
        send_by = asked_at + self._limits.send_seconds_max
        if request.send_by is not None:
            send_by = min(send_by, request.send_by)
        sent = HttpRequest(
            method=request.method,
            target=self._base_path + request.target,
            headers=headers,
            body=request.body,
            is_idempotent=request.is_idempotent,
            is_late=lambda: request.body is not None and self._clock.monotonic() > send_by,
        )
        self.has_asked = True
        response = await self._http.send(route, sent)
        self.has_answer = True
        return response

    async def _require_success(self, response: Response, request: Request, slot: Slot) -> None:
        if 200 <= response.status < 300:
            _require_json(response, request.subject)
            return
        if response.status == HTTPStatus.TOO_MANY_REQUESTS:
            slot.throttled()
        elif response.status < 500:
            slot.succeeded()
        raise error_of_response(
            request.subject,
            response.status,
            await read_body(response, ERROR_BYTES_MAX),
            retry_after=retry_after_seconds(response.headers.get("retry-after"), self._clock.now()),
            is_json_patch=request.content_type == JSON_PATCH,
            is_audited="audit-id" in response.headers,
        )

    async def _body(self, response: Response, request: Request) -> bytes:
        bytes_max = request.bytes_max or self._limits.answer_bytes_max
        body = await read_body(response, bytes_max)
        if len(body) > bytes_max:
            problem = f"the answer is larger than {bytes_max} bytes"
            raise request.subject.fault(TooLargeError, problem)
        return body


def _kind_of(error: HttpError) -> type[UnavailableError]:
    if isinstance(error, UntrustedError):
        return UntrustedServerError
    return UnreachableError if isinstance(error, ConnectError) else UnavailableError


def _require_json(response: Response, subject: Subject) -> None:
    """Refuse other content: a proxy's page may come with a status of success, too."""
    if response.media_type != JSON:
        raise subject.unavailable("not JSON: the answer is not an API server's")
