"""Authentication between this process and a kubelet.

By default the kubelet's certificate must be signed by the cluster's CA, and this process
authenticates as it does to the API server. A token is sent only to a kubelet whose certificate was
verified, unless verification is switched off explicitly. The read-only port is plain HTTP and
receives no credentials.
"""

import ssl
from dataclasses import dataclass, field
from typing import Final, Protocol

from bursar.adapters.client_auth.config_error import ConfigError
from bursar.adapters.client_auth.credentials import (
    AccessCredentials,
    Credentials,
    FixedCredentials,
    TokenFile,
    read_at_start,
)
from bursar.adapters.client_auth.tls import NOT_GIVEN, ClientTls, Pem, TlsSettings
from bursar.app.cluster.ports import Clock

_CERTIFICATE: Final = "--kubelet-client-cert"
_KEY: Final = "--kubelet-client-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletTrust:
    """Settings for TLS and credentials. An empty setting means: as for the API server."""

    authority_file: str = ""
    """CA certificates (PEM) that sign the kubelet's certificate."""
    server_name: str = ""
    """Name that the kubelet's certificate must have. Default: its address."""
    token_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    is_insecure: bool = False
    """Accept any certificate, and send the token to any server."""


class ClusterIdentity(Protocol):
    """How this process authenticates to the API server."""

    @property
    def tls(self) -> ClientTls | None: ...
    @property
    def credentials(self) -> Credentials: ...


@dataclass(frozen=True, kw_only=True)
class KubeletAccess:
    """For each request await `credentials.headers()` first and read `ssl_context` after it."""

    tls: ClientTls | None = field(repr=False)
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
"""The read-only port: plain HTTP without authentication."""


def kubelet_access(
    trust: KubeletTrust, *, cluster: ClusterIdentity | None, clock: Clock
) -> KubeletAccess:
    """The access to a kubelet; `cluster` supplies the defaults. Raises `ConfigError`."""
    if trust.is_insecure and trust.authority_file:
        raise ConfigError(
            "--kubelet-ca, --kubelet-insecure",
            "contradict each other: either verify the certificate or do not",
        )
    if bool(trust.certificate_file) != bool(trust.key_file):
        raise ConfigError(f"{_CERTIFICATE}, {_KEY}", "certificate and key go together")
    tls = _tls(trust, None if cluster is None else cluster.tls, clock)
    return KubeletAccess(
        tls=tls,
        credentials=AccessCredentials(_credentials(trust, cluster, clock), tls=tls),
        tls_server_name=trust.server_name,
    )


def _tls(trust: KubeletTrust, known: ClientTls | None, clock: Clock) -> ClientTls:
    if trust.authority_file:
        authority = Pem(place=f"--kubelet-ca {trust.authority_file}", path=trust.authority_file)
    elif trust.is_insecure or known is None:
        authority = NOT_GIVEN
    else:
        authority = known.authority
    if known is not None and not (trust.certificate_file or trust.token_file):
        return known.with_authority(authority, is_insecure=trust.is_insecure)
    settings = TlsSettings(
        authority=authority,
        certificate=Pem(place=_CERTIFICATE, path=trust.certificate_file),
        key=Pem(place=_KEY, path=trust.key_file),
        is_insecure=trust.is_insecure,
    )
    return ClientTls(settings, clock=clock)


def _credentials(trust: KubeletTrust, cluster: ClusterIdentity | None, clock: Clock) -> Credentials:
    if trust.token_file:
        return read_at_start(TokenFile(trust.token_file, clock=clock), trust.token_file)
    if trust.certificate_file or cluster is None:
        # A configured client certificate replaces the cluster's token.
        return FixedCredentials()
    return cluster.credentials
