"""The reservation desk of whoever leads: an HTTPS request to the address in its Lease.

Everything that goes wrong ends as `Unreachable`, because the webhook has to answer in time in
any case. One repetition goes to whoever leads then: a request has an id, so the desk
reserves once however often it is asked.
"""

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import msgspec

from bursar.adapters.http1.answer import Answer
from bursar.adapters.http1.client import HttpClient
from bursar.adapters.http1.errors import HttpError
from bursar.adapters.http1.request import HttpRequest
from bursar.adapters.http1.route import Origin, Route, parse_origin
from bursar.app.admission.pods import CONTROLLER, Denied, Granted, Reply, ResizeRequest, Unreachable
from bursar.app.cluster.election.lease import LEASES
from bursar.app.cluster.ports import ClusterError, Key, Reader
from bursar.wire.structs.fields import printable

ADDRESS_ANNOTATION: Final = "bursar.io/address"
PATH: Final = "/v1/resizes"
REQUEST_SECONDS: Final = 3.0
ASK_SECONDS_MAX: Final = 8.0
"""An API server waits ten seconds for a webhook unless told otherwise."""
ANSWER_BYTES_MAX: Final = 64 * 1024
TOKEN_BYTES_MAX: Final = 64 * 1024
MESSAGE_LENGTH_MAX: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskSettings:
    namespace: str
    """Of the Lease."""
    token_file: str
    """Who we are; read again for each request, as it is renewed every hour."""
    authority_file: str
    """Whose certificates are trusted."""
    server_name: str = ""
    """What the leader's certificate must be for, if not for the host of its address."""


class _Meta(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Lease(msgspec.Struct):
    metadata: _Meta | None = None


class _Question(msgspec.Struct, rename="camel"):
    id: str
    namespace: str
    name: str
    uid: str
    pod: msgspec.Raw
    dry_run: bool


class _Answer(msgspec.Struct):
    allowed: bool
    message: str = ""


_LEASES: Final = msgspec.json.Decoder(_Lease)
_ANSWERS: Final = msgspec.json.Decoder(_Answer)


class _DeskError(Exception):
    """The desk could not be asked; why, in words that hold nothing secret."""


@dataclass(frozen=True, slots=True)
class _Leader:
    origin: Origin
    context: ssl.SSLContext


class DeskClient:
    """Use it as a context manager."""

    def __init__(self, reader: Reader, settings: DeskSettings) -> None:
        self._reader = reader
        self._settings = settings
        self._leader: _Leader | None = None
        self._http = HttpClient(connect_seconds=REQUEST_SECONDS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def reserve_resize(self, request: ResizeRequest) -> Reply:
        cause = ""
        try:
            async with asyncio.timeout(ASK_SECONDS_MAX):
                for _ in range(2):
                    try:
                        return await self._ask(request)
                    except _DeskError as error:
                        self._leader, cause = None, str(error)
        except TimeoutError:
            cause = f"no answer within {ASK_SECONDS_MAX:g} s"
        return Unreachable(cause)

    async def _ask(self, request: ResizeRequest) -> Reply:
        if self._leader is None:
            self._leader = await self._find_leader()
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                answer = await self._exchange(self._leader, request)
        except TimeoutError:
            raise _DeskError(f"{CONTROLLER} did not answer in {REQUEST_SECONDS:g} s") from None
        except HttpError as error:
            raise _DeskError(f"{CONTROLLER} could not be asked: {error}") from None
        if answer.allowed:
            return Granted()
        return Denied(printable(answer.message, MESSAGE_LENGTH_MAX))

    async def _exchange(self, leader: _Leader, request: ResizeRequest) -> _Answer:
        question = _Question(
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
            target=PATH,
            headers=[
                ("Content-Type", "application/json"),
                ("Authorization", f"Bearer {self._token()}"),
            ],
            body=msgspec.json.encode(question),
            # It has an id: whoever is asked twice reserves once.
            is_repeatable=True,
        )
        answer = await self._http.send(route, sent)
        try:
            return await _read(answer)
        finally:
            answer.drop()

    def _token(self) -> str:
        try:
            with Path(self._settings.token_file).open("rb") as file:
                token = file.read(TOKEN_BYTES_MAX).decode("ascii").strip()
        except (OSError, UnicodeDecodeError):
            raise _DeskError("the service account token cannot be read") from None
        if not token or not token.isprintable():
            raise _DeskError("the service account token cannot be sent")
        return token

    # -------------------------------------------------------------- who leads

    async def _find_leader(self) -> _Leader:
        key = Key(self._settings.namespace, CONTROLLER)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                body = await self._reader.get(LEASES, key)
        except TimeoutError:
            raise _DeskError(f"the lease {key} was not answered in time") from None
        except ClusterError as error:
            raise _DeskError(f"the lease {key} could not be read: {error.message}") from None
        return _Leader(_address(body, key), self._trust())

    def _trust(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_verify_locations(self._settings.authority_file)
        except OSError:
            raise _DeskError(f"the authority for {CONTROLLER} cannot be read") from None
        return context


def _address(body: bytes, key: Key) -> Origin:
    try:
        metadata = _LEASES.decode(body).metadata
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise _DeskError(f"the lease {key} cannot be read") from None
    text = ((metadata and metadata.annotations) or {}).get(ADDRESS_ANNOTATION, "")
    if not text:
        raise _DeskError(f"the lease {key} names no address: nobody leads")
    try:
        origin, _ = parse_origin(text)
    except ValueError:
        origin = None
    if origin is None or not origin.is_secure:
        raise _DeskError(f"the lease {key} names an address that is not https://host:port")
    return origin


async def _read(answer: Answer) -> _Answer:
    if answer.status != 200:
        raise _DeskError(f"{CONTROLLER} answered {answer.status}")
    body = await answer.read(ANSWER_BYTES_MAX)
    if len(body) > ANSWER_BYTES_MAX:
        raise _DeskError(f"{CONTROLLER} gave an answer that is too long")
    try:
        return _ANSWERS.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise _DeskError(f"{CONTROLLER} gave an answer that cannot be read") from None
