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
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from random import Random
from typing import Final, Protocol, Self, TypeVar

from bursar.adapters.http1.answer import Answer
from bursar.adapters.http1.client import HttpClient
from bursar.adapters.http1.errors import ConnectTimeoutError, HttpError
from bursar.adapters.http1.gzip import plain_body
from bursar.adapters.http1.request import Header, HttpRequest
from bursar.adapters.http1.route import Route, parse_origin
from bursar.adapters.kube.errors import (
    Refusal,
    Subject,
    error_of_refusal,
    retry_after_seconds,
)
from bursar.adapters.kube.limiter import Limiter, Turn
from bursar.app.cluster.ports import (
    BusyError,
    Clock,
    ClusterError,
    UnauthorizedError,
    UnavailableError,
)

T = TypeVar("T")

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
ERROR_BYTES_MAX: Final = 2**20


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
    """Also the number of connections for requests; watches have theirs besides."""
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
    send_by: float | None = None
    """Of our clock: not to be sent after this, besides what holds for all requests."""


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
        self._origin, self._base_path = parse_origin(access.server)
        self._http = HttpClient(connect_seconds=limits.connect_seconds)
        self._is_entered = False
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
        """The body of a successful answer."""
        return await self._persist(request, self._attempt)

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Answer]:
        """An answer whose body comes bit by bit; its connection is closed with the block."""
        answer = await self._persist(request, self._open)
        try:
            yield answer
        finally:
            answer.drop()

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
                answer = await self._send(request, headers, asked_at)
                try:
                    await self._require_success(answer, request, turn)
                    body = await self._body(answer, request.subject)
                finally:
                    # A complete answer has given its connection back; anything else ends it.
                    answer.drop()
                turn.succeeded()
                return body

    async def _open(self, request: Request, asked_at: float) -> Answer:
        headers = await self._headers(request)
        with await self._turn(request) as turn:
            async with self._deadline(request, turn):
                answer = await self._send(request, headers, asked_at)
                try:
                    await self._require_success(answer, request, turn)
                except BaseException:
                    answer.drop()
                    raise
                turn.succeeded()
                return answer

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
        except TimeoutError:
            turn.throttled()
            problem = f"no answer within {request.seconds:g} s"
            raise request.subject.unavailable(problem) from None
        except HttpError as error:
            if isinstance(error, ConnectTimeoutError):
                turn.throttled()
            raise request.subject.unavailable(str(error)) from None

    async def _headers(self, request: Request) -> Sequence[Header]:
        headers = [
            ("Accept", JSON),
            ("Accept-Encoding", "gzip" if request.accepts_gzip else "identity"),
            ("User-Agent", self._user_agent),
        ]
        # A name may be there twice: who impersonates names each group in a header of its own.
        headers += (await self._access.credentials.headers()).items()
        if request.body is not None:
            headers.append(("Content-Type", request.content_type))
        return headers

    async def _send(self, request: Request, headers: Sequence[Header], asked_at: float) -> Answer:
        assert self._is_entered, "a client is used inside `async with`"
        # Read after the credentials were asked, who may have renewed a certificate.
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
            is_repeatable=request.is_idempotent,
            is_late=lambda: request.body is not None and self._clock.monotonic() > send_by,
        )
        return await self._http.send(route, sent)

    async def _require_success(self, answer: Answer, request: Request, turn: Turn) -> None:
        if 200 <= answer.status < 300:
            _require_json(answer, request.subject)
            return
        if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
            turn.throttled()
        elif answer.status < 500:
            turn.succeeded()
        refusal = Refusal(
            code=answer.status,
            body=await plain_body(answer, ERROR_BYTES_MAX),
            retry_after=retry_after_seconds(answer.headers.get("retry-after"), self._clock.now()),
        )
        raise error_of_refusal(
            request.subject, refusal, is_json_patch=request.content_type == JSON_PATCH
        )

    async def _body(self, answer: Answer, subject: Subject) -> bytes:
        bytes_max = self._limits.answer_bytes_max
        body = await plain_body(answer, bytes_max)
        if len(body) > bytes_max:
            raise subject.unavailable(f"the answer is larger than {bytes_max} bytes")
        return body


def _require_json(answer: Answer, subject: Subject) -> None:
    """A page of somebody in between may come with a code of success too."""
    if answer.media_type != JSON:
        raise subject.unavailable("not JSON: something else than an API server answered")
