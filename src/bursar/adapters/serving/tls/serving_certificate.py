"""The certificate that a server presents, reloaded when its files change.

A mounted Secret is replaced while the process runs. Each TLS handshake uses the newest
certificate that could be loaded. A new certificate that cannot be loaded is reported, and the one
before stays in use.
"""

import ssl
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final, TypeAlias

from bursar.adapters.serving.tls.channel import FindContext
from bursar.adapters.serving.tls.newest_context import NewestContext
from bursar.adapters.serving.tls.profile import DEFAULT_PROFILE, TlsProfile
from bursar.adapters.serving.tls.trial_handshake import try_handshake
from bursar.app.certificates.names import CERTIFICATE, KEY
from bursar.app.cluster.ports import Clock

POLL_SECONDS: Final = 1.0
"""How often the files are checked, at the cost of two stat calls."""

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
        self._stamps: tuple[_Stamp, ...] = ()
        self.newest: Final = NewestContext(profile, folder)

    async def wait_for_context(self) -> FindContext:
        """Wait for a certificate. Return a function that finds the context of the newest one."""
        while not self.reload():
            await self._clock.sleep(POLL_SECONDS)
            self.newest.remind()
        return self.newest.current

    async def watch(self) -> None:
        """Reload the files when they change, until cancelled."""
        while True:
            await self._clock.sleep(POLL_SECONDS)
            self.reload()

    def reload(self) -> bool:
        """Load the files if they have changed. Return whether there is a certificate to use."""
        stamps = tuple(_stamp(file) for file in self._files)
        if stamps != self._stamps:
            self._stamps = stamps
            self.newest.offer(self._load)
        return self.newest.is_loaded

    def _load(self, context: ssl.SSLContext) -> datetime | None:
        certificate, key = self._files
        # For an encrypted key OpenSSL would prompt on the terminal. An empty password fails.
        context.load_cert_chain(certificate, key, password="")
        with suppress(OSError, ValueError):
            return try_handshake(context, certificate.read_bytes().decode("ascii", "ignore"))
        return None


def _stamp(file: Path) -> _Stamp:
    """Values that change when the file does, or None if there is no file."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
