"""TLS as a client: the trusted authorities, the client certificate, and reloading both from disk.

Certificates rotate while the process runs. A change makes a new `SSLContext` and leaves the one
in use alone. The HTTP client keeps connections apart by context, so new requests use connections
with the new certificate, and requests in flight finish on the old connections.
"""

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn, TypeAlias

from bursar.adapters.client_auth.config_error import ConfigError
from bursar.adapters.client_auth.small_file import (
    Fingerprint,
    SmallFileError,
    fingerprint,
    read_small,
)
from bursar.adapters.memory_file import in_memory
from bursar.app.cluster.ports import Clock, UnauthorizedError

RELOAD_SECONDS: Final = 10
"""How often files are checked for changes. Certificates are replaced long before they expire."""

_CERTIFICATE_MARK: Final = b"-----BEGIN CERTIFICATE-----"
_KEY_MARK: Final = b"PRIVATE KEY-----"
_MISMATCH: Final = "KEY_VALUES_MISMATCH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pem:
    """PEM data, given inline or as a file; inline data wins.

    Errors do not show the path: users have put the private key where its path belongs.
    """

    place: str
    """The configuration key that gives it, for errors."""
    data: bytes = field(default=b"", repr=False)
    path: str = field(default="", repr=False)

    @property
    def is_given(self) -> bool:
        return bool(self.data or self.path)

    @property
    def file(self) -> str:
        """The file to read; empty if the data is inline."""
        return "" if self.data else self.path

    def read(self) -> bytes:
        if not self.file:
            return self.data
        try:
            return read_small(self.file)
        except FileNotFoundError:
            raise ConfigError(self.place, "no such file") from None
        except SmallFileError as error:
            raise ConfigError(self.place, str(error)) from None


NOT_GIVEN: Final = Pem(place="")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCertificate:
    """A client certificate and its private key."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)
    certificate_place: str
    key_place: str


CertificateSource: TypeAlias = Callable[[], Awaitable[ClientCertificate | None]]
"""Returns the current client certificate, such as that of an exec plugin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """TLS settings of a configuration. Without an authority, the system's are trusted."""

    authority: Pem = NOT_GIVEN
    certificate: Pem = NOT_GIVEN
    key: Pem = NOT_GIVEN
    is_insecure: bool = False

    def client_certificate(self) -> ClientCertificate | None:
        if not self.certificate.is_given:
            return None
        return ClientCertificate(
            certificate=self.certificate.read(),
            key=self.key.read(),
            certificate_place=self.certificate.place,
            key_place=self.key.place,
        )

    def fingerprints(self) -> tuple[Fingerprint | None, ...]:
        files = (self.authority.file, self.certificate.file, self.key.file)
        return tuple(fingerprint(file) for file in files if file)

    def context(self, certificate: ClientCertificate | None) -> ssl.SSLContext:
        """Build a context. Raises `ConfigError`."""
        # Not `create_default_context`: since Python 3.13 it requires X.509 extensions that the
        # authorities of many clusters lack, and that no other Kubernetes client requires.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.hostname_checks_common_name = False
        if self.is_insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self.authority.is_given:
            self._trust_authority(context)
        else:
            context.load_default_certs()
        if certificate is not None:
            _load(context, certificate)
        return context

    def _trust_authority(self, context: ssl.SSLContext) -> None:
        text = self.authority.read()
        if _CERTIFICATE_MARK not in text:
            raise ConfigError(self.authority.place, "no PEM certificate in it")
        # As in Go, a trusted certificate need not be a root.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            context.load_verify_locations(cadata=text.decode("ascii", "ignore"))
        except (ssl.SSLError, ValueError):
            problem = "a certificate in it cannot be read"
            raise ConfigError(self.authority.place, problem) from None


class ClientTls:
    """The TLS context for one server, as of the last `refresh`."""

    def __init__(
        self, settings: TlsSettings, *, clock: Clock, source: CertificateSource | None = None
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._source = source
        self._fingerprints = settings.fingerprints()
        self._checked_at = clock.monotonic()
        self._certificate = settings.client_certificate()
        self.context = settings.context(self._certificate)

    @property
    def authority(self) -> Pem:
        """The trusted authority; not given if the system's authorities are trusted."""
        return self._settings.authority

    def with_authority(self, authority: Pem, *, is_insecure: bool) -> "ClientTls":
        """TLS with the same client certificate, for a server that another authority has signed.

        Raises `ConfigError`.
        """
        settings = replace(self._settings, authority=authority, is_insecure=is_insecure)
        return ClientTls(settings, clock=self._clock, source=self._source)

    async def refresh(self) -> None:
        """Follow changes of the files and of the certificate source.

        Raises `UnauthorizedError` if the source returns a certificate that cannot be used.
        """
        if self._source is not None:
            certificate = await self._source()
            if certificate != self._certificate:
                self._use(certificate)
        if self._clock.monotonic() - self._checked_at >= RELOAD_SECONDS:
            self._checked_at = self._clock.monotonic()
            self._reload()

    def _use(self, certificate: ClientCertificate | None) -> None:
        try:
            self.context = self._settings.context(certificate)
        except ConfigError as error:
            raise UnauthorizedError(str(error)) from None
        self._certificate = certificate

    def _reload(self) -> None:
        fingerprints = self._settings.fingerprints()
        if fingerprints == self._fingerprints:
            return
        try:
            certificate = self._certificate
            if self._source is None:
                certificate = self._settings.client_certificate()
            context = self._settings.context(certificate)
        except ConfigError:
            # Certificate and key are not replaced in one step. Keep the old context and try
            # again at the next check; if the files stay broken, the server answers 401.
            return
        self.context, self._certificate, self._fingerprints = context, certificate, fingerprints


def _load(context: ssl.SSLContext, given: ClientCertificate) -> None:
    """Make the context present a client certificate. Raises `ConfigError`."""
    if _CERTIFICATE_MARK not in given.certificate:
        raise ConfigError(given.certificate_place, "no PEM certificate in it")
    if _KEY_MARK not in given.key:
        raise ConfigError(given.key_place, "no PEM private key in it")
    try:
        with in_memory(given.certificate) as certificate, in_memory(given.key) as key:
            context.load_cert_chain(certificate, key, password=_refuse_password)
    except _EncryptedKeyError:
        raise ConfigError(given.key_place, "the key is encrypted; use one that is not") from None
    except ssl.SSLError as error:
        if error.reason == _MISMATCH:
            raise ConfigError(given.key_place, "does not fit the client certificate") from None
        raise ConfigError(given.certificate_place, "certificate or key cannot be read") from None


class _EncryptedKeyError(Exception):
    """Raised instead of OpenSSL's password prompt on the terminal."""


def _refuse_password() -> NoReturn:
    raise _EncryptedKeyError
