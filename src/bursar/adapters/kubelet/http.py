"""GET requests to the kubelet's HTTPS server.

Each read is one request on a kept connection. Every failure is a `KubeletError` of one line within
a short timeout.
"""

import asyncio
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from bursar.adapters.http1.client import HttpClient
from bursar.adapters.http1.errors import HttpError, UntrustedError
from bursar.adapters.http1.request import JSON, USER_AGENT, Headers, HttpRequest
from bursar.adapters.http1.response import Response
from bursar.adapters.http1.route import Origin, Route
from bursar.adapters.kubelet.access import KubeletAccess
from bursar.adapters.kubelet.endpoint import Endpoint, EndpointSource
from bursar.app.cluster.ports import ClusterError
from bursar.wire.structs.fields import printable

ERROR_BYTES_MAX: Final = 4096
LINE_LENGTH_MAX: Final = 512
_HOST: Final = re.compile(r"[\w.:%-]{1,253}", re.ASCII)
_USER: Final = re.compile(rb"user=([\w.:@/-]{1,253})")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletLimits:
    seconds: float = 3.0
    """Timeout of a whole request, from connecting to the last byte."""
    answer_bytes_max: int = 64 * 2**20
    """Largest response accepted. 250 pods with long annotations are a few MiB."""


DEFAULT_LIMITS: Final = KubeletLimits()


@dataclass(frozen=True, slots=True)
class KubeletPath:
    """A path of the kubelet's server, and the right it takes."""

    path: str
    what: str
    """What a GET of the path returns, for messages."""
    right: str


class KubeletHttp:
    """Reads of the kubelet's server, on one connection. Close it after use."""

    def __init__(
        self,
        endpoint: EndpointSource,
        access: KubeletAccess,
        limits: KubeletLimits = DEFAULT_LIMITS,
    ) -> None:
        self._endpoint = endpoint
        self._access = access
        self._limits = limits
        self._http = HttpClient(connect_seconds=limits.seconds)
        # Concurrent reads share one connection.
        self._busy = asyncio.Lock()
        self._asked: Endpoint | None = None

    async def close(self) -> None:
        await self._http.close()

    async def get(self, path: KubeletPath) -> bytes:
        """Return the body of a GET. Raises `KubeletError`, and `SourceError` of the endpoint."""
        self._asked = endpoint = await self._endpoint.find()
        try:
            return await self._ask(endpoint, path)
        except KubeletError as error:
            raise self.error(str(error)) from None

    def error(self, text: str) -> "KubeletError":
        """An error that names the kubelet's address. The address is looked up again next time."""
        self._endpoint.invalidate()
        where = "kubelet" if self._asked is None else f"kubelet at {_shown(self._asked)}"
        return KubeletError(printable(f"{where}: {text}", LINE_LENGTH_MAX))

    async def _ask(self, endpoint: Endpoint, path: KubeletPath) -> bytes:
        """Return the body. After 401, try once more with new credentials."""
        try:
            return await self._attempt(endpoint, path)
        except _UnauthorizedError:
            self._access.credentials.reject()
            return await self._attempt(endpoint, path)

    async def _attempt(self, endpoint: Endpoint, path: KubeletPath) -> bytes:
        try:
            # Not under the request's timeout: an exec plugin has its own.
            credentials = await self._access.credentials.headers()
        except ClusterError as error:
            raise KubeletError(str(error)) from None
        headers = [("Accept", JSON), ("Accept-Encoding", "identity"), ("User-Agent", USER_AGENT)]
        headers += credentials
        try:
            async with asyncio.timeout(self._limits.seconds), self._busy:
                return await self._exchange(endpoint, path, headers)
        except TimeoutError:
            raise KubeletError(f"no answer within {self._limits.seconds:g} s") from None
        except UntrustedError as error:
            raise KubeletError(f"{error} ({_CERTIFICATE_HINT})") from None
        except HttpError as error:
            raise KubeletError(str(error)) from None

    async def _exchange(self, endpoint: Endpoint, path: KubeletPath, headers: Headers) -> bytes:
        # Read after `credentials.headers()`, which may have renewed the client certificate.
        route = Route(
            origin=self._origin(endpoint),
            context=self._access.ssl_context,
            server_name=self._access.tls_server_name,
        )
        request = HttpRequest(method="GET", target=path.path, headers=headers, is_idempotent=True)
        response = await self._http.send(route, request)
        try:
            if response.status != HTTPStatus.OK:
                body = await response.read(ERROR_BYTES_MAX)
                raise _error_of(response.status, body, path)
            if response.media_type != JSON:
                raise KubeletError("not JSON: the answer is not a kubelet's")
            return await self._body(response)
        finally:
            # The connection of a complete response is kept; any other is closed.
            response.close()

    def _origin(self, endpoint: Endpoint) -> Origin:
        if not (_HOST.fullmatch(endpoint.host) and 0 < endpoint.port < 2**16):
            raise KubeletError("not an address")
        return Origin(self._access.scheme, endpoint.host, endpoint.port)

    async def _body(self, response: Response) -> bytes:
        bytes_max = self._limits.answer_bytes_max
        announced = int(response.headers.get("content-length", "0"))
        body = b"" if announced > bytes_max else await response.read(bytes_max)
        if max(announced, len(body)) > bytes_max:
            raise KubeletError(f"the answer is larger than {bytes_max} bytes")
        return body


# ------------------------------------------------------------------ errors


class KubeletError(Exception):
    """The request failed. The text holds no secret."""


class _UnauthorizedError(KubeletError):
    """The kubelet answered 401."""


_CERTIFICATE_HINT: Final = (
    "the kubelet's certificate may be self-signed: give its CA with --kubelet-ca, "
    "or its name with --kubelet-server-name"
)
_UNAUTHORIZED: Final = (
    "401: the kubelet does not accept our credentials; the token or client certificate is missing, "
    "has expired, or belongs to another cluster"
)
_FORBIDDEN: Final = "403: {who} may not read the kubelet's {what}; it needs {right}"


def _error_of(status: int, body: bytes, path: KubeletPath) -> KubeletError:
    if status == HTTPStatus.UNAUTHORIZED:
        return _UnauthorizedError(_UNAUTHORIZED)
    if status == HTTPStatus.FORBIDDEN:
        found = _USER.search(body)
        who = found[1].decode() if found else "this account"
        return KubeletError(_FORBIDDEN.format(who=who, what=path.what, right=path.right))
    if 300 <= status < 400:
        return KubeletError(f"{status}: redirects are not followed")
    return KubeletError(f"the answer was {status}")


def _shown(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}"
