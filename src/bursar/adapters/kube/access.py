"""How to reach an API server and as which user; and the access of a pod's service account."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bursar.adapters.client_auth.config_error import ConfigError
from bursar.adapters.client_auth.credentials import (
    AccessCredentials,
    Credentials,
    TokenFile,
    read_at_start,
)
from bursar.adapters.client_auth.small_file import SmallFileError, read_small
from bursar.adapters.client_auth.tls import ClientTls, Pem, TlsSettings
from bursar.adapters.kube.address import parse_server
from bursar.adapters.kube.proxy import find_proxy
from bursar.app.cluster.ports import Clock
from bursar.app.names import SERVICE_ACCOUNT_FOLDER

IN_CLUSTER: Final = "in-cluster"


@dataclass(frozen=True, kw_only=True)
class ClusterAccess:
    """How to reach an API server and as which user. Its `repr` shows no secret.

    For each request await `credentials.headers()` first and read `ssl_context` after it:
    then both come from the same state, and certificates may rotate while the process runs.
    """

    server: str
    """`https://host:port[/path]`, without a slash at the end."""
    tls: ClientTls | None = field(repr=False)
    """None for `http://`."""
    tls_server_name: str = ""
    """Name that the server's certificate must have. Default: the host of `server`."""
    proxy_url: str = field(default="", repr=False)
    namespace: str = "default"
    context: str = ""
    """The context of the kubeconfig, or `in-cluster`."""
    credentials: Credentials = field(repr=False)

    @property
    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS context for the next connection; a new one after a certificate changed."""
        return None if self.tls is None else self.tls.context


def load_in_cluster(
    environment: Mapping[str, str], *, clock: Clock, folder: str = SERVICE_ACCOUNT_FOLDER
) -> ClusterAccess:
    """The access of the service account of the pod this process runs in. Raises `ConfigError`."""
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        if not environment.get(name):
            raise ConfigError(name, "not set: this process does not run in a pod")
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]
    place = "KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT"
    server = parse_server(
        f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", place
    )
    path = str(Path(folder, "token"))
    token = read_at_start(TokenFile(path, clock=clock), path)
    authority = str(Path(folder, "ca.crt"))
    settings = TlsSettings(authority=Pem(place=authority, path=authority))
    tls = ClientTls(settings, clock=clock)
    return ClusterAccess(
        server=server,
        tls=tls,
        proxy_url=find_proxy(environment, server),
        namespace=environment.get("POD_NAMESPACE") or _namespace_in(folder),
        context=IN_CLUSTER,
        credentials=AccessCredentials(token, tls=tls),
    )


def _namespace_in(folder: str) -> str:
    try:
        name = read_small(str(Path(folder, "namespace"))).decode("ascii", "replace").strip()
    except (FileNotFoundError, SmallFileError):
        return "default"
    return name or "default"
