"""The pods of a node, from kubelet's own `/pods`: what it runs, static pods among them.

Kubelet answers from memory, so there is no version to ask for and nothing to watch; each read
is one request on a connection that is kept. Whatever goes wrong is a `SourceError` of one line,
for those who wait for an answer have a network to set up and cannot be kept waiting.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Self

from bursar.adapters.http1.answer import Answer
from bursar.adapters.http1.client import HttpClient
from bursar.adapters.http1.errors import HttpError, UntrustedError
from bursar.adapters.http1.request import Header, HttpRequest
from bursar.adapters.http1.route import Origin, Route
from bursar.adapters.kube.client import USER_AGENT
from bursar.adapters.kube.kubelet_access import KubeletAccess
from bursar.adapters.kube.kubelet_endpoint import Endpoint, EndpointSource
from bursar.adapters.kube.transport import JSON
from bursar.app.cluster.ports import ClusterError
from bursar.app.devices.ports import SourceError
from bursar.core.devices.pod import DevicePod
from bursar.wire.structs.fields import printable

PATH: Final = "/pods"
REFUSAL_BYTES_MAX: Final = 4096
TURN: Final = 16
"""Pods that are decoded in a row before other tasks get a turn."""
LINE_LENGTH_MAX: Final = 512
_HOST: Final = re.compile(r"[\w.:%-]{1,253}", re.ASCII)
_USER: Final = re.compile(rb"user=([\w.:@/-]{1,253})")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletLimits:
    seconds: float = 3.0
    """For a whole request, from the connection to the last byte."""
    answer_bytes_max: int = 64 * 2**20
    """Largest answer taken. 250 pods with long annotations are a few MiB."""


DEFAULT_LIMITS: Final = KubeletLimits()


class KubeletPods:
    """A `PodSource`. Use it as a context manager, for it keeps a connection."""

    def __init__(
        self,
        endpoint: EndpointSource,
        access: KubeletAccess,
        *,
        decode: Callable[[bytes], Iterable[DevicePod]],
        limits: KubeletLimits = DEFAULT_LIMITS,
    ) -> None:
        """`decode` raises `ValueError` for what is no list of pods."""
        self._endpoint = endpoint
        self._access = access
        self._decode = decode
        self._limits = limits
        self._http = HttpClient(connect_seconds=limits.seconds)
        # Whoever asks at the same time waits for the one connection there is.
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def read(self) -> Sequence[DevicePod]:
        """All pods that kubelet knows, as of a moment after the call. Raises `SourceError`."""
        endpoint = await self._endpoint.find()
        try:
            return await self._decoded(await self._ask(endpoint))
        except _KubeletError as error:
            self._endpoint.doubt()
            line = f"kubelet at {_shown(endpoint)}: {error}"
            raise SourceError(printable(line, LINE_LENGTH_MAX)) from None

    async def _decoded(self, body: bytes) -> Sequence[DevicePod]:
        pods: list[DevicePod] = []
        try:
            for pod in self._decode(body):
                pods.append(pod)
                if len(pods) % TURN == 0:
                    # Clients who are served from what is known already need not wait for this.
                    await asyncio.sleep(0)
        except ValueError:
            # Without its text, which may repeat what was sent.
            raise _KubeletError("the answer is not a list of pods") from None
        return pods

    async def _ask(self, endpoint: Endpoint) -> bytes:
        """The body. Someone whose token is not accepted tries once with what is valid by now."""
        try:
            return await self._attempt(endpoint)
        except _UnknownToKubeletError:
            self._access.credentials.reject()
            return await self._attempt(endpoint)

    async def _attempt(self, endpoint: Endpoint) -> bytes:
        try:
            # Bounded by itself: a program that hands out tokens may take longer than kubelet.
            given = await self._access.credentials.headers()
        except ClusterError as error:
            raise _KubeletError(str(error)) from None
        headers = [("Accept", JSON), ("Accept-Encoding", "identity"), ("User-Agent", USER_AGENT)]
        headers += given.items()
        try:
            async with asyncio.timeout(self._limits.seconds), self._turn:
                return await self._exchange(endpoint, headers)
        except TimeoutError:
            raise _KubeletError(f"no answer within {self._limits.seconds:g} s") from None
        except UntrustedError as error:
            raise _KubeletError(f"{error} ({_CERTIFICATE_HINT})") from None
        except HttpError as error:
            raise _KubeletError(str(error)) from None

    async def _exchange(self, endpoint: Endpoint, headers: Sequence[Header]) -> bytes:
        # Read after the credentials were asked, who may have renewed a certificate.
        route = Route(
            origin=self._origin(endpoint),
            context=self._access.ssl_context,
            server_name=self._access.tls_server_name,
        )
        request = HttpRequest(method="GET", target=PATH, headers=headers, is_repeatable=True)
        answer = await self._http.send(route, request)
        try:
            if answer.status != HTTPStatus.OK:
                raise _refusal(answer.status, await answer.read(REFUSAL_BYTES_MAX))
            if answer.media_type != JSON:
                raise _KubeletError("not JSON: something else than kubelet answered")
            return await self._body(answer)
        finally:
            # A complete answer has given its connection back; anything else ends it.
            answer.drop()

    def _origin(self, endpoint: Endpoint) -> Origin:
        if not (_HOST.fullmatch(endpoint.host) and 0 < endpoint.port < 2**16):
            raise _KubeletError("not an address")
        return Origin(self._access.scheme, endpoint.host, endpoint.port)

    async def _body(self, answer: Answer) -> bytes:
        bytes_max = self._limits.answer_bytes_max
        announced = int(answer.headers.get("content-length", "0"))
        body = b"" if announced > bytes_max else await answer.read(bytes_max)
        if max(announced, len(body)) > bytes_max:
            raise _KubeletError(f"the answer is larger than {bytes_max} bytes")
        return body


# ------------------------------------------------------------------ what can go wrong


class _KubeletError(Exception):
    """Kubelet could not be asked; why, in words that hold nothing secret."""


class _UnknownToKubeletError(_KubeletError):
    """It does not know who we are."""


_CERTIFICATE_HINT: Final = (
    "kubelet's certificate may be its own work: name the authority that signed it, "
    "or the name that it is for"
)
_UNKNOWN: Final = (
    "401: it does not know us; our token or client certificate is missing, has ended, "
    "or is another cluster's"
)
_FORBIDDEN: Final = (
    "403: {who} may not read its pods; that takes `get` on `nodes/pods`, "
    "or on `nodes/proxy` for a kubelet before 1.33"
)


def _refusal(status: int, body: bytes) -> _KubeletError:
    if status == HTTPStatus.UNAUTHORIZED:
        return _UnknownToKubeletError(_UNKNOWN)
    if status == HTTPStatus.FORBIDDEN:
        found = _USER.search(body)
        return _KubeletError(_FORBIDDEN.format(who=found[1].decode() if found else "this account"))
    if 300 <= status < 400:
        return _KubeletError(f"{status}: it sends us elsewhere, where we do not follow")
    return _KubeletError(f"the answer was {status}")


def _shown(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}"
