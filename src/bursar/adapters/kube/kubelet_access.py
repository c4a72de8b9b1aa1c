"""How to reach a kubelet, and who we are there.

Unless something else is given, it is the cluster's own authority that has to vouch for
kubelet, and we are to it who we are to the API server. A token goes only to a server whose
certificate was checked, or whose checking somebody has switched off by name; to the read-only
port, which is plain HTTP, nothing goes at all.
"""

import ssl
from dataclasses import dataclass, field
from typing import Final

from bursar.adapters.kube.access import ClusterAccess
from bursar.adapters.kube.config_error import ConfigError
from bursar.adapters.kube.credentials import (
    AccessCredentials,
    Credentials,
    FixedCredentials,
    TokenFile,
)
from bursar.adapters.kube.small_file import SmallFileError
from bursar.adapters.kube.tls import ClusterTls, Pem, TlsSettings
from bursar.app.cluster.ports import Clock

_CERTIFICATE: Final = "--kubelet-client-cert"
_KEY: Final = "--kubelet-client-key"
_NOTHING: Final = Pem(place="")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletTrust:
    """What was said about kubelet's certificate and about ours. Empty means: as for the cluster."""

    authority_file: str = ""
    """Who vouches for kubelet's certificate."""
    server_name: str = ""
    """What kubelet's certificate must be for, if not for its address."""
    token_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    is_insecure: bool = False
    """Take any certificate, and send our token to whoever shows it."""


@dataclass(frozen=True, kw_only=True)
class KubeletAccess:
    """For each request await `credentials.headers()` first and read `ssl_context` after it."""

    tls: ClusterTls | None = field(repr=False)
    """None for plain HTTP."""
    credentials: Credentials = field(repr=False)
    tls_server_name: str = ""

    @property
    def scheme(self) -> str:
        return "http" if self.tls is None else "https"

    @property
    def ssl_context(self) -> ssl.SSLContext | None:
        return None if self.tls is None else self.tls.context


READ_ONLY: Final = KubeletAccess(tls=None, credentials=FixedCredentials())
"""The read-only port: nobody proves anything to anybody."""


def kubelet_access(
    trust: KubeletTrust, *, cluster: ClusterAccess | None, clock: Clock
) -> KubeletAccess:
    """Raises `ConfigError`."""
    if trust.is_insecure and trust.authority_file:
        raise ConfigError("--kubelet-ca, --kubelet-insecure", "either it is checked or it is not")
    if bool(trust.certificate_file) != bool(trust.key_file):
        raise ConfigError(f"{_CERTIFICATE}, {_KEY}", "certificate and key go together")
    tls = _tls(trust, None if cluster is None else cluster.tls, clock)
    return KubeletAccess(
        tls=tls,
        credentials=AccessCredentials(_credentials(trust, cluster, clock), tls=tls),
        tls_server_name=trust.server_name,
    )


def _tls(trust: KubeletTrust, known: ClusterTls | None, clock: Clock) -> ClusterTls:
    if trust.authority_file:
        authority = Pem(place=f"--kubelet-ca {trust.authority_file}", path=trust.authority_file)
    elif trust.is_insecure or known is None:
        authority = _NOTHING
    else:
        authority = known.authority
    if known is not None and not (trust.certificate_file or trust.token_file):
        return known.trusting(authority, is_insecure=trust.is_insecure)
    settings = TlsSettings(
        authority=authority,
        certificate=Pem(place=_CERTIFICATE, path=trust.certificate_file),
        key=Pem(place=_KEY, path=trust.key_file),
        is_insecure=trust.is_insecure,
    )
    return ClusterTls(settings, clock=clock)


def _credentials(trust: KubeletTrust, cluster: ClusterAccess | None, clock: Clock) -> Credentials:
    if trust.token_file:
        token = TokenFile(trust.token_file, clock=clock)
        try:
            token.read()
        except SmallFileError as error:
            raise ConfigError(trust.token_file, str(error)) from None
        return token
    if trust.certificate_file or cluster is None:
        # Whoever names a certificate wants to be known by it, and not by a token beside it.
        return FixedCredentials()
    return cluster.credentials
