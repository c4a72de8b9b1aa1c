"""Who we are to an API server, as headers: tokens, token files, passwords, and impersonation.

A server that does not know us any more says so with 401. Then what is cached is
forgotten, but at most every ten seconds: when many requests are under way, the
answers to those sent with the old token come in after the new one was fetched,
and a plugin whose tokens are worthless must not be started for every request.
"""

import base64
import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from multidict import CIMultiDict, CIMultiDictProxy

from bursar.adapters.kube.small_file import SmallFileError, read_small
from bursar.adapters.kube.tls import ClusterTls
from bursar.app.cluster.ports import Clock

REJECT_SECONDS: Final = 10
TOKEN_FILE_SECONDS: Final = 50
"""The kubelet renews a token minutes before its end; upstream reads files as often."""

_UNSENDABLE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_TOKEN_CHARACTERS: Final = frozenset(
    "!#$&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)


class Credentials(Protocol):
    async def headers(self) -> Mapping[str, str]:
        """What to send with the next request; await it for each, and then take the TLS context.

        A name may be in it more than once (`Impersonate-Group`): it is a multidict, to be
        passed on as it is or to be added to one with `extend`. Raises `UnauthorizedError`.
        """

    def reject(self) -> None:
        """The server answered 401: forget what is cached, once."""


def is_sendable(text: str) -> bool:
    """Whether a text can be the value of a header."""
    return not _UNSENDABLE.search(text)


def bearer(token: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {token}"}


def basic(username: str, password: str) -> Mapping[str, str]:
    """Refused by API servers since 1.19, but some proxies in front of them want it."""
    return {
        "Authorization": f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"
    }


def _frozen(headers: Mapping[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(headers))


class FixedCredentials:
    """Headers that never change; none at all for nobody in particular."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self._headers = _frozen(headers or {})

    async def headers(self) -> Mapping[str, str]:
        return self._headers

    def reject(self) -> None:
        """There is nothing else to try."""


class TokenFile:
    """A token in a file that somebody renews.

    While the file cannot be read, the last token goes on being used. Whoever has no token
    to begin with calls `read` first.
    """

    def __init__(self, path: str, *, clock: Clock, token: str = "") -> None:
        self._path = path
        self._clock = clock
        self._last = _frozen(bearer(token) if token else {})
        self._read_at: float | None = None
        self._rejected_at: float | None = None

    def read(self) -> None:
        """Take the token that is in the file now. Raises `SmallFileError`."""
        try:
            token = read_small(self._path).decode().strip()
        except FileNotFoundError:
            raise SmallFileError("no such file") from None
        except UnicodeDecodeError:
            raise SmallFileError("not a token") from None
        if not token:
            raise SmallFileError("empty")
        if not is_sendable(token):
            raise SmallFileError("not a token")
        self._last = _frozen(bearer(token))
        self._read_at = self._clock.monotonic()

    async def headers(self) -> Mapping[str, str]:
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= TOKEN_FILE_SECONDS:
            with contextlib.suppress(SmallFileError):
                self.read()
        return self._last

    def reject(self) -> None:
        now = self._clock.monotonic()
        if self._rejected_at is None or now - self._rejected_at >= REJECT_SECONDS:
            self._rejected_at = now
            self._read_at = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Impersonation:
    """Whom the server is asked to take us for. We need the right to do so."""

    user: str
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]]

    def headers(self) -> Mapping[str, str]:
        found: CIMultiDict[str] = CIMultiDict({"Impersonate-User": self.user})
        if self.uid:
            found["Impersonate-Uid"] = self.uid
        for group in self.groups:
            found.add("Impersonate-Group", group)
        for key, values in self.extra.items():
            for value in values:
                found.add(f"Impersonate-Extra-{_escaped(key)}", value)
        return found


def _escaped(key: str) -> str:
    return "".join(
        chr(byte) if chr(byte) in _TOKEN_CHARACTERS else f"%{byte:02X}" for byte in key.encode()
    )


class AccessCredentials:
    """The credentials of one access: theirs, whom to impersonate, and the TLS that goes with it.

    Awaiting `headers` brings the TLS context up to date too, for a plugin may give a token
    as well as a certificate, and both must come from the same answer.
    """

    def __init__(
        self,
        inner: Credentials,
        *,
        impersonation: Impersonation | None = None,
        tls: ClusterTls | None = None,
    ) -> None:
        self._inner = inner
        self._impersonation = None if impersonation is None else impersonation.headers()
        self._tls = tls

    async def headers(self) -> Mapping[str, str]:
        headers = await self._inner.headers()
        if self._tls is not None:
            await self._tls.refresh()
        if self._impersonation is None:
            return headers
        both = CIMultiDict(headers)
        both.extend(self._impersonation)
        return CIMultiDictProxy(both)

    def reject(self) -> None:
        self._inner.reject()
