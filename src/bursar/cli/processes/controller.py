"""`bursar controller`: keep the books of a cluster, and lift gates, while we lead."""

import asyncio
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass
from random import SystemRandom
from typing import Final

import click

from bursar.adapters.capacity_sources import CapacityPlaces
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.controller_http.resizes import ResizeRoute, webhook_user
from bursar.adapters.controller_http.routes import controller_routes
from bursar.adapters.kube.access import ClusterAccess
from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kube.token_review import TokenReviewer
from bursar.adapters.kube.transport import Limits
from bursar.adapters.pod_rows import pod_row_decode
from bursar.adapters.quota_sources import EVERY_KIND, term_sources
from bursar.adapters.serving.server import HttpsServer
from bursar.adapters.serving.serving_pair import ServingPair
from bursar.adapters.telemetry.controller_metrics import CONTENT_TYPE, controller_metrics
from bursar.app.cluster.election.timing import DEFAULT_TIMING, Timing
from bursar.app.quota.controller import Controller, ControllerSettings
from bursar.app.quota.resizing import staleness_problem
from bursar.cli.capacity.options import places_from, preset_options, selector_from
from bursar.cli.exit_codes import OK, BadInputError
from bursar.cli.output.durations import Duration
from bursar.cli.processes.process import (
    address_of,
    cluster_access,
    identity_of_process,
    listen,
    own_namespace,
)
from bursar.cli.processes.until_told import until_told
from bursar.core.quota.books import PATIENCE_SECONDS
from bursar.core.quota.quota import QuotaKind
from bursar.core.quota.targeting import DEFAULT_SELECTOR, Targeting

BIND: Final = "0.0.0.0:8443"
TLS_FOLDER: Final = "/etc/bursar/tls"
IN_FLIGHT_MAX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    bind: str
    tls_folder: str
    """Empty to answer nobody."""
    targeting: Targeting
    kinds: tuple[QuotaKind, ...]
    places: CapacityPlaces | None
    controller: ControllerSettings


@click.command(short_help="Keep the books of a cluster, and let pods go as there is room.")
@click.option("--bind", default=BIND, show_default=True, help="Address and port to listen on.")
@click.option(
    "--tls-dir",
    "tls_folder",
    default=TLS_FOLDER,
    show_default=True,
    type=click.Path(),
    help="Folder with tls.crt and tls.key, followed as they change. Empty: do not listen.",
)
@click.option("--advertise", help="URL where others reach us. Default: the pod's address.")
@click.option("--namespace", help="Where Bursar is installed. Default: that of the pod, or aaq.")
@click.option("--kubeconfig", type=click.Path(), help="Default: the service account of the pod.")
@click.option("--context", default="", help="Of the kubeconfig.")
@click.option(
    "--namespace-selector",
    default=str(DEFAULT_SELECTOR),
    show_default=True,
    help="Labels of namespaces where pods are held back; empty for all.",
)
@click.option(
    "--without-cluster-quota",
    is_flag=True,
    help="Leave cluster-wide quotas alone, where their kinds are not installed.",
)
@click.option(
    "--keep-capacity",
    is_flag=True,
    help="Keep the declared capacity of extended resources on nodes.",
)
@preset_options
@click.option(
    "--patience",
    type=Duration(),
    default=f"{PATIENCE_SECONDS}s",
    show_default=True,
    help="How long a pod may be passed by smaller ones.",
)
@click.option(
    "--lease-duration",
    type=Duration(),
    default=f"{DEFAULT_TIMING.lease_seconds}s",
    show_default=True,
    help="How long other replicas wait for a sign of life.",
)
@click.option(
    "--renew-deadline",
    type=Duration(),
    default=f"{DEFAULT_TIMING.deadline_seconds:g}s",
    show_default=True,
    help="When a leader that could not renew stops.",
)
@click.option(
    "--retry-period",
    type=Duration(),
    default=f"{DEFAULT_TIMING.retry_seconds:g}s",
    show_default=True,
    help="Between two tries to renew.",
)
def controller(  # noqa: PLR0913 - one parameter for each option
    *,
    bind: str,
    tls_folder: str,
    advertise: str | None,
    namespace: str | None,
    kubeconfig: str | None,
    context: str,
    namespace_selector: str,
    without_cluster_quota: bool,
    keep_capacity: bool,
    peerpods_namespace: str,
    peerpods_nodes: str,
    patience: float,
    lease_duration: float,
    renew_deadline: float,
    retry_period: float,
) -> int:
    """Keep the books of a cluster until SIGTERM or Ctrl-C.

    One replica leads, by the Lease of AAQ's own controller. It lifts the gate of
    waiting pods as quotas have room, and writes the status of quotas.
    """
    home = namespace or own_namespace()
    settings = Settings(
        bind=bind,
        tls_folder=tls_folder,
        targeting=_targeting(home, namespace_selector),
        places=places_from(home, preset_namespace=peerpods_namespace, preset_nodes=peerpods_nodes)
        if keep_capacity
        else None,
        kinds=(QuotaKind.NAMESPACED,) if without_cluster_quota else EVERY_KIND,
        controller=ControllerSettings(
            namespace=home,
            identity=identity_of_process(),
            timing=_timing(lease_duration, renew_deadline, retry_period),
            patience_s=int(patience),
            address=_advertised(advertise, bind) if tls_folder else "",
        ),
    )
    address_of(bind)
    access = cluster_access(kubeconfig, context)
    asyncio.run(until_told(_work(settings, access)))
    _say("ended")
    return OK


