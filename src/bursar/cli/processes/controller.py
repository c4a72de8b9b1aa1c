"""`bursar controller`: the options of the process that keeps the books and lifts gates."""

from dataclasses import dataclass
from typing import Any

import click

from bursar.adapters.serving.tls.profile import TlsProfile
from bursar.app.capacity.sources import CapacityPlaces
from bursar.app.certificates.keeper import KeeperSettings
from bursar.app.cluster.election.timing import Timing
from bursar.app.controller.defaults import WAITING_PODS_MAX
from bursar.app.counting.settings import CountingSettings
from bursar.app.quota.departed_quotas import GRACE_SECONDS
from bursar.app.quota.growth.resize import REQUEST_SECONDS
from bursar.app.quota.managed.applied_usage import AppliedUsage
from bursar.app.quota.sources import EVERY_KIND
from bursar.cli.capacity.options import places_from, preset_options
from bursar.cli.errors.exit_codes import OK
from bursar.cli.options import duration, flag, one_of, shown
from bursar.cli.processes.installation import own_namespace
from bursar.cli.processes.options.certificate import (
    DEPENDENT,
    certificate_options,
    keeper_from,
)
from bursar.cli.processes.options.counting import counting_from, counting_options
from bursar.cli.processes.options.election import election_options, timing_from
from bursar.cli.processes.options.process import (
    ClusterChoice,
    MetricsAuth,
    TlsSource,
    advertised_url,
    given_options,
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
from bursar.cli.selectors import selector_from
from bursar.core.quota.books import PATIENCE_SECONDS
from bursar.core.quota.quota import QuotaKind
from bursar.core.quota.targeting import DEFAULT_SELECTOR, Targeting


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerProcess:
    """The settings of a controller process."""

    cluster: ClusterChoice
    namespace: str
    """Namespace of this installation."""
    bind: tuple[str, int]
    metrics_auth: MetricsAuth
    tls_source: TlsSource
    """Where tls.crt and tls.key are. Neither given: do not listen."""
    tls: TlsProfile
    certificates: KeeperSettings | None
    """The certificates that the leader keeps. None: it leaves them alone."""
    address: str
    """URL that is published on the Lease. Empty: other processes cannot ask this one."""
    targeting: Targeting
    kinds: tuple[QuotaKind, ...]
    places: CapacityPlaces | None
    """Where capacity is declared. None: leave the capacity of nodes alone."""
    counting: CountingSettings
    timing: Timing
    patience_s: int
    quota_grace_s: float
    """How long a deleted quota stays in force."""
    request_seconds: float
    """The API server's `--request-timeout`."""
    waiting_pods_max: int
    """Pods of one namespace that may wait; 0 for any number."""
    applied_quotas: AppliedUsage
    """Of which namespaces the copies of cluster-wide quotas show the usage."""
    log: LogSettings
    traces: TraceSettings | None = None
    """Where traces are sent. None: there are none."""
    ignored: tuple[str, ...] = ()
    """Options that were given and have no effect."""


@click.command(short_help="Keep the books of a cluster and release pods as quotas have room.")
@serving_options(
    "Folder with tls.crt and tls.key; reloaded when they change. Empty: do not listen."
)
@metrics_auth_option
@certificate_options
@click.option(
    "--advertise",
    metavar="URL",
    help="URL where the webhook reaches this process. Default: https://$POD_IP and the port.",
)
@namespace_option
@process_cluster_options
@shown(
    "--namespace-selector",
    str(DEFAULT_SELECTOR),
    "Labels of the namespaces whose pods are gated; empty: all namespaces.",
)
@flag(
    "--without-cluster-quota",
    "Do not read or write cluster quotas. For clusters without their CRDs.",
)
@one_of(
    "--applied-quotas",
    AppliedUsage.OWN,
    "Usage that the copy of a cluster quota shows: of its own namespace, or of all of them.",
)
@flag("--keep-capacity", "Keep the declared capacity of extended resources on nodes.")
@preset_options
@duration(
    "--patience",
    f"{PATIENCE_SECONDS}s",
    "How long later pods may be released ahead of a pod that does not fit.",
)
@shown(
    "--waiting-pods-max",
    WAITING_PODS_MAX,
    "Pods of one namespace that may wait; further ones are refused. 0: any number.",
    type=click.IntRange(min=0),
)
@duration(
    "--quota-grace",
    f"{GRACE_SECONDS:g}s",
    "How long a deleted quota stays in force, in case it is created again.",
)
@election_options
@duration(
    "--api-request-timeout",
    f"{REQUEST_SECONDS:g}s",
    "The API server's --request-timeout: how long an admitted resize can take to be stored.",
)
@counting_options
@trace_options
@log_options
@click.pass_obj
def controller(  # noqa: PLR0913 - one parameter for each option
    processes: Processes,
    /,
    *,
    bind: str,
    tls_folder: str,
    tls_secret: str,
    metrics_auth: str,
    advertise: str | None,
    namespace: str | None,
    kubeconfig: str | None,
    context: str,
    namespace_selector: str,
    without_cluster_quota: bool,
    applied_quotas: str,
    keep_capacity: bool,
    peerpods_namespace: str,
    peerpods_nodes: str,
    patience: float,
    quota_grace: float,
    waiting_pods_max: int,
    api_request_timeout: float,
    **others: Any,  # noqa: ANN401 - the options of several decorators
) -> int:
    """Keep the books of a cluster until SIGTERM or Ctrl-C.

    One replica leads, elected by the Lease of AAQ's own controller. The leader
    removes the gate of waiting pods as quotas have room, and writes the status
    of quotas.
    """
    home = namespace or own_namespace()
    address, source = host_and_port(bind), tls_source(tls_folder, tls_secret)
    places = places_from(home, preset_namespace=peerpods_namespace, preset_nodes=peerpods_nodes)
    processes.controller(
        ControllerProcess(
            cluster=ClusterChoice(kubeconfig, context),
            namespace=home,
            bind=address,
            metrics_auth=MetricsAuth(metrics_auth),
            tls_source=source,
            tls=tls_from_environment(),
            certificates=keeper_from(others, home, source),
            address=advertised_url(advertise, address[1]) if source.is_given else "",
            targeting=Targeting(
                own_namespace=home,
                selector=selector_from(namespace_selector, "--namespace-selector"),
            ),
            places=places if keep_capacity else None,
            kinds=(QuotaKind.NAMESPACED,) if without_cluster_quota else EVERY_KIND,
            counting=counting_from(others),
            timing=timing_from(others),
            patience_s=int(patience),
            quota_grace_s=quota_grace,
            request_seconds=api_request_timeout,
            waiting_pods_max=waiting_pods_max,
            applied_quotas=AppliedUsage(applied_quotas),
            log=log_from(others),
            traces=traces_from(others),
            ignored=_ignored(
                has_tls=source.is_given,
                keeps_capacity=keep_capacity,
                keeps_certificates=others["keep_certificates"],
            ),
        )
    )
    return OK


def _ignored(*, has_tls: bool, keeps_capacity: bool, keeps_certificates: bool) -> tuple[str, ...]:
    without_tls = () if has_tls else ("bind", "advertise", "metrics_auth")
    without_capacity = () if keeps_capacity else ("peerpods_namespace", "peerpods_nodes")
    without_certificates = () if keeps_certificates else DEPENDENT
    return given_options(*without_tls, *without_capacity, *without_certificates)
