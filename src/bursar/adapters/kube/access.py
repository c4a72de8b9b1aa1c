"""A cluster and who we are there; and the one that a pod runs in, which tells both itself."""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kube.address import parse_server
from bursar.adapters.kube.config_error import ConfigError
from bursar.adapters.kube.credentials import AccessCredentials, Credentials, TokenFile
from bursar.adapters.kube.proxy import find_proxy
from bursar.adapters.kube.small_file import SmallFileError, read_small
from bursar.adapters.kube.tls import ClusterTls, Pem, TlsSettings
from bursar.app.cluster.ports import Clock

IN_CLUSTER: Final = "in-cluster"
SERVICE_ACCOUNT_FOLDER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True, kw_only=True)
class ClusterAccess:
    """A cluster and who we are there. It prints no secret.

    For each request await `credentials.headers()` first and read `ssl_context` after it:
    then both are of the same moment, and certificates may rotate while we run.
    """

    server: str
    """`https://host:port[/path]`, without a slash at the end."""
    tls: ClusterTls | None = field(repr=False)
    """None for `http://`."""
    tls_server_name: str = ""
    """What the server's certificate must be for, if not for the host of its address."""
    proxy_url: str = field(default="", repr=False)
    namespace: str = "default"
    context: str = ""
    """Which context of the kubeconfig, or `in-cluster`."""
    credentials: Credentials = field(repr=False)

    @property
    def ssl_context(self) -> ssl.SSLContext | None:
        """What to make the next connection with; another one after a certificate changed."""
        return None if self.tls is None else self.tls.context


def load_in_cluster(
    folder: str = SERVICE_ACCOUNT_FOLDER,
    environment: Mapping[str, str] = os.environ,
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> ClusterAccess:
    """As the service account of the pod that we run in. Raises `ConfigError`."""
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        if not environment.get(name):
            raise ConfigError(name, "not set: this process does not run in a pod")
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]
    place = "KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT"
    server = parse_server(
        f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", place
    )
    token = TokenFile(str(Path(folder, "token")), clock=clock)
    read_first(token, str(Path(folder, "token")))
    authority = str(Path(folder, "ca.crt"))
    nothing = Pem(place="")
    settings = TlsSettings(
        authority=Pem(place=authority, path=authority), certificate=nothing, key=nothing
    )
    tls = ClusterTls(settings, clock=clock)
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


def read_first(token: TokenFile, place: str) -> None:
    try:
        token.read()
    except SmallFileError as error:
        raise ConfigError(place, str(error)) from None