def _timing(lease: float, deadline: float, retry: float) -> Timing:
    if lease != int(lease) or lease < 1:
        raise click.UsageError("--lease-duration: whole seconds are expected")
    try:
        return Timing(lease_seconds=int(lease), deadline_seconds=deadline, retry_seconds=retry)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _targeting(home: str, selector: str) -> Targeting:
    return Targeting(own_namespace=home, selector=selector_from(selector, "--namespace-selector"))


def _advertised(named: str | None, bind: str) -> str:
    if named:
        return named
    address = os.environ.get("POD_IP", "")
    if not address:
        return ""
    shown = f"[{address}]" if ":" in address else address
    return f"https://{shown}:{address_of(bind)[1]}"


def _say(line: str) -> None:
    click.echo(f"bursar controller: {line}", err=True)


async def _work(settings: Settings, access: ClusterAccess) -> None:
    timing, random = settings.controller.timing, SystemRandom()
    # No write may outlast the part of the Lease in which nobody works, or begin after it.
    limits = Limits(
        in_flight_max=IN_FLIGHT_MAX,
        request_seconds=timing.stop_seconds,
        send_seconds_max=timing.stop_seconds,
    )
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            KubeClient(access, clock=SYSTEM_CLOCK, rng=random, limits=limits)
        )
        process = Controller(
            client,
            SYSTEM_CLOCK,
            random,
            settings=settings.controller,
            open_sources=lambda: term_sources(
                client,
                SYSTEM_CLOCK,
                random,
                settings.targeting,
                settings.kinds,
                places=settings.places,
            ),
            report=_say,
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(process.run())
                if settings.tls_folder:
                    pair = ServingPair(settings.tls_folder, clock=SYSTEM_CLOCK, report=_say)
                    server = _server(settings, process, client)
                    tasks.create_task(listen(server, pair, settings.bind, say=_say))
        except* BadInputError as errors:
            raise errors.exceptions[0] from None


def _server(settings: Settings, process: Controller, client: KubeClient) -> HttpsServer:
    reviewer = TokenReviewer(client, SYSTEM_CLOCK)

    def problem() -> str:
        term = process.term
        return "" if term is None else staleness_problem(term.sources.informers())

    routes = controller_routes(
        is_leader=lambda: process.election.is_leader,
        problem=problem,
        metrics=lambda: controller_metrics(process, client.limiter),
        metrics_type=CONTENT_TYPE,
        resizes=ResizeRoute(
            user=webhook_user(settings.controller.namespace),
            find_username=reviewer.find_username,
            find_desk=lambda: process.resize_desk,
            decode=pod_row_decode(),
        ),
    )
    return HttpsServer(routes, clock=SYSTEM_CLOCK)
