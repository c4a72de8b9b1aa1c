"""TLS to an API server: whom we trust, who we are, and both again when they change on disk.

Certificates rotate while we run. A change makes a new `SSLContext` rather than
changing the one in use: connection pools keep connections apart by context, so
requests that ask for the context each time move to connections made with the
new certificate, and requests under way end undisturbed on the old ones.
"""

import os
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn, TypeAlias

from bursar.adapters.kube.config_error import ConfigError
from bursar.adapters.kube.small_file import SmallFileError, Stamp, read_small, stamp
from bursar.app.cluster.ports import Clock, UnauthorizedError

LOOK_SECONDS: Final = 10
"""How often files are looked at. Whoever rotates a certificate does it long before its end."""

_CERTIFICATE_MARK: Final = b"-----BEGIN CERTIFICATE-----"
_KEY_MARK: Final = b"PRIVATE KEY-----"
_MISMATCH: Final = "KEY_VALUES_MISMATCH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pem:
    """A text in PEM, given as such or as a file; the text goes before the file.

    Errors do not show the path, for people have put the key itself where its path belongs.
    """

    place: str
    """The key of the configuration that it comes from."""
    data: bytes = field(default=b"", repr=False)
    path: str = field(default="", repr=False)

    @property
    def is_given(self) -> bool:
        return bool(self.data or self.path)

    @property
    def file(self) -> str:
        """The file that it is read from, if it is."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A client certificate and its key."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)
    certificate_place: str
    key_place: str


PairSource: TypeAlias = Callable[[], Awaitable[Pair | None]]
"""Who gives the client certificate, where no file and no configuration does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """What a configuration says about TLS. Without an authority, the system's are trusted."""

    authority: Pem
    certificate: Pem
    key: Pem
    is_insecure: bool = False

    def pair(self) -> Pair | None:
        if not self.certificate.is_given:
            return None
        return Pair(
            certificate=self.certificate.read(),
            key=self.key.read(),
            certificate_place=self.certificate.place,
            key_place=self.key.place,
        )

    def stamps(self) -> tuple[Stamp | None, ...]:
        files = (self.authority.file, self.certificate.file, self.key.file)
        return tuple(stamp(file) for file in files if file)

    def context(self, pair: Pair | None) -> ssl.SSLContext:
        """Build a context. Raises `ConfigError`."""
        # Not `create_default_context`: from Python 3.13 on it insists on extensions that the
        # authorities of many clusters lack, and that no other client asks for.
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
        if pair is not None:
            _show(context, pair)
        return context

    def _trust_authority(self, context: ssl.SSLContext) -> None:
        text = self.authority.read()
        if _CERTIFICATE_MARK not in text:
            raise ConfigError(self.authority.place, "no PEM certificate in it")
        # Go trusts what it is given, be it a root or not.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            context.load_verify_locations(cadata=text.decode("ascii", "replace"))
        except (ssl.SSLError, ValueError):
            problem = "a certificate in it cannot be read"
            raise ConfigError(self.authority.place, problem) from None


class ClusterTls:
    """The TLS context of a cluster, as of the last `refresh`."""

    def __init__(
        self, settings: TlsSettings, *, clock: Clock, pair_source: PairSource | None = None
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._pair_source = pair_source
        self._stamps = settings.stamps()
        self._looked_at = clock.monotonic()
        self._pair = settings.pair()
        self.context = settings.context(self._pair)

    @property
    def authority(self) -> Pem:
        """Who vouches for the server; nothing is given where the system's authorities do."""
        return self._settings.authority

    def trusting(self, authority: Pem, *, is_insecure: bool) -> "ClusterTls":
        """The same client, for a server that somebody else vouches for. Raises `ConfigError`."""
        settings = replace(self._settings, authority=authority, is_insecure=is_insecure)
        return ClusterTls(settings, clock=self._clock, pair_source=self._pair_source)

    async def refresh(self) -> None:
        """Follow changes of the files, and of what the source of the client certificate gives.

        Raises `UnauthorizedError` if the source gives something that cannot be used.
        """
        if self._pair_source is not None:
            pair = await self._pair_source()
            if pair != self._pair:
                self._take(pair)
        if self._clock.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._looked_at = self._clock.monotonic()
            self._look()

    def _take(self, pair: Pair | None) -> None:
        try:
            self.context = self._settings.context(pair)
        except ConfigError as error:
            raise UnauthorizedError(str(error)) from None
        self._pair = pair

    def _look(self) -> None:
        stamps = self._settings.stamps()
        if stamps == self._stamps:
            return
        try:
            pair = self._pair if self._pair_source is not None else self._settings.pair()
            context = self._settings.context(pair)
        except ConfigError:
            # Certificate and key are not replaced at the same instant. Keep what we have
            # and look again; if it stays so, the server will say that we are nobody.
            return
        self.context, self._pair, self._stamps = context, pair, stamps


def _show(context: ssl.SSLContext, pair: Pair) -> None:
    """Make the context show a client certificate when asked."""
    if _CERTIFICATE_MARK not in pair.certificate:
        raise ConfigError(pair.certificate_place, "no PEM certificate in it")
    if _KEY_MARK not in pair.key:
        raise ConfigError(pair.key_place, "no PEM private key in it")
    try:
        with _in_memory(pair.certificate) as certificate, _in_memory(pair.key) as key:
            context.load_cert_chain(certificate, key, password=_refuse_password)
    except _EncryptedKeyError:
        raise ConfigError(pair.key_place, "the key is encrypted; use one that is not") from None
    except ssl.SSLError as error:
        if error.reason == _MISMATCH:
            raise ConfigError(pair.key_place, "does not fit the client certificate") from None
        raise ConfigError(pair.certificate_place, "certificate or key cannot be read") from None


class _EncryptedKeyError(Exception):
    """Raised where OpenSSL would ask for a password on the terminal."""


def _refuse_password() -> NoReturn:
    raise _EncryptedKeyError


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """A path to these bytes, for a library that wants one. They never touch a disk."""
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
