"""Request headers that authenticate this process: tokens, token files and passwords.

If a server answers 401, the cached credentials are dropped, but at most every
`REJECT_SECONDS`. Requests that were sent with the old token are still answered 401 after the new
token was fetched, and an exec plugin with useless tokens must not run for every request.
"""

import base64
import contextlib
import re
from typing import Final, Protocol

from bursar.adapters.client_auth.config_error import ConfigError
from bursar.adapters.client_auth.small_file import SmallFileError, read_small
from bursar.adapters.client_auth.tls import ClientTls
from bursar.adapters.http1.request import Headers
from bursar.app.cluster.ports import Clock

REJECT_SECONDS: Final = 10
TOKEN_FILE_SECONDS: Final = 50
"""How long a token is used before its file is read again.

The kubelet renews a token minutes before it expires; client-go re-reads files as often.
"""

_UNSENDABLE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")


class Credentials(Protocol):
    async def headers(self) -> Headers:
        """Headers for the next request. Await it for each request, then read the TLS context.

        A name may occur more than once (`Impersonate-Group`). Raises `UnauthorizedError`.
        """

    def reject(self) -> None:
        """The server answered 401: drop the cached credentials."""


def is_sendable(text: str) -> bool:
    """Whether the text is allowed as the value of a header."""
    return not _UNSENDABLE.search(text)


def bearer(token: str) -> Headers:
    return [("Authorization", f"Bearer {token}")]


def basic(username: str, password: str) -> Headers:
    """Basic authentication. API servers refuse it since 1.19; some proxies before them need it."""
    pair = base64.b64encode(f"{username}:{password}".encode()).decode()
    return [("Authorization", f"Basic {pair}")]


class FixedCredentials:
    """Headers that never change; without headers, an anonymous client."""

    def __init__(self, headers: Headers = ()) -> None:
        self._headers = headers

    async def headers(self) -> Headers:
        return self._headers

    def reject(self) -> None:
        """Do nothing: there are no other headers to try."""


def read_token(path: str) -> str:
    """The token in a file. Raises `SmallFileError`."""
    try:
        token = read_small(path).decode().strip()
    except FileNotFoundError:
        raise SmallFileError("no such file") from None
    except UnicodeDecodeError:
        raise SmallFileError("not a token") from None
    if not token:
        raise SmallFileError("empty")
    if not is_sendable(token):
        raise SmallFileError("not a token")
    return token


class TokenFile:
    """A bearer token in a file that another program renews.

    If the file cannot be read, the last token stays in use. Without an initial token, call
    `read` first.
    """

    def __init__(self, path: str, *, clock: Clock, token: str = "") -> None:
        self._path = path
        self._clock = clock
        self._last = bearer(token) if token else ()
        self._read_at: float | None = None
        self._rejected_at: float | None = None

    def read(self) -> None:
        """Read the file now. Raises `SmallFileError`."""
        self._last = bearer(read_token(self._path))
        self._read_at = self._clock.monotonic()

    async def headers(self) -> Headers:
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


def read_at_start(file: TokenFile, place: str) -> TokenFile:
    """Read the file before its first use. Raises `ConfigError`, which names `place`."""
    try:
        file.read()
    except SmallFileError as error:
        raise ConfigError(place, str(error)) from None
    return file


class AccessCredentials:
    """Credentials of one server: headers, and the TLS context that belongs to them.

    Awaiting `headers` also refreshes the TLS context: an exec plugin may return a token and a
    client certificate, and both must come from the same run.
    """

    def __init__(
        self, inner: Credentials, *, added: Headers = (), tls: ClientTls | None = None
    ) -> None:
        """`added` headers follow those of `inner` in every request."""
        self._inner = inner
        self._added = added
        self._tls = tls

    async def headers(self) -> Headers:
        headers = await self._inner.headers()
        if self._tls is not None:
            await self._tls.refresh()
        return [*headers, *self._added]

    def reject(self) -> None:
        self._inner.reject()
