"""The certificate that a server shows, followed as its files change.

A mounted Secret is replaced while we run. Every handshake takes the newest pair that could be
read; connections that are open keep the one they began with. A new pair that is broken
changes nothing but is reported. Loading it into the context in use would not do: that keeps
one certificate for each type of key, and a client could still be shown the old one.
"""

import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from bursar.adapters.serving.tls_profile import USUAL, TlsProfile
from bursar.app.cluster.ports import Clock

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
LOOK_SECONDS: Final = 1.0
"""A look is two calls of the system."""

_Stamp: TypeAlias = tuple[int, int, int] | None


class ServingPair:
    """Certificate and key in a folder, named as in a Secret of type `kubernetes.io/tls`."""

    def __init__(
        self,
        folder: str,
        *,
        clock: Clock,
        report: Callable[[str], None],
        profile: TlsProfile = USUAL,
    ) -> None:
        self._files = (Path(folder, CERTIFICATE), Path(folder, KEY))
        self._clock = clock
        self._report = report
        self._profile = profile
        self._stamps: tuple[_Stamp, ...] = ()
        self._newest: ssl.SSLContext | None = None
        self.reloads = 0
        """How often a pair was taken, the first one included."""

    async def listening_context(self) -> ssl.SSLContext:
        """What to listen with. It waits for the first pair, as long as that takes."""
        while not self.look():
            await self._clock.sleep(LOOK_SECONDS)
        context = self._load()
        context.sni_callback = self._show_newest
        return context

    async def follow(self) -> None:
        """Keep looking until cancelled."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> bool:
        """Take a new pair if there is one; whether there is any to show."""
        stamps = tuple(_stamp(file) for file in self._files)
        if stamps == self._stamps:
            return self._newest is not None
        self._stamps = stamps
        try:
            self._newest = self._load()
        except OSError as error:
            kept = "the one before stays in use" if self._newest else "waiting for one"
            self._report(f"the certificate cannot be used, {kept}: {_problem(error)}")
        else:
            self.reloads += 1
            self._report("a certificate was read" if self.reloads == 1 else "a new certificate")
        return self._newest is not None

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        certificate, key = self._files
        # With an encrypted key OpenSSL would ask on the terminal; an empty password fails.
        context.load_cert_chain(certificate, key, password="")
        self._profile.apply(context)
        return context

    def _show_newest(
        self,
        connection: ssl.SSLSocket | ssl.SSLObject,
        name: str | None,  # noqa: ARG002 - ssl's signature
        context: ssl.SSLContext,  # noqa: ARG002 - ssl's signature
    ) -> None:
        """Called in each handshake, also if the client names no server."""
        assert self._newest is not None
        connection.context = self._newest


def _stamp(file: Path) -> _Stamp:
    """What changes when the file does; None while there is none."""
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
