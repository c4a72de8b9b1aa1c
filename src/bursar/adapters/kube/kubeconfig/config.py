"""The access that kubeconfig files describe."""

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Final

from bursar.adapters.client_auth.config_error import ConfigError
from bursar.adapters.client_auth.credentials import (
    AccessCredentials,
    Credentials,
    FixedCredentials,
    TokenFile,
    basic,
    bearer,
    is_sendable,
    read_at_start,
)
from bursar.adapters.client_auth.tls import ClientTls, Pem, TlsSettings
from bursar.adapters.kube.access import ClusterAccess
from bursar.adapters.kube.address import parse_proxy, parse_server
from bursar.adapters.kube.kubeconfig.impersonation import impersonation_headers
from bursar.adapters.kube.kubeconfig.merge import Choice, Located, choose
from bursar.adapters.kube.proxy import find_proxy
from bursar.app.cluster.ports import Clock
from bursar.wire.cluster.kubeconfig import Cluster, Plain, User, decode_data
from bursar.wire.structs.fields import FieldError

ANONYMOUS: Final[Credentials] = FixedCredentials()
_MISSING: Final = "required, but missing"
_NAMESPACE_SHAPE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def load_kubeconfig(
    paths: Sequence[str],
    *,
    context: str = "",
    environment: Mapping[str, str],
    clock: Clock,
) -> ClusterAccess:
    """Follow a context of one or several kubeconfig files; empty means the current one.

    Any of several files may be missing. `environment` is passed to exec plugins, and names a proxy
    if the file does not. Raises `ConfigError`.
    """
    choice = choose(paths, context)
    cluster = choice.cluster
    server = _server(cluster)
    stated = cluster.entry.proxy_url
    proxy = (
        parse_proxy(stated, cluster.place("proxy-url"))
        if stated
        else find_proxy(environment, server)
    )
    impersonation = impersonation_headers(choice.user)
    if not server.startswith("https://"):
        # As in client-go: credentials are sent only to a server that TLS has authenticated.
        tls, inner = None, ANONYMOUS
    else:
        tls, inner = _identity(choice, server, environment, clock)
    return ClusterAccess(
        server=server,
        tls=tls,
        tls_server_name=cluster.entry.tls_server_name or "",
        proxy_url=proxy,
        namespace=_namespace(choice),
        context=choice.name,
        credentials=AccessCredentials(inner, added=impersonation, tls=tls),
    )


def _namespace(choice: Choice) -> str:
    name = choice.context.entry.namespace
    if name and not _NAMESPACE_SHAPE.fullmatch(name):
        raise ConfigError(choice.context.place("namespace"), "not a name that a namespace can have")
    return name or "default"


# ------------------------------------------------------------------ the cluster


def _server(cluster: Located[Cluster]) -> str:
    place = cluster.place("server")
    if not cluster.entry.server:
        raise ConfigError(place, _MISSING)
    return parse_server(cluster.entry.server, place)


def _authority(cluster: Located[Cluster]) -> Pem:
    return _pem(
        cluster,
        "certificate-authority",
        cluster.entry.certificate_authority_data,
        cluster.entry.certificate_authority,
    )


def _pem(
    entry: Located[Cluster] | Located[User], key: str, data: str | None, path: str | None
) -> Pem:
    """The `-data` field and the path field of one setting; the data wins, as the format says."""
    if not data:
        return Pem(place=entry.place(key), path=entry.path(path))
    place = entry.place(f"{key}-data")
    try:
        return Pem(place=place, data=decode_data(data, ""))
    except FieldError as error:
        raise ConfigError(place, error.problem) from None


# ------------------------------------------------------------------ the user


def _identity(
    choice: Choice, server: str, environment: Mapping[str, str], clock: Clock
) -> tuple[ClientTls, Credentials]:
    cluster, user = choice.cluster, choice.user or Located(User(), "", "")
    settings = _tls_settings(cluster, user)
    if user.entry.auth_provider is not None:
        problem = "removed from Kubernetes; use an exec plugin instead"
        raise ConfigError(user.place("auth-provider"), problem)
    given = None
    if user.entry.exec is not None:
        # Imported here, because most users have no exec plugin.
        from bursar.adapters.kube.kubeconfig.exec_user import exec_credentials  # noqa: PLC0415

        about = (
            _about_cluster(choice, server, settings)
            if user.entry.exec.provide_cluster_info
            else None
        )
        given = exec_credentials(user, user.entry.exec, about, environment, clock)
    credentials = _fixed(user, clock)
    if credentials is None and given is not None and not settings.certificate.is_given:
        return ClientTls(settings, clock=clock, source=given.client_certificate), given
    return ClientTls(settings, clock=clock), credentials or ANONYMOUS


def _tls_settings(cluster: Located[Cluster], user: Located[User]) -> TlsSettings:
    entry = user.entry
    settings = TlsSettings(
        authority=_authority(cluster),
        certificate=_pem(
            user, "client-certificate", entry.client_certificate_data, entry.client_certificate
        ),
        key=_pem(user, "client-key", entry.client_key_data, entry.client_key),
        is_insecure=bool(cluster.entry.insecure_skip_tls_verify),
    )
    if settings.is_insecure and settings.authority.is_given:
        problem = "contradicts certificate-authority: either verify the server or do not"
        raise ConfigError(cluster.place("insecure-skip-tls-verify"), problem)
    if settings.certificate.is_given and not settings.key.is_given:
        raise ConfigError(user.place("client-key"), "required beside client-certificate")
    return settings


def _fixed(user: Located[User], clock: Clock) -> Credentials | None:
    """Token, token file, or user name and password. Each of them wins over an exec plugin."""
    entry = user.entry
    if (entry.token or entry.token_file) and (entry.username or entry.password):
        raise ConfigError(user.place("username"), "either a token or a name with a password")
    for key, text in (("token", entry.token), ("username", entry.username)):
        if not is_sendable(text or ""):
            raise ConfigError(user.place(key), "cannot be sent: it has control characters")
    if entry.token_file:
        file = TokenFile(user.path(entry.token_file), clock=clock, token=entry.token or "")
        return file if entry.token else read_at_start(file, user.place("tokenFile"))
    if entry.token:
        return FixedCredentials(bearer(entry.token))
    if entry.username or entry.password:
        return FixedCredentials(basic(entry.username or "", entry.password or ""))
    return None


def _about_cluster(choice: Choice, server: str, settings: TlsSettings) -> Mapping[str, Plain]:
    """`spec.cluster` of the ExecCredential that is passed to an exec plugin."""
    entry = choice.cluster.entry
    authority = settings.authority.read()
    told: dict[str, Plain] = {
        "tls-server-name": entry.tls_server_name,
        "insecure-skip-tls-verify": entry.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(authority).decode(),
        "proxy-url": entry.proxy_url,
        "disable-compression": entry.disable_compression,
    }
    given: dict[str, Plain] = {key: value for key, value in told.items() if value}
    return {"server": server, **given, "config": choice.exec_extension}
