"""`bursar webhook`: the options of the process that answers admission reviews."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from bursar.adapters.admission.leader_client import LeaderClientSettings
from bursar.adapters.admission.routes import BODY_BYTES_MAX
from bursar.adapters.serving.tls.profile import TlsProfile
from bursar.app.admission.pods import Installation, WhenUnreachable
from bursar.app.names import CONTROLLER, SERVICE_ACCOUNT_FOLDER
from bursar.cli.errors.exit_codes import OK
from bursar.cli.options import duration, one_of, path, shown
from bursar.cli.peerpods.options import (
    catalogue_options,
    settings_from,
    sizing_options,
    types_from,
)
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
from bursar.core.peerpods.names import VM_RESOURCE
from bursar.core.peerpods.settings import Mode, PeerPodSettings

TARGET_CLASSES: Final = "TARGET_RUNTIMECLASS"
TARGET_RESOURCE: Final = "POD_VM_EXTENDED_RESOURCE"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookProcess:
    """The settings of a webhook process."""

    cluster: ClusterChoice
    bind: tuple[str, int]
    metrics_auth: MetricsAuth
    client_ca: str
    """File with the CAs of client certificates. Empty: reviews are answered to any caller."""
    client_names: tuple[str, ...]
    """Names that client certificates may have. Empty: any name."""
    tls_source: TlsSource
    installation: Installation
    when_unreachable: WhenUnreachable
    body_bytes_max: int
    leader: LeaderClientSettings
    trusts_secret: bool
    """The leader's certificate is signed by the CAs of the Secret of `tls_source`."""
    peer_pods: PeerPodSettings
    tls: TlsProfile
    shutdown_delay_s: float
    """How long the process accepts connections after SIGTERM."""
    log: LogSettings
    traces: TraceSettings | None = None
    """Where traces are sent. None: there are none."""


@click.command(short_help="Gate new pods, rewrite peer pods and check quotas for an API server.")
@serving_options("Folder with tls.crt and tls.key; reloaded when they change.")
@metrics_auth_option
@path(
    "--client-ca",
    "CA certificates (PEM) that sign the API server's client certificate; reloaded when they "
    "change. Default: answer reviews of any caller.",
)
@click.option(
    "--client-name",
    "client_names",
    multiple=True,
    metavar="NAME",
    help="Name that the client certificate must have, as common name or alternative name. "
    "Repeatable. Default: any name.",
)
@namespace_option
@process_cluster_options
@one_of(
    "--resize-when-unreachable when_unreachable",
    WhenUnreachable.DENY,
    "Whether a pod may be resized upwards while no controller can be reached.",
)
@shown(
    "--max-body body_bytes_max",
    BODY_BYTES_MAX,
    "Maximum size of an admission review, in bytes.",
    type=click.IntRange(min=1024),
)
@duration(
    "--shutdown-delay",
    "0s",
    "How long to accept connections after SIGTERM, until no API server makes new ones.",
)
@path(
    "--leader-ca",
    "CA certificates that sign the controller's certificate. Default: ca.crt in --tls-dir, or of "
    "--tls-secret.",
)
@path("--token-file", "Token shown to the controller. Default: the service account's token.")
@one_of(
    "--mode",
    Mode.EFFECTIVE,
    "How the size of a peer pod's VM is computed: as upstream's webhook does, or effective.",
)
@sizing_options
@click.option(
    "--vm-resource",
    envvar=TARGET_RESOURCE,
    help=f"Extended resource that stands for one VM. Default: {VM_RESOURCE}.",
)
@click.option(
    "--keep",
    multiple=True,
    metavar="RESOURCE",
    help="Resource that stays in the pod's requests. Repeatable.",
)
@click.option("--default-mem", is_flag=True, help="Write the annotation default_mem as well.")
@catalogue_options
@trace_options
@log_options
@click.pass_obj
def webhook(  # noqa: PLR0913 - one parameter for each option
    processes: Processes,
    /,
    *,
    bind: str,
    tls_folder: str,
    tls_secret: str,
    metrics_auth: str,
    client_ca: str | None,
    client_names: tuple[str, ...],
    namespace: str | None,
    kubeconfig: str | None,
    context: str,
    when_unreachable: str,
    body_bytes_max: int,
    shutdown_delay: float,
    leader_ca: str | None,
    token_file: str | None,
    **chosen: object,
) -> int:
    """Answer admission reviews over HTTPS, until SIGTERM or Ctrl-C.

    The webhook adds the scheduling gate to new pods, denies its removal by users
    other than the controller, and checks quotas and resizes. It rewrites peer pods
    so that they request a VM, and no CPU or memory of the worker node.
    """
    if client_names and not client_ca:
        raise click.UsageError("--client-name needs --client-ca")
    home = Installation(namespace or own_namespace())
    settings = WebhookProcess(
        cluster=ClusterChoice(kubeconfig, context),
        bind=host_and_port(bind),
        metrics_auth=MetricsAuth(metrics_auth),
        client_ca=client_ca or "",
        client_names=client_names,
        tls_source=tls_source(tls_folder, tls_secret),
        installation=home,
        when_unreachable=WhenUnreachable(when_unreachable),
        body_bytes_max=body_bytes_max,
        leader=LeaderClientSettings(
            namespace=home.namespace,
            token_file=token_file or str(Path(SERVICE_ACCOUNT_FOLDER, "token")),
            authority_file=leader_ca or str(Path(tls_folder, "ca.crt")),
            server_name=f"{CONTROLLER}.{home.namespace}.svc",
        ),
        trusts_secret=bool(tls_secret and not leader_ca),
        peer_pods=peer_pod_settings(chosen),
        tls=tls_from_environment(),
        shutdown_delay_s=shutdown_delay,
        log=log_from(chosen),
        traces=traces_from(chosen),
    )
    processes.webhook(settings)
    return OK


def peer_pod_settings(chosen: Mapping[str, Any]) -> PeerPodSettings:
    """Settings of the rewrite of peer pods.

    An option wins over its environment variable. An empty variable counts as not set.
    """
    named = [each.strip() for each in os.environ.get(TARGET_CLASSES, "").split(",")]
    options = {
        **chosen,
        "runtime_class": chosen["runtime_class"] or tuple(filter(None, named)),
        "vm_resource": chosen["vm_resource"] or VM_RESOURCE,
    }
    types = types_from(options) if options["catalogue"] else ()
    return settings_from(options, Mode(options["mode"]), catalogue=types)
