"""Requests to the leader's resize service, at the address that its Lease names.

Every failure becomes `Unreachable`, because the webhook must answer the API server in time. A
failed request is sent once more, to the leader at that time. This is safe: the leader promises a
pod the same size only once.
"""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

import msgspec

from bursar.adapters.client_auth.credentials import bearer, read_token
from bursar.adapters.client_auth.small_file import SmallFileError
from bursar.adapters.http1.client import HttpClient
from bursar.adapters.http1.errors import HttpError
from bursar.adapters.http1.request import JSON, HttpRequest
from bursar.adapters.http1.response import Response
from bursar.adapters.http1.route import Origin, Route, parse_origin
from bursar.app.admission.pods import Denied, Granted, Reply, ResizeRequest, Unreachable
from bursar.app.cluster.kinds import LEASES
from bursar.app.cluster.ports import ClusterError, Key, Reader
from bursar.app.names import ADDRESS_ANNOTATION, CONTROLLER, RESIZES_PATH
from bursar.wire.structs.body import UNREADABLE
from bursar.wire.structs.fields import printable
from bursar.wire.structs.metadata import PartialObjectMetadata

REQUEST_SECONDS: Final = 3.0
ASK_SECONDS_MAX: Final = 8.0
"""Timeout of a question to the leader, less than the default timeout of a webhook, ten seconds."""
IN_FLIGHT_MAX: Final = 8
"""Maximum requests at a time; further ones wait. The leader accepts few connections of one
address."""
RESPONSE_BYTES_MAX: Final = 64 * 1024
MESSAGE_LENGTH_MAX: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderClientSettings:
    namespace: str
    """Namespace of the Lease."""
    token_file: str
    """The service account token. It is read for each request: the kubelet renews it every hour."""
    authority_file: str
    """CA certificates (PEM) that sign the leader's certificate. Not used if the client gets
    `find_authorities`."""
    server_name: str = ""
    """Name that the leader's certificate must have. Default: the host of its address."""


class _Request(msgspec.Struct, rename="camel"):
    id: str
    namespace: str
    name: str
    uid: str
    pod: msgspec.Raw
    dry_run: bool


class _Answer(msgspec.Struct):
    allowed: bool
    message: str = ""


_LEASES: Final = msgspec.json.Decoder(PartialObjectMetadata)
_RESPONSES: Final = msgspec.json.Decoder(_Answer)


class _LeaderError(Exception):
    """The request failed. The text holds no secret."""


@dataclass(frozen=True, slots=True)
class _Leader:
    origin: Origin
    context: ssl.SSLContext


class LeaderClient:
    """A `ResizeReservations` that asks the leader. Use it as a context manager.

    `find_authorities` returns the CA certificates (PEM) that sign the leader's certificate, as
    they are now; without it they are read from `authority_file`.
    """

    def __init__(
        self,
        reader: Reader,
        settings: LeaderClientSettings,
        find_authorities: Callable[[], str] | None = None,
    ) -> None:
        self._reader = reader
        self._settings = settings
        self._find_authorities = find_authorities
        self._trusted = ""
        """What `find_authorities` returned when the leader was last looked up."""
        self._leader: _Leader | None = None
        self._http = HttpClient(connect_seconds=REQUEST_SECONDS)
        self._slots = asyncio.Semaphore(IN_FLIGHT_MAX)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def reserve_resize(self, request: ResizeRequest) -> Reply:
        cause = ""
        try:
            async with asyncio.timeout(ASK_SECONDS_MAX), self._slots:
                for _ in range(2):
                    try:
                        return await self._ask(request)
                    except _LeaderError as error:
                        self._leader, cause = None, str(error)
        except TimeoutError:
            cause = f"no answer within {ASK_SECONDS_MAX:g} s"
        return Unreachable(cause)

    async def _ask(self, request: ResizeRequest) -> Reply:
        if self._find_authorities is not None and self._find_authorities() != self._trusted:
            self._leader = None
        if self._leader is None:
            self._leader = await self._find_leader()
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                answer = await self._exchange(self._leader, request)
        except TimeoutError:
            raise _LeaderError(f"{CONTROLLER} did not answer in {REQUEST_SECONDS:g} s") from None
        except HttpError as error:
            raise _LeaderError(f"{CONTROLLER} could not be asked: {error}") from None
        if answer.allowed:
            return Granted()
        return Denied(printable(answer.message, MESSAGE_LENGTH_MAX))

    async def _exchange(self, leader: _Leader, request: ResizeRequest) -> _Answer:
        document = _Request(
            id=request.id,
            namespace=request.namespace,
            name=request.name,
            uid=request.uid,
            pod=msgspec.Raw(request.new),
            dry_run=request.is_dry_run,
        )
        route = Route(
            origin=leader.origin, context=leader.context, server_name=self._settings.server_name
        )
        sent = HttpRequest(
            method="POST",
            target=RESIZES_PATH,
            headers=[("Content-Type", JSON), *bearer(self._token())],
            body=msgspec.json.encode(document),
            # The leader reserves once, even if it receives the request twice.
            is_idempotent=True,
        )
        response = await self._http.send(route, sent)
        try:
            return await _read(response)
        finally:
            response.close()

    def _token(self) -> str:
        try:
            token = read_token(self._settings.token_file)
        except SmallFileError as error:
            raise _LeaderError(f"the service account token cannot be read: {error}") from None
        if not token.isascii():
            raise _LeaderError("the service account token cannot be sent")
        return token

    # -------------------------------------------------------------- finding the leader

    async def _find_leader(self) -> _Leader:
        key = Key(self._settings.namespace, CONTROLLER)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                body = await self._reader.get(LEASES, key)
        except TimeoutError:
            raise _LeaderError(f"the lease {key} was not answered in time") from None
        except ClusterError as error:
            raise _LeaderError(f"the lease {key} could not be read: {error.message}") from None
        return _Leader(_address(body, key), self._trust())

    def _trust(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            if self._find_authorities is None:
                context.load_verify_locations(self._settings.authority_file)
            else:
                self._trusted = self._find_authorities()
                context.load_verify_locations(cadata=self._trusted)
        except (OSError, ValueError):
            raise _LeaderError(f"the authority for {CONTROLLER} cannot be read") from None
        return context


def _address(body: bytes, key: Key) -> Origin:
    try:
        metadata = _LEASES.decode(body).metadata
    except UNREADABLE:
        raise _LeaderError(f"the lease {key} cannot be read") from None
    text = ((metadata and metadata.annotations) or {}).get(ADDRESS_ANNOTATION)
    if not text:
        raise _LeaderError(f"the lease {key} names no address: there is no leader")
    try:
        origin, _ = parse_origin(text)
    except ValueError:
        origin = None
    if origin is None or not origin.is_secure:
        raise _LeaderError(f"the lease {key} names an address that is not https://host:port")
    return origin


async def _read(response: Response) -> _Answer:
    if response.status != 200:
        raise _LeaderError(f"{CONTROLLER} answered {response.status}")
    body = await response.read(RESPONSE_BYTES_MAX)
    if len(body) > RESPONSE_BYTES_MAX:
        raise _LeaderError(f"{CONTROLLER} gave an answer that is too long")
    try:
        return _RESPONSES.decode(body)
    except UNREADABLE:
        raise _LeaderError(f"{CONTROLLER} gave an answer that cannot be read") from None
