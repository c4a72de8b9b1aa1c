"""The pods of a node from the kubelet's `/pods`, static pods included.

The kubelet answers from memory; there is no resourceVersion and no watch. Each read is one request
on a kept connection. Every failure is a `SourceError` of one line within a short timeout, because
CNI plugins wait for the result.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Self

from bursar.adapters.http1.client import HttpClient
from bursar.adapters.http1.errors import HttpError, UntrustedError
from bursar.adapters.http1.request import JSON, USER_AGENT, Headers, HttpRequest
from bursar.adapters.http1.response import Response
from bursar.adapters.http1.route import Origin, Route
from bursar.adapters.kubelet.access import KubeletAccess
from bursar.adapters.kubelet.endpoint import Endpoint, EndpointSource
from bursar.app.cluster.ports import ClusterError
from bursar.app.devices.ports import SourceError
from bursar.core.devices.pod import DevicePod
from bursar.wire.structs.fields import printable

PATH: Final = "/pods"
ERROR_BYTES_MAX: Final = 4096
PODS_PER_STEP: Final = 16
"""Pods that are decoded before other tasks of the event loop may run."""
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


class KubeletPods:
    """A `PodSource`. It keeps a connection: use it as a context manager."""

    def __init__(
        self,
        endpoint: EndpointSource,
        access: KubeletAccess,
        *,
        decode: Callable[[bytes], Iterable[DevicePod]],
        limits: KubeletLimits = DEFAULT_LIMITS,
    ) -> None:
        """`decode` raises `ValueError` if the body is not a list of pods."""
        self._endpoint = endpoint
        self._access = access
        self._decode = decode
        self._limits = limits
        self._http = HttpClient(connect_seconds=limits.seconds)
        # Concurrent reads share one connection.
        self._busy = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def read(self) -> Sequence[DevicePod]:
        """Return all pods of the kubelet, read after the call. Raises `SourceError`."""
        endpoint = await self._endpoint.find()
        try:
            return await self._decoded(await self._ask(endpoint))
        except _KubeletError as error:
            self._endpoint.invalidate()
            line = f"kubelet at {_shown(endpoint)}: {error}"
            raise SourceError(printable(line, LINE_LENGTH_MAX)) from None

    async def _decoded(self, body: bytes) -> Sequence[DevicePod]:
        pods: list[DevicePod] = []
        try:
            for pod in self._decode(body):
                pods.append(pod)
                if len(pods) % PODS_PER_STEP == 0:
                    # Clients that are served from cached pods need not wait for this.
                    await asyncio.sleep(0)
        except ValueError:
            # The decoder's text is left out: it may repeat what the kubelet sent.
            raise _KubeletError("the answer is not a list of pods") from None
        return pods

    async def _ask(self, endpoint: Endpoint) -> bytes:
        """Return the body. After 401, try once more with new credentials."""
        try:
            return await self._attempt(endpoint)
        except _UnauthorizedError:
            self._access.credentials.reject()
            return await self._attempt(endpoint)

    async def _attempt(self, endpoint: Endpoint) -> bytes:
        try:
            # Not under the request's timeout: an exec plugin has its own.
            credentials = await self._access.credentials.headers()
        except ClusterError as error:
            raise _KubeletError(str(error)) from None
        headers = [("Accept", JSON), ("Accept-Encoding", "identity"), ("User-Agent", USER_AGENT)]
        headers += credentials
        try:
            async with asyncio.timeout(self._limits.seconds), self._busy:
                return await self._exchange(endpoint, headers)
        except TimeoutError:
            raise _KubeletError(f"no answer within {self._limits.seconds:g} s") from None
        except UntrustedError as error:
            raise _KubeletError(f"{error} ({_CERTIFICATE_HINT})") from None
        except HttpError as error:
            raise _KubeletError(str(error)) from None

    async def _exchange(self, endpoint: Endpoint, headers: Headers) -> bytes:
        # Read after `credentials.headers()`, which may have renewed the client certificate.
        route = Route(
            origin=self._origin(endpoint),
            context=self._access.ssl_context,
            server_name=self._access.tls_server_name,
        )
        request = HttpRequest(method="GET", target=PATH, headers=headers, is_idempotent=True)
        response = await self._http.send(route, request)
        try:
            if response.status != HTTPStatus.OK:
                raise _error_of(response.status, await response.read(ERROR_BYTES_MAX))
            if response.media_type != JSON:
                raise _KubeletError("not JSON: the answer is not a kubelet's")
            return await self._body(response)
        finally:
            # The connection of a complete response is kept; any other is closed.
            response.close()

    def _origin(self, endpoint: Endpoint) -> Origin:
        if not (_HOST.fullmatch(endpoint.host) and 0 < endpoint.port < 2**16):
            raise _KubeletError("not an address")
        return Origin(self._access.scheme, endpoint.host, endpoint.port)

    async def _body(self, response: Response) -> bytes:
        bytes_max = self._limits.answer_bytes_max
        announced = int(response.headers.get("content-length", "0"))
        body = b"" if announced > bytes_max else await response.read(bytes_max)
        if max(announced, len(body)) > bytes_max:
            raise _KubeletError(f"the answer is larger than {bytes_max} bytes")
        return body


# ------------------------------------------------------------------ errors


class _KubeletError(Exception):
    """The request failed. The text holds no secret."""


class _UnauthorizedError(_KubeletError):
    """The kubelet answered 401."""


_CERTIFICATE_HINT: Final = (
    "the kubelet's certificate may be self-signed: give its CA with --kubelet-ca, "
    "or its name with --kubelet-server-name"
)
_UNAUTHORIZED: Final = (
    "401: the kubelet does not accept our credentials; the token or client certificate is missing, "
    "has expired, or belongs to another cluster"
)
_FORBIDDEN: Final = (
    "403: {who} may not read the kubelet's pods; it needs `get` on `nodes/pods`, "
    "or on `nodes/proxy` for a kubelet before 1.33"
)


def _error_of(status: int, body: bytes) -> _KubeletError:
    if status == HTTPStatus.UNAUTHORIZED:
        return _UnauthorizedError(_UNAUTHORIZED)
    if status == HTTPStatus.FORBIDDEN:
        found = _USER.search(body)
        return _KubeletError(_FORBIDDEN.format(who=found[1].decode() if found else "this account"))
    if 300 <= status < 400:
        return _KubeletError(f"{status}: redirects are not followed")
    return _KubeletError(f"the answer was {status}")


def _shown(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}"
