"""The certificate that a server presents, from a Secret that is watched at the API server.

A volume with the Secret would be up to a minute late. The private key never touches a disk. If
the API server is away or the Secret is deleted, the last certificate stays in use.
"""

import asyncio
import ssl
from datetime import datetime
from typing import Final

from bursar.adapters.memory_file import in_memory
from bursar.adapters.serving.tls.channel import FindContext
from bursar.adapters.serving.tls.newest_context import LOG, NewestContext, problem
from bursar.adapters.serving.tls.profile import DEFAULT_PROFILE, TlsProfile
from bursar.adapters.serving.tls.trial_handshake import try_handshake
from bursar.app.certificates.names import CERTIFICATE, KEY
from bursar.app.certificates.secrets import AUTHORITIES, SecretData
from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.observe import follow

REMIND_SECONDS: Final = 10.0
"""How often the problem is logged while a server waits for its first certificate."""


class SecretCertificate:
    """Certificate, key and CAs of a Secret of type `kubernetes.io/tls`.

    A pair that clients who trust the Secret's own `ca.crt` would refuse is not used. Without
    `ca.crt`, as for public CAs, every pair that fits together is used.
    """

    def __init__(
        self, informer: Informer[Sighting[SecretData]], *, profile: TlsProfile = DEFAULT_PROFILE
    ) -> None:
        self._informer = informer
        self._used: tuple[bytes, bytes] | None = None
        self._tried: SecretData | None = None
        self._is_loaded = asyncio.Event()
        self.newest: Final = NewestContext(profile)
        self.authorities = ""
        """CA certificates (PEM) of the last Secret that could be used."""

    async def wait_for_context(self) -> FindContext:
        """Wait for a certificate. Return a function that finds the context of the newest one.

        `watch` must run meanwhile.
        """
        while not self._is_loaded.is_set():
            try:
                async with asyncio.timeout(REMIND_SECONDS):
                    await self._is_loaded.wait()
            except TimeoutError:
                self.newest.remind()
        return self.newest.current

    async def watch(self) -> None:
        """Follow the Secret until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer.run())
            tasks.create_task(follow(self._informer, self._see, self._lose, self._on_synced))

    def _on_synced(self) -> None:
        if self._tried is None:
            self.newest.warn("the Secret does not exist")

    def _lose(self, _: Sighting[SecretData]) -> None:
        LOG.warning("the Secret was deleted; its last certificate stays in use")

    def _see(self, seen: Sighting[SecretData]) -> None:
        data = seen.item
        if data == self._tried:
            return
        self._tried = data
        pair = data.get(CERTIFICATE, b""), data.get(KEY, b"")
        authorities = _text(data.get(AUTHORITIES, b""))

        def load(context: ssl.SSLContext) -> datetime:
            return _load(context, pair, authorities)

        if pair == self._used and self.newest.is_loaded:
            # Only the CAs have changed.
            try:
                load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
            except (OSError, ValueError) as error:
                self.newest.report(problem(error))
            else:
                self.authorities = authorities
        elif self.newest.offer(load):
            self._used, self.authorities = pair, authorities
            self._is_loaded.set()


def _load(context: ssl.SSLContext, pair: tuple[bytes, bytes], authorities: str) -> datetime:
    with in_memory(pair[0]) as certificate, in_memory(pair[1]) as key:
        # For an encrypted key OpenSSL would prompt on the terminal. An empty password fails.
        context.load_cert_chain(certificate, key, password="")
    return try_handshake(context, authorities or _text(pair[0]))


def _text(pem: bytes) -> str:
    return pem.decode("ascii", "ignore")
