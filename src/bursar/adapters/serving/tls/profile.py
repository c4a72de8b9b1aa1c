"""TLS settings of a server: the oldest version, cipher suites, and the CAs of client certificates.

The settings are those of upstream's webhook: the names are those of Go's crypto/tls, and the error
messages are upstream's.
"""

import ssl
from dataclasses import dataclass
from typing import Final

from bursar.adapters.serving.tls.client_authority import ClientAuthority

_RULED_OUT: Final = ("VersionTLS10", "VersionTLS11")
_VERSIONS: Final = {
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
}
"""Go's names of cipher suites, with OpenSSL's. OpenSSL has removed RC4 and 3DES."""
SUITES_OF_13: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
"""Accepted without effect, as upstream: neither Go nor Python can restrict these suites."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsProfile:
    """Restrictions on top of the defaults: TLS 1.2 or newer, and OpenSSL's suites."""

    least: ssl.TLSVersion | None = None
    suites: tuple[str, ...] = ()
    """OpenSSL's names, for TLS 1.2. Empty for the default suites."""
    clients: ClientAuthority | None = None
    """The CAs of client certificates. None: no certificate is requested."""

    def apply(self, context: ssl.SSLContext) -> None:
        if self.least is not None:
            context.minimum_version = self.least
        if self.suites:
            context.set_ciphers(":".join(self.suites))
        if self.clients is not None:
            self.clients.apply(context)


def tls_profile(version: str, suites: str) -> TlsProfile:
    """Parse upstream's two settings. Raises `ValueError` with upstream's message."""
    version = version.strip()
    wanted = [name for each in suites.split(",") if (name := each.strip())]
    if not version and not wanted:
        return TlsProfile()
    if version in _RULED_OUT:
        raise ValueError(
            f'invalid minVersion "{version}": TLS 1.0 and 1.1 are not supported, use VersionTLS12 '
            "or VersionTLS13"
        )
    least = _VERSIONS.get(version or "VersionTLS12")
    if least is None:
        raise ValueError(f'invalid minVersion "{version}": unknown tls version "{version}"')
    if least is ssl.TLSVersion.TLSv1_3 and wanted:
        raise ValueError(
            "cipherSuites may not be specified when minVersion is VersionTLS13: its suites cannot "
            "be chosen"
        )
    return TlsProfile(least=least, suites=_suites(wanted))


def _suites(wanted: list[str]) -> tuple[str, ...]:
    valid = sorted({*SUITES, *SUITES_OF_13})
    for name in wanted:
        if name not in valid:
            raise ValueError(
                f"invalid cipherSuites: Cipher suite {name} not supported or doesn't exist; "
                f"valid names: [{' '.join(valid)}]"
            )
    return tuple(SUITES[name] for name in wanted if name in SUITES)


DEFAULT_PROFILE: Final = TlsProfile()
