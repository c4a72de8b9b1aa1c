"""Options that several processes share: the cluster they work for and the address they bind."""

import os
from dataclasses import dataclass
from enum import Enum
from typing import Final

import click
from click.core import ParameterSource

from bursar.cli import options

TLS_FOLDER: Final = "/etc/bursar/tls"
BIND: Final = "0.0.0.0:8443"


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    """Which cluster a process works for. If both are empty in a pod, it is the pod's cluster."""

    kubeconfig: str | None = None
    context: str = ""

    @property
    def is_named(self) -> bool:
        return self.kubeconfig is not None or bool(self.context)


process_cluster_options: Final = options.cluster(
    "Kubeconfig of the cluster to work for. Default: the pod's service account."
)
namespace_option: Final = click.option(
    "--namespace",
    metavar="NAME",
    help="Namespace of this installation. Default: the pod's namespace, or aaq.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSource:
    """Where the serving certificate comes from: a Secret, or a folder. Both may be empty."""

    secret: str = ""
    """Name of a Secret of type kubernetes.io/tls in the namespace of this installation."""
    folder: str = ""

    @property
    def is_given(self) -> bool:
        return bool(self.secret or self.folder)


class MetricsAuth(Enum):
    """Which callers may read `/metrics`."""

    KUBERNETES = "kubernetes"
    NONE = "none"


metrics_auth_option: Final = options.one_of(
    "--metrics-auth",
    MetricsAuth.KUBERNETES,
    "kubernetes: /metrics is for users whose token the API server accepts and whom RBAC allows to "
    "get /metrics; none: for any caller.",
)


def serving_options(tls_help: str) -> options.Option:
    """`--bind`, `--tls-dir`, `--tls-secret`; as `bind`, `tls_folder` and `tls_secret`."""
    return options.together(
        options.shown("--bind", BIND, "Address and port to listen on."),
        options.shown("--tls-dir tls_folder", TLS_FOLDER, tls_help, type=click.Path()),
        click.option(
            "--tls-secret",
            metavar="NAME",
            default="",
            help="Secret with tls.crt, tls.key and ca.crt, instead of --tls-dir; watched at "
            "the API server and used as soon as it changes.",
        ),
    )


def tls_source(folder: str, secret: str) -> TlsSource:
    """The value of `--tls-dir` or `--tls-secret`. Raises `click.UsageError` for both."""
    if not secret:
        return TlsSource(folder=folder)
    if folder and given_options("tls_folder"):
        raise click.UsageError("--tls-dir and --tls-secret exclude each other")
    return TlsSource(secret=secret)


def host_and_port(bind: str) -> tuple[str, int]:
    """Split the value of `--bind`. Raises `click.UsageError`."""
    host, _, port = bind.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise click.UsageError(f"--bind: host:port is expected, not {bind}")
    return host.strip("[]"), int(port)


def advertised_url(named: str | None, port: int) -> str:
    """URL where other processes reach this one: the given one, else that of the pod's address.

    Empty where neither is known.
    """
    address = os.environ.get("POD_IP", "")
    if named or not address:
        return named or ""
    shown = f"[{address}]" if ":" in address else address
    return f"https://{shown}:{port}"


def given_options(*names: str) -> tuple[str, ...]:
    """The options among these parameters that the user gave, as option names."""
    context = click.get_current_context()
    typed = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    return tuple(
        typed[name]
        for name in names
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT
    )
