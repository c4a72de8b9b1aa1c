"""The certificate that a server presents, reloaded when its files change.

A mounted Secret is replaced while the process runs. Each TLS handshake uses the newest
certificate that could be loaded; open connections keep theirs. A new certificate that cannot be
loaded is reported, and the one before stays in use. Loading it into the existing context would
be wrong: a context keeps one certificate for each type of key, so some clients would still be
shown the old one.
"""

import os
import ssl
from pathlib import Path
from typing import Final, TypeAlias

from bursar.adapters.serving.tls_profile import DEFAULT_PROFILE, TlsProfile
from bursar.app.cluster.ports import Clock
from bursar.app.log import Log

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
POLL_SECONDS: Final = 1.0
"""How often the files are checked, at the cost of two stat calls."""
ALPN: Final = ("http/1.1",)
"""HTTP/2 is not offered, so a kube-apiserver that asks for it falls back."""

LOG: Final = Log("serving")

_Stamp: TypeAlias = tuple[int, int, int] | None


class ServingCertificate:
    """Certificate and key in a folder, named as in a Secret of type `kubernetes.io/tls`."""

    def __init__(
        self,
        folder: str,
        *,
        clock: Clock,
        profile: TlsProfile = DEFAULT_PROFILE,
    ) -> None:
        self._files = (Path(folder, CERTIFICATE), Path(folder, KEY))
        self._clock = clock
        self._profile = profile
        self._stamps: tuple[_Stamp, ...] = ()
        self._newest: ssl.SSLContext | None = None
        self.reloads = 0
        """How many certificates were loaded, the first one included."""

    async def wait_for_context(self) -> ssl.SSLContext:
        """Wait for a certificate. Return a context whose handshakes use the newest one."""
        while not self.reload():
            await self._clock.sleep(POLL_SECONDS)
        context = self._load()
        context.sni_callback = self._use_newest
        return context

    async def watch(self) -> None:
        """Reload the files when they change, until cancelled."""
        while True:
            await self._clock.sleep(POLL_SECONDS)
            self.reload()

    def reload(self) -> bool:
        """Load the files if they have changed. Return whether there is a certificate to use."""
        stamps = tuple(_stamp(file) for file in self._files)
        if stamps == self._stamps:
            return self._newest is not None
        self._stamps = stamps
        try:
            self._newest = self._load()
        except OSError as error:
            LOG.warning(
                "the certificate cannot be used",
                reason="the one before stays in use" if self._newest else "waiting for one",
                error=_problem(error),
            )
        else:
            self.reloads += 1
            LOG.info("a certificate was read" if self.reloads == 1 else "a new certificate")
        return self._newest is not None

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        certificate, key = self._files
        # For an encrypted key OpenSSL would prompt on the terminal. An empty password fails.
        context.load_cert_chain(certificate, key, password="")
        context.set_alpn_protocols(ALPN)
        context.options |= ssl.OP_NO_RENEGOTIATION
        self._profile.apply(context)
        return context

    def _use_newest(
        self,
        connection: ssl.SSLSocket | ssl.SSLObject,
        name: str | None,  # noqa: ARG002 - ssl's signature
        context: ssl.SSLContext,  # noqa: ARG002 - ssl's signature
    ) -> None:
        """OpenSSL calls this in each handshake, also if the client sends no server name."""
        assert self._newest is not None
        connection.context = self._newest


def _stamp(file: Path) -> _Stamp:
    """Values that change when the file does, or None if there is no file."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _problem(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "tls failed").replace("_", " ").lower()
    number = error.errno
    return (os.strerror(number) if number else type(error).__name__).lower()
