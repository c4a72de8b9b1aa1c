"""The controller process: which parts it is made of."""

import gc
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from random import Random, SystemRandom
from typing import Final

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.controller_http.resizes import ResizeRoute, webhook_user
from bursar.adapters.controller_http.routes import CONTROLLER_LIMITS, controller_routes
from bursar.adapters.kube.access import ClusterAccess
from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kube.token_review import TokenReviewer
from bursar.adapters.kube.transport import Limits
from bursar.adapters.serving.bearer import bearer_guard, only
from bursar.adapters.serving.server import HttpServer
from bursar.adapters.serving.status_page import Report, status_routes
from bursar.adapters.telemetry.controller.metrics import controller_metrics
from bursar.adapters.telemetry.status.controller import controller_status
from bursar.app.certificates.keeper import CertificateKeeper, KeeperSettings, OpenKeeper
from bursar.app.cluster.ports import ClusterError
from bursar.app.cluster.reconcile import ReconcileContext
from bursar.app.controller.controller import Controller, ControllerSettings
from bursar.app.controller.sources import term_sources
from bursar.app.doctor.findings import Severity
from bursar.app.doctor.versions import version_findings
from bursar.app.log import Log
from bursar.app.names import CONTROLLER
from bursar.app.tracing import TraceCounts, Tracer
from bursar.cli.processes.controller import ControllerProcess
from bursar.entry.counting import open_counting
from bursar.entry.https import Certificate, listen, open_certificate, served
from bursar.entry.lifetime.lifetime import run_on_cluster
from bursar.entry.lifetime.state_dump import StateDump
from bursar.entry.metrics_access import metrics_guard
from bursar.entry.process import open_tracer, process_identity, start_tracing, tasks_of_process
from bursar.wire.cluster.server_version import decode_server_version

IN_FLIGHT_MAX: Final = 64
LOG: Final = Log("controller")
COLLECTOR_THRESHOLDS: Final = (2_000, 5, 10_000)


def run_controller(settings: ControllerProcess) -> None:
    """Run a controller until SIGTERM or SIGINT. Raises `BadInputError`."""
    run_on_cluster(
        LOG, settings.log, settings.cluster, settings.namespace, partial(_work, settings)
    )


async def _work(settings: ControllerProcess, access: ClusterAccess, state: StateDump) -> None:
    for option in settings.ignored:
        LOG.warning("this option has no effect here", option=option)
    timing, random = settings.timing, SystemRandom()
    # No write may take longer than the part of the Lease in which no replica works.
    limits = Limits(
        in_flight_max=IN_FLIGHT_MAX,
        request_seconds=timing.stop_seconds,
        send_seconds_max=timing.stop_seconds,
    )
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            KubeClient(access, clock=SYSTEM_CLOCK, rng=random, limits=limits)
        )
        tracer = open_tracer(settings.traces, CONTROLLER, random)
        process = _controller(settings, client, random, tracer)

        def report() -> Report:
            return controller_status(process, client.limiter, state.uptime_s)

        state.report = report
        async with tasks_of_process() as tasks:
            start_tracing(tasks, tracer)
            tasks.create_task(_report_version(client))
            tasks.create_task(process.run())
            if settings.tls_source.is_given:
                certificate = open_certificate(
                    settings.tls_source,
                    settings.namespace,
                    client,
                    random,
                    profile=settings.tls,
                )
                counts = None if tracer is None else tracer.counts
                server = _server(settings, process, client, certificate, report, traces=counts)
                tasks.create_task(listen(server, certificate, settings.bind, log=LOG))


def _controller(
    settings: ControllerProcess,
    client: KubeClient,
    random: SystemRandom,
    tracer: Tracer | None,
) -> Controller:
    return Controller(
        client,
        SYSTEM_CLOCK,
        random,
        settings=ControllerSettings(
            namespace=settings.namespace,
            identity=process_identity(),
            timing=settings.timing,
            patience_s=settings.patience_s,
            quota_grace_s=settings.quota_grace_s,
            request_seconds=settings.request_seconds,
            waiting_pods_max=settings.waiting_pods_max,
            applied_quotas=settings.applied_quotas,
            address=settings.address,
        ),
        open_sources=lambda: term_sources(
            client,
            SYSTEM_CLOCK,
            random,
            settings.targeting,
            settings.kinds,
            counting=open_counting(settings.counting, client),
            places=settings.places,
        ),
        open_keeper=_keeper_opener(settings.certificates, client, random),
        tracer=tracer,
        on_synced=_freeze_heap,
        between_slices=collect_young,
    )


async def _report_version(client: KubeClient) -> None:
    """Log the version of the API server, and what it lacks. Nothing depends on it."""
    try:
        server = decode_server_version(await client.version())
    except (ClusterError, ValueError) as error:
        LOG.warning("the version of the API server is not known", error=error)
        return
    for finding in version_findings(server):
        write = LOG.info if finding.severity in {Severity.OK, Severity.NOTE} else LOG.warning
        write("version of the API server", version=server.text, finding=finding.text)


def collect_young() -> None:
    """Collect the objects that a slice of a decision has made.

    Python starts a collection when many more objects were made than freed. A decision about pods
    that wait already frees as many as it makes, so that a hundred thousand new objects add up, and
    their collection blocks the event loop for longer than several slices take.
    """
    gc.collect(0)


def _freeze_heap() -> None:
    """Exempt the caches from garbage collection, which would scan all of them in every run."""
    if gc.get_freeze_count():
        # The caches of an earlier term are garbage by now.
        gc.unfreeze()
        gc.collect()
    gc.freeze()
    # Objects about pods that are gone are freed without the collector. A full collection blocks
    # the event loop, longer the more pods wait, so it has to be rare.
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


def _keeper_opener(
    settings: KeeperSettings | None, client: KubeClient, random: Random
) -> OpenKeeper | None:
    if settings is None:
        return None

    def open_keeper(is_leader: Callable[[], bool]) -> CertificateKeeper:
        # A replica that never leads need not load the library.
        from bursar.adapters.x509.certificates import Certificates  # noqa: PLC0415

        return CertificateKeeper(
            cluster=client,
            context=ReconcileContext(
                writer=client, clock=SYSTEM_CLOCK, random=random, may_write=is_leader
            ),
            settings=settings,
            x509=Certificates(),
        )

    return open_keeper


def _server(
    settings: ControllerProcess,
    process: Controller,
    client: KubeClient,
    certificate: Certificate,
    status: Callable[[], Report],
    *,
    traces: TraceCounts | None,
) -> HttpServer:
    user = webhook_user(settings.namespace)
    reviewer = TokenReviewer(client, SYSTEM_CLOCK, expected=user)
    guard = metrics_guard(settings.metrics_auth, client, reviewer)
    routes = controller_routes(
        is_leader=lambda: process.election.is_leader,
        problem=lambda: process.readiness_problem,
        metrics=lambda: controller_metrics(process, client.limiter, served(certificate), traces),
        resizes=ResizeRoute(
            user=user,
            find_username=reviewer.find_username,
            find_resizes=lambda: process.resize_service,
            decode=process.decode_row,
        ),
        metrics_guard=guard,
        resizes_guard=bearer_guard(reviewer.find_username, only(user)),
    )
    every = {**routes, **status_routes(status, guard)}
    return HttpServer(every, clock=SYSTEM_CLOCK, limits=CONTROLLER_LIMITS)
