"""Options that several processes share: the cluster they work for and the address they bind."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import click
from click.core import ParameterSource

TLS_FOLDER: Final = "/etc/bursar/tls"
BIND: Final = "0.0.0.0:8443"


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    """Which cluster a process works for. Neither is given in a pod: then it is the pod's own."""

    kubeconfig: str | None = None
    context: str = ""

    @property
    def is_named(self) -> bool:
        return self.kubeconfig is not None or bool(self.context)


def process_cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--kubeconfig` and `--context`; the command receives a `str | None` and a `str`."""
    command = click.option(
        "--context",
        default="",
        metavar="NAME",
        help="Context of the kubeconfig to use. Default: its current context.",
    )(command)
    return click.option(
        "--kubeconfig",
        type=click.Path(),
        help="Kubeconfig of the cluster to work for. Default: the pod's service account.",
    )(command)


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
    """Those of the named parameters that were given, as the option a person typed."""
    context = click.get_current_context()
    options = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    return tuple(
        options[name]
        for name in names
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT
    )
