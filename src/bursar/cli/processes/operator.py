"""`bursar operator`: the options of the process that installs Bursar by an AAQ object."""

from dataclasses import dataclass
from typing import Any

import click

from bursar.adapters.serving.tls.profile import TlsProfile
from bursar.app.install.documents import Document, require_image
from bursar.app.install.workloads import REPLICAS
from bursar.app.operator.manifests import PROBE_PORT, split_definitions
from bursar.app.quota.managed.applied_usage import AppliedUsage
from bursar.cli.errors.exit_codes import OK
from bursar.cli.install.packaged_definitions import packaged_definitions
from bursar.cli.install.workload_arguments import IMAGE
from bursar.cli.options import one_of, shown
from bursar.cli.processes.installation import own_namespace
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
from bursar.cli.processes.telemetry.trace_options import TraceSettings, trace_options, traces_from


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorProcess:
    """The settings of an operator process."""

    cluster: ClusterChoice
    namespace: str
    """Namespace of the operator and of the installation."""
    image: str
    replicas: int
    applied_quotas: AppliedUsage
    """For AAQ objects that have no annotation about it."""
    definitions: tuple[Document, ...]
    """The CustomResourceDefinitions that the operator applies."""
    bind: tuple[str, int]
    """Where metrics are served."""
    probes: tuple[str, int]
    metrics_auth: MetricsAuth
    tls_source: TlsSource
    """Where tls.crt and tls.key are. Neither given: serve no metrics."""
    tls: TlsProfile
    log: LogSettings
    traces: TraceSettings | None = None
    """Where traces are sent. None: there are none."""


@click.command(short_help="Install Bursar as an AAQ object says, and keep it so.")
@serving_options("Folder with tls.crt and tls.key. Empty: serve no metrics.")
@shown("--probes", f"0.0.0.0:{PROBE_PORT}", "Address and port of /healthz and /readyz, by HTTP.")
@metrics_auth_option
@namespace_option
@process_cluster_options
@shown("--image", IMAGE, "Image of controller and webhook.")
@shown(
    "--replicas",
    REPLICAS,
    "Replicas of controller and webhook.",
    type=click.IntRange(min=1),
)
@one_of(
    "--applied-quotas",
    AppliedUsage.OWN,
    "Usage that the copy of a cluster quota shows, unless the AAQ object has an annotation: of its "
    "own namespace, or of all of them.",
)
@trace_options
@log_options
@click.pass_obj
def operator(  # noqa: PLR0913 - one parameter for each option
    processes: Processes,
    /,
    *,
    bind: str,
    tls_folder: str,
    tls_secret: str,
    probes: str,
    metrics_auth: str,
    namespace: str | None,
    kubeconfig: str | None,
    context: str,
    image: str,
    replicas: int,
    applied_quotas: str,
    **others: Any,  # noqa: ANN401 - the options of the log
) -> int:
    """Keep an installation of Bursar, until SIGTERM or Ctrl-C.

    One replica leads. It applies the objects that the AAQ object of the cluster
    describes, repairs them, and reports in the status of the AAQ object. If
    the AAQ object is deleted, it releases all waiting pods and removes the
    installation, except the quotas.
    """
    try:
        require_image(image)
    except ValueError as error:
        raise click.UsageError(f"--image: {error}") from None
    _, definitions = split_definitions(packaged_definitions())
    processes.operator(
        OperatorProcess(
            cluster=ClusterChoice(kubeconfig, context),
            namespace=namespace or own_namespace(),
            image=image,
            replicas=replicas,
            applied_quotas=AppliedUsage(applied_quotas),
            definitions=definitions,
            bind=host_and_port(bind),
            probes=host_and_port(probes),
            metrics_auth=MetricsAuth(metrics_auth),
            tls_source=tls_source(tls_folder, tls_secret),
            tls=tls_from_environment(),
            log=log_from(others),
            traces=traces_from(others),
        )
    )
    return OK
