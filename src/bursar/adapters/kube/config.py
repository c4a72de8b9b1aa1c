"""How to reach a cluster and as whom: from kubeconfig files, or from inside a pod."""

import base64
import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kube.access import ClusterAccess, read_first
from bursar.adapters.kube.address import parse_proxy, parse_server
from bursar.adapters.kube.config_error import ConfigError
from bursar.adapters.kube.credentials import (
    AccessCredentials,
    Credentials,
    FixedCredentials,
    Impersonation,
    TokenFile,
    basic,
    bearer,
    is_sendable,
)
from bursar.adapters.kube.exec_plugin import IF_AVAILABLE, MODES, ExecCredentials, Plugin
from bursar.adapters.kube.merge import Choice, Located, choose
from bursar.adapters.kube.proxy import find_proxy
from bursar.adapters.kube.tls import ClusterTls, Pem, TlsSettings
from bursar.app.cluster.ports import Clock
from bursar.wire.cluster.exec_credential import API_VERSIONS
from bursar.wire.cluster.kubeconfig import Cluster, Exec, Plain, User, decode_data
from bursar.wire.structs.fields import FieldError

NOBODY: Final[Credentials] = FixedCredentials()
_MISSING: Final = "required, but missing"
_NAMESPACE_SHAPE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def load_kubeconfig(
    paths: Sequence[str],
    *,
    context: str = "",
    environment: Mapping[str, str] = os.environ,
    clock: Clock = SYSTEM_CLOCK,
) -> ClusterAccess:
    """Follow a context of one or several kubeconfig files, the current one unless named.

    Of several files any may be missing. `environment` is what exec plugins are run in, and
    names a proxy where the file does not. Raises `ConfigError`.
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
    impersonation = _impersonation(choice.user)
    if not server.startswith("https://"):
        # As upstream does: who we are is told only to those whom TLS has shown to be who they are.
        tls, inner = None, NOBODY
    else:
        tls, inner = _identity(choice, server, environment, clock)
    return ClusterAccess(
        server=server,
        tls=tls,
        tls_server_name=cluster.entry.tls_server_name or "",
        proxy_url=proxy,
        namespace=_namespace(choice),
        context=choice.name,
        credentials=AccessCredentials(inner, impersonation=impersonation, tls=tls),
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
    """Text and file of one thing. The text goes before the file, as the format says."""
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
) -> tuple[ClusterTls, Credentials]:
    cluster, user = choice.cluster, choice.user or Located(User(), "", "")
    settings = _tls_settings(cluster, user)
    plugin = None
    if user.entry.auth_provider is not None:
        problem = "removed from Kubernetes; use an exec plugin instead"
        raise ConfigError(user.place("auth-provider"), problem)
    if user.entry.exec is not None:
        about = (
            _about_cluster(choice, server, settings)
            if user.entry.exec.provide_cluster_info
            else None
        )
        plugin = _plugin(user, user.entry.exec, environment, about)
    credentials = _fixed(user, clock)
    if credentials is None and plugin is not None and not settings.certificate.is_given:
        given = ExecCredentials(plugin, clock=clock)
        return ClusterTls(settings, clock=clock, pair_source=given.pair), given
    return ClusterTls(settings, clock=clock), credentials or NOBODY


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
    """Token, token file, or name and password; they go before a plugin."""
    entry = user.entry
    if (entry.token or entry.token_file) and (entry.username or entry.password):
        raise ConfigError(user.place("username"), "either a token or a name with a password")
    for key, text in (("token", entry.token), ("username", entry.username)):
        if not is_sendable(text or ""):
            raise ConfigError(user.place(key), "cannot be sent: it has control characters")
    if entry.token_file:
        file = TokenFile(user.path(entry.token_file), clock=clock, token=entry.token or "")
        if not entry.token:
            read_first(file, user.place("tokenFile"))
        return file
    if entry.token:
        return FixedCredentials(bearer(entry.token))
    if entry.username or entry.password:
        return FixedCredentials(basic(entry.username or "", entry.password or ""))
    return None


def _impersonation(user: Located[User] | None) -> Impersonation | None:
    if user is None:
        return None
    entry = user.entry
    extra = {
        key: [value or "" for value in values or ()]
        for key, values in (entry.impersonate_extra or {}).items()
    }
    groups = [group or "" for group in entry.impersonate_groups or ()]
    if not entry.impersonate:
        if entry.impersonate_uid or groups or extra:
            raise ConfigError(user.place("as"), "required beside as-uid, as-groups, as-user-extra")
        return None
    texts = [entry.impersonate, entry.impersonate_uid or "", *groups]
    if not all(map(is_sendable, [*texts, *(value for each in extra.values() for value in each)])):
        raise ConfigError(user.place("as"), "cannot be sent: it has control characters")
    return Impersonation(
        user=entry.impersonate, uid=entry.impersonate_uid or "", groups=groups, extra=extra
    )


# ------------------------------------------------------------------ exec plugins


def _plugin(
    user: Located[User],
    raw: Exec,
    environment: Mapping[str, str],
    cluster: Mapping[str, Plain] | None,
) -> Plugin:
    if not raw.command:
        raise ConfigError(user.place("exec.command"), _MISSING)
    if raw.api_version not in API_VERSIONS:
        problem = f"{' or '.join(API_VERSIONS)} is expected" if raw.api_version else _MISSING
        raise ConfigError(user.place("exec.apiVersion"), problem)
    variables = {}
    for index, each in enumerate(raw.env or ()):
        if each is None or not each.name:
            raise ConfigError(user.place(f"exec.env[{index}].name"), _MISSING)
        variables[each.name] = each.value or ""
    return Plugin(
        place=f"{user.file}: {user.field}.exec",
        command=user.path(raw.command) if os.sep in raw.command else raw.command,
        arguments=tuple(argument or "" for argument in raw.args or ()),
        environment=environment,
        variables=variables,
        api_version=raw.api_version,
        mode=_mode(user, raw),
        install_hint=raw.install_hint or "",
        cluster=cluster,
    )


def _mode(user: Located[User], raw: Exec) -> str:
    place = user.place("exec.interactiveMode")
    if not raw.interactive_mode:
        if raw.api_version != API_VERSIONS[0]:
            return IF_AVAILABLE
        raise ConfigError(place, _MISSING)
    if raw.interactive_mode not in MODES:
        raise ConfigError(place, f"one of {', '.join(MODES)} is expected")
    return raw.interactive_mode


def _about_cluster(choice: Choice, server: str, settings: TlsSettings) -> Mapping[str, Plain]:
    """What a plugin is told about the cluster, in the words of the ExecCredential."""
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
