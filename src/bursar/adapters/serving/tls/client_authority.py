"""Client certificates: which CAs sign them, and which routes ask for one.

The server requests a certificate and accepts clients without one, because the kubelet's probes
have none. A client with a certificate that the CAs did not sign cannot connect. Guarded routes
refuse clients without a certificate before they read a body.
"""

import ssl
from collections.abc import Callable, Collection
from http import HTTPStatus
from pathlib import Path
from typing import Final

from bursar.adapters.serving.message import Guard, Request, Response, refusal
from bursar.app.cluster.ports import Clock
from bursar.app.log import Log

POLL_SECONDS: Final = 1.0
"""How often the file is checked."""
FILE_BYTES_MAX: Final = 2**20

LOG: Final = Log("serving")

_NO_CERTIFICATE: Final = refusal(HTTPStatus.FORBIDDEN, "a client certificate is required")
_OTHER_NAME: Final = refusal(
    HTTPStatus.FORBIDDEN, "the client certificate is not for an allowed name"
)


class ClientAuthority:
    """CA certificates (PEM) of a file, which is read again when it changes.

    Raises `OSError` or `ValueError` if there are none at the start. Later, a file that cannot be
    used is reported, and the certificates before stay in use.
    """

    def __init__(self, file: str, *, clock: Clock) -> None:
        self._file, self._clock = Path(file), clock
        self._certificates = self._read()
        _require(self._certificates)
        self._problem = ""
        """Why the file could not be used the last time."""

    def apply(self, context: ssl.SSLContext) -> None:
        context.verify_mode = ssl.CERT_OPTIONAL
        # As in Go, a trusted certificate need not be a root.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        # A resumed session would keep a certificate that the CAs of today do not sign.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        context.load_verify_locations(cadata=self._certificates)

    async def watch(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` after each change of the certificates, until cancelled."""
        while True:
            await self._clock.sleep(POLL_SECONDS)
            if self.reload():
                on_change()

    def reload(self) -> bool:
        """Read the file; return whether there are other certificates now."""
        try:
            found = self._read()
            if found != self._certificates:
                _require(found)
        except (OSError, ValueError) as error:
            self._report(str(getattr(error, "strerror", None) or error))
            return False
        is_changed = found != self._certificates
        self._certificates, self._problem = found, ""
        if is_changed:
            LOG.info("new CA certificates of clients")
        return is_changed

    def _report(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            LOG.warning(
                "the CA certificates of clients cannot be used; those before stay in use",
                error=problem,
                path=self._file,
            )

    def _read(self) -> str:
        with self._file.open("rb") as opened:
            return opened.read(FILE_BYTES_MAX).decode("ascii", "ignore")


def _require(certificates: str) -> None:
    """Raises `ValueError`."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=certificates)
    except (ssl.SSLError, ValueError):
        raise ValueError("no CA certificates (PEM)") from None


def client_guard(allowed: Collection[str] = ()) -> Guard:
    """A guard that demands a client certificate, for one of the names if there are any."""
    names = frozenset(allowed)

    async def guard(request: Request) -> Response | None:
        shown = request.peer.names
        if shown is None:
            return _NO_CERTIFICATE
        return None if not names or names & set(shown) else _OTHER_NAME

    return guard
