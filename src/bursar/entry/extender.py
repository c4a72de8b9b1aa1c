"""The extender process: which parts it is made of."""

from collections.abc import Callable
from functools import partial
from random import SystemRandom
from typing import Final

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.extender.routes import EXTENDER_LIMITS, extender_routes, request_counts
from bursar.adapters.kube.access import ClusterAccess
from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kube.token_review import TokenReviewer
from bursar.adapters.kube.transport import Limits
from bursar.adapters.serving.server import HttpServer
from bursar.adapters.serving.status_page import Report, status_routes
from bursar.adapters.serving.tls.client_authority import client_guard
from bursar.adapters.telemetry.extender.families import extender_metrics
from bursar.adapters.telemetry.status.extender import extender_status
from bursar.app.extender.extender import Extender, ExtenderSettings
from bursar.app.log import Log
from bursar.cli.pools.extender import ExtenderProcess
from bursar.entry.https import (
    Certificate,
    follow_clients,
    listen,
    open_certificate,
    served,
    with_clients,
)
from bursar.entry.lifetime.lifetime import run_on_cluster
from bursar.entry.lifetime.state_dump import StateDump
from bursar.entry.metrics_access import metrics_guard
from bursar.entry.process import process_identity, tasks_of_process

LOG: Final = Log("extender")


def run_extender(settings: ExtenderProcess) -> None:
    """Answer schedulers until SIGTERM or SIGINT. Raises `BadInputError`."""
    run_on_cluster(
        LOG, settings.log, settings.cluster, settings.namespace, partial(_work, settings)
    )


async def _work(settings: ExtenderProcess, access: ClusterAccess, state: StateDump) -> None:
    random, tls = SystemRandom(), with_clients(settings.tls, settings.client_ca)
    if not settings.client_ca:
        LOG.warning("any caller is answered: everybody who reaches this process can bind pods")
    # No write may take longer than the part of the Lease in which no replica works.
    stop_seconds = settings.timing.stop_seconds
    limits = Limits(request_seconds=stop_seconds, send_seconds_max=stop_seconds)
    async with KubeClient(access, clock=SYSTEM_CLOCK, rng=random, limits=limits) as client:
        extender = Extender(
            client,
            SYSTEM_CLOCK,
            random,
            settings=ExtenderSettings(
                namespace=settings.namespace,
                identity=process_identity(),
                timing=settings.timing,
                hold_s=settings.hold_s,
                address=settings.address,
            ),
        )
        certificate = open_certificate(
            settings.tls_source, settings.namespace, client, random, profile=tls
        )

        def report() -> Report:
            return extender_status(extender, client.limiter, state.uptime_s)

        state.report = report
        server = _server(settings, extender, client, certificate, report)
        async with tasks_of_process() as tasks:
            tasks.create_task(extender.run())
            tasks.create_task(follow_clients(tls, certificate))
            tasks.create_task(
                listen(
                    server,
                    certificate,
                    settings.bind,
                    log=LOG,
                    delay_seconds=settings.shutdown_delay_s,
                )
            )


def _server(
    settings: ExtenderProcess,
    extender: Extender,
    client: KubeClient,
    certificate: Certificate,
    report: Callable[[], Report],
) -> HttpServer:
    counts = request_counts()
    readers = metrics_guard(settings.metrics_auth, client, TokenReviewer(client, SYSTEM_CLOCK))
    routes = extender_routes(
        extender,
        counts=counts,
        metrics=lambda: extender_metrics(extender, counts, client.limiter, served(certificate)),
        problem=lambda: extender.readiness_problem,
        metrics_guard=readers,
        scheduler_guard=client_guard(settings.client_names) if settings.client_ca else None,
        body_bytes_max=settings.body_bytes_max,
    )
    every = {**routes, **status_routes(report, readers)}
    return HttpServer(every, clock=SYSTEM_CLOCK, limits=EXTENDER_LIMITS)
