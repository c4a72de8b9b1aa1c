"""`bursar extender`: the options of the scheduler extender."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from bursar.adapters.extender.routes import BODY_BYTES_MAX
from bursar.adapters.serving.tls.profile import TlsProfile
from bursar.app.cluster.election.timing import Timing
from bursar.cli.errors.exit_codes import OK
from bursar.cli.options import duration, flag, path, shown
from bursar.cli.processes.installation import own_namespace
from bursar.cli.processes.options.election import election_options, timing_from
from bursar.cli.processes.options.process import (
    ClusterChoice,
    MetricsAuth,
    TlsSource,
    host_and_port,
    metrics_auth_option,
    namespace_option,
    process_cluster_options,
    serving_options,
    tls_source,
)
from bursar.cli.processes.options.tls import tls_from_environment
from bursar.cli.processes.processes import Processes
from bursar.cli.processes.telemetry.log_options import LogSettings, log_from, log_options
from bursar.core.pools.holds import HOLD_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderProcess:
    """The settings of an extender process."""

    cluster: ClusterChoice
    namespace: str
    bind: tuple[str, int]
    metrics_auth: MetricsAuth
    client_ca: str
    """File with the CAs of client certificates. Empty: any caller is answered."""
    client_names: tuple[str, ...]
    """Names that client certificates may have. Empty: any name."""
    tls_source: TlsSource
    tls: TlsProfile
    timing: Timing
    hold_s: int
    """How long a pod that passed filter holds its part of a pool if no bind follows."""
    address: tuple[str, int] | None
    """The IP address and port that the Service leads to. None: no EndpointSlice is written."""
    body_bytes_max: int
    shutdown_delay_s: float
    log: LogSettings


@click.command(short_help="Limit cluster-level resources, such as licences, for kube-scheduler.")
@serving_options("Folder with tls.crt and tls.key; reloaded when they change.")
@metrics_auth_option
@path(
    "--client-ca",
    "CA certificates (PEM) that sign the scheduler's client certificate; reloaded when they "
    "change. Required, unless --any-client is given.",
)
@click.option(
    "--client-name",
    "client_names",
    multiple=True,
    metavar="NAME",
    help="Name that the client certificate must have, as common name or alternative name. "
    "Repeatable. Default: any name.",
)
@flag("--any-client", "Answer callers without a client certificate. Only for tests.")
@namespace_option
@process_cluster_options
@duration(
    "--hold",
    f"{HOLD_SECONDS}s",
    "How long a pod that passed filter holds its part of a pool if no bind follows.",
)
@shown(
    "--max-body body_bytes_max",
    BODY_BYTES_MAX,
    "Maximum size of a request, in bytes.",
    type=click.IntRange(min=1024),
)
@duration(
    "--shutdown-delay",
    "0s",
    "How long to accept connections after SIGTERM, until the scheduler makes no new ones.",
)
@election_options
@log_options
@click.pass_obj
def extender(  # noqa: PLR0913 - one parameter for each option
    processes: Processes,
    /,
    *,
    bind: str,
    tls_folder: str,
    tls_secret: str,
    metrics_auth: str,
    client_ca: str | None,
    client_names: tuple[str, ...],
    any_client: bool,
    namespace: str | None,
    kubeconfig: str | None,
    context: str,
    hold: float,
    body_bytes_max: int,
    shutdown_delay: float,
    **others: Any,  # noqa: ANN401 - the options of several decorators
) -> int:
    """Answer the scheduler's extender calls, until SIGTERM or Ctrl-C.

    One replica leads, elected by a Lease. It holds a pod's part of a
    ClusterResource at filter, binds the pod, and writes the status of
    ClusterResources. The other replicas answer with an error.
    """
    _require_clients(client_ca, client_names, any_client=any_client)
    address = host_and_port(bind)
    processes.extender(
        ExtenderProcess(
            cluster=ClusterChoice(kubeconfig, context),
            namespace=namespace or own_namespace(),
            bind=address,
            metrics_auth=MetricsAuth(metrics_auth),
            client_ca=client_ca or "",
            client_names=client_names,
            tls_source=tls_source(tls_folder, tls_secret),
            tls=tls_from_environment(),
            timing=timing_from(others),
            hold_s=int(hold),
            address=_own_address(os.environ, address[1]),
            body_bytes_max=body_bytes_max,
            shutdown_delay_s=shutdown_delay,
            log=log_from(others),
        )
    )
    return OK


def _require_clients(
    client_ca: str | None, client_names: tuple[str, ...], *, any_client: bool
) -> None:
    if bool(client_ca) == any_client:
        raise click.UsageError("give --client-ca, or --any-client for tests")
    if client_names and not client_ca:
        raise click.UsageError("--client-name needs --client-ca")


def _own_address(environment: Mapping[str, str], port: int) -> tuple[str, int] | None:
    """The address for the EndpointSlice; None outside of a pod."""
    address = environment.get("POD_IP", "")
    return (address, port) if address else None
