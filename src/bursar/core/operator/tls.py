"""AAQ's TLS profiles in the words of Bursar's processes: an oldest version and cipher suites.

AAQ names cipher suites as OpenSSL does, the processes take Go's names. What the processes cannot
do is returned as a sentence, so that it can be reported.
"""

from dataclasses import dataclass
from typing import Final

OLDEST: Final = "VersionTLS12"
MODERN: Final = "VersionTLS13"
_TOO_OLD: Final = ("VersionTLS10", "VersionTLS11")
GO_NAMES: Final = {
    "ECDHE-ECDSA-AES128-GCM-SHA256": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305": "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "ECDHE-RSA-CHACHA20-POLY1305": "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "ECDHE-ECDSA-AES128-SHA256": "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "ECDHE-RSA-AES128-SHA256": "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "ECDHE-ECDSA-AES128-SHA": "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "ECDHE-RSA-AES128-SHA": "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "ECDHE-ECDSA-AES256-SHA": "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "ECDHE-RSA-AES256-SHA": "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "AES128-GCM-SHA256": "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "AES256-GCM-SHA384": "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "AES128-SHA256": "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "AES128-SHA": "TLS_RSA_WITH_AES_128_CBC_SHA",
    "AES256-SHA": "TLS_RSA_WITH_AES_256_CBC_SHA",
}
"""OpenSSL's names of suites for TLS 1.2 that the processes know, with Go's."""
_OF_13: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
"""Always on with TLS 1.3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSecurityProfile:
    """`spec.tlsSecurityProfile`. Version and ciphers are set for the profile `Custom` only."""

    type: str
    version: str = ""
    ciphers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsChoice:
    """TLS settings that the processes are started with. An empty field keeps the default."""

    version: str = ""
    suites: tuple[str, ...] = ()
    """Go's names."""
    ignored: tuple[str, ...] = ()
    """Parts of the profile that the processes cannot apply, one sentence each."""


DEFAULT_TLS: Final = TlsChoice()


def tls_choice(profile: TlsSecurityProfile | None) -> TlsChoice:
    """The settings of the processes for a profile.

    The defaults of the processes are those of `Intermediate`: TLS 1.2 or newer, with forward
    secrecy.
    """
    if profile is None or profile.type == "Intermediate":
        return DEFAULT_TLS
    if profile.type == "Modern":
        return TlsChoice(version=MODERN)
    if profile.type == "Old":
        return TlsChoice(ignored=(_too_old("VersionTLS10"),))
    return _custom(profile)


def _custom(profile: TlsSecurityProfile) -> TlsChoice:
    ignored = []
    version = profile.version or OLDEST
    if version in _TOO_OLD:
        ignored.append(_too_old(version))
        version = OLDEST
    if version == MODERN:
        # The suites of TLS 1.3 cannot be chosen.
        return TlsChoice(version=MODERN, ignored=tuple(ignored))
    wanted = [name for name in profile.ciphers if name not in _OF_13]
    unknown = [name for name in wanted if name not in GO_NAMES]
    if unknown:
        ignored.append(
            f"spec.tlsSecurityProfile.custom.ciphers: not supported: {', '.join(unknown)}"
        )
    suites = tuple(GO_NAMES[name] for name in wanted if name in GO_NAMES)
    return TlsChoice(version=version, suites=suites, ignored=tuple(ignored))


def _too_old(version: str) -> str:
    return f"spec.tlsSecurityProfile: {version} is not supported; TLS 1.2 is the oldest version"
