"""The TLS contexts of one server: each handshake uses the newest certificate that could be loaded.

Open connections keep their certificate. Loading a new one into the existing context would be
wrong: a context keeps one certificate for each type of key, so some clients would still be shown
the old one.
"""

import os
import ssl
from collections.abc import Callable
from datetime import datetime
from typing import Final

from bursar.adapters.serving.tls.profile import TlsProfile
from bursar.app.log import Log

ALPN: Final = ("http/1.1",)
"""HTTP/2 is not offered, so a kube-apiserver that asks for it falls back."""

LOG: Final = Log("serving")

Load = Callable[[ssl.SSLContext], datetime | None]
"""Loads certificate and key into a context, and returns when the certificate expires, if known.
Raises `OSError` or `ValueError`."""


class NewestContext:
    """Use `offer` for each new certificate."""

    def __init__(self, profile: TlsProfile, path: str = "") -> None:
        self._profile = profile
        self._place = {"path": path} if path else {}
        self._problem = ""
        """Why the last certificate could not be used."""
        self._newest: ssl.SSLContext | None = None
        self._load: Load | None = None
        """Loads the certificate in use."""
        self.loads = 0
        """How many certificates were loaded, the first one included."""
        self.invalid = 0
        """How many certificates could not be used."""
        self.not_after: datetime | None = None
        """When the certificate in use expires; None if that is not known."""

    @property
    def is_loaded(self) -> bool:
        """Whether there is a certificate to use."""
        return self._newest is not None

    def offer(self, load: Load) -> bool:
        """Use a new certificate, or report that it cannot be used and keep the one before."""
        context = self._empty()
        try:
            not_after = load(context)
        except (OSError, ValueError) as error:
            self.report(problem(error))
            return False
        self._newest, self._load, self.not_after = context, load, not_after
        self._problem = ""
        self.loads += 1
        LOG.info(
            "a certificate was read" if self.loads == 1 else "a new certificate",
            **({} if not_after is None else {"expires": not_after}),
        )
        return True

    def renew(self) -> None:
        """Apply the profile again, after its CAs of clients have changed."""
        if self._load is None:
            return
        context = self._empty()
        try:
            self._load(context)
        except (OSError, ValueError) as error:
            self.report(problem(error))
        else:
            self._newest = context

    def report(self, error: str) -> None:
        """Count and log a certificate that cannot be used."""
        self.invalid += 1
        self.warn(error)

    def warn(self, error: str) -> None:
        """Log why there is no certificate, or no new one."""
        self._problem = error
        LOG.warning(
            "the certificate cannot be used",
            reason="the one before stays in use" if self.is_loaded else "waiting for one",
            error=error,
            **self._place,
        )

    def remind(self) -> None:
        """Log the problem again while a server waits for a certificate."""
        if self._problem:
            self.warn(self._problem)

    def current(self) -> ssl.SSLContext:
        """The context with the newest certificate. There must be one.

        A server calls this for each handshake. It sets no `sni_callback`: Python decodes the server
        name before it calls one, and prints a traceback for a name that is not ASCII.
        """
        assert self._newest is not None
        return self._newest

    def _empty(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(ALPN)
        context.options |= ssl.OP_NO_RENEGOTIATION
        self._profile.apply(context)
        return context


def problem(error: Exception) -> str:
    """The cause in a few words, without anything of the files' content."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "tls failed").replace("_", " ").lower()
    number = error.errno if isinstance(error, OSError) else 0
    return (os.strerror(number) if number else type(error).__name__).lower()
