"""The operator process: which parts it is made of."""

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random, SystemRandom
from typing import Final

import bursar
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kube.access import ClusterAccess
from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kube.token_review import TokenReviewer
from bursar.adapters.serving.message import Response
from bursar.adapters.serving.probes import probe_routes, readiness
from bursar.adapters.serving.server import HttpServer
from bursar.adapters.serving.status_page import Report, status_routes
from bursar.adapters.telemetry.operator.families import operator_metrics
from bursar.adapters.telemetry.status.operator import operator_status
from bursar.app.log import Log
from bursar.app.names import METRICS_PATH
from bursar.app.operator.names import OPERATOR
from bursar.app.operator.operator import Operator
from bursar.app.operator.rendering import Surroundings
from bursar.app.operator.term import OperatorSettings
from bursar.app.tracing import TraceCounts
from bursar.cli.processes.operator import OperatorProcess
from bursar.entry.https import Certificate, listen, open_certificate, served
from bursar.entry.lifetime.lifetime import run_on_cluster
from bursar.entry.lifetime.state_dump import StateDump
from bursar.entry.metrics_access import metrics_guard
from bursar.entry.process import (
    open_tracer,
    process_identity,
    start_server,
    start_tracing,
    tasks_of_process,
)

LOG: Final = Log("operator")


def run_operator(settings: OperatorProcess) -> None:
    """Keep an installation until SIGTERM or SIGINT. Raises `BadInputError`."""
    run_on_cluster(
        LOG, settings.log, settings.cluster, settings.namespace, partial(_work, settings)
    )


async def _work(settings: OperatorProcess, access: ClusterAccess, state: StateDump) -> None:
    random = SystemRandom()
    tracer = open_tracer(settings.traces, OPERATOR, random)
    async with KubeClient(access, clock=SYSTEM_CLOCK, rng=random) as client:
        operator = Operator(
            client,
            SYSTEM_CLOCK,
            random,
            settings=OperatorSettings(
                surroundings=Surroundings(
                    namespace=settings.namespace,
                    image=settings.image,
                    replicas=settings.replicas,
                    applied=settings.applied_quotas,
                    definitions=settings.definitions,
                ),
                version=bursar.__version__,
            ),
            identity=process_identity(),
            tracer=tracer,
        )

        def report() -> Report:
            return operator_status(operator, client.limiter, state.uptime_s)

        state.report = report
        async with tasks_of_process() as tasks:
            start_tracing(tasks, tracer)
            tasks.create_task(operator.run())
            tasks.create_task(_serve_probes(settings, operator))
            if settings.tls_source.is_given:
                tasks.create_task(
                    _serve_metrics(
                        settings,
                        operator,
                        client,
                        random,
                        report=report,
                        traces=None if tracer is None else tracer.counts,
                    )
                )


async def _serve_probes(settings: OperatorProcess, operator: Operator) -> None:
    """Probes, without TLS: the certificate exists only when the installation does."""

    async def ready() -> Response:
        return readiness(operator.readiness_problem)

    routes = dict(probe_routes(lambda: b"", ready, metrics_guard=None))
    del routes["GET", METRICS_PATH]
    server = HttpServer(routes, clock=SYSTEM_CLOCK)
    LOG.info("listening for probes", address=await start_server(server, settings.probes))
    try:
        await asyncio.Event().wait()
    finally:
        await server.stop()


async def _serve_metrics(
    settings: OperatorProcess,
    operator: Operator,
    client: KubeClient,
    random: Random,
    *,
    report: Callable[[], Report],
    traces: TraceCounts | None,
) -> None:
    certificate: Certificate = open_certificate(
        settings.tls_source, settings.namespace, client, random, profile=settings.tls
    )
    readers = metrics_guard(settings.metrics_auth, client, TokenReviewer(client, SYSTEM_CLOCK))
    routes = probe_routes(
        lambda: operator_metrics(operator, client.limiter, served(certificate), traces),
        metrics_guard=readers,
    )
    every = {**routes, **status_routes(report, readers)}
    await listen(HttpServer(every, clock=SYSTEM_CLOCK), certificate, settings.bind, log=LOG)
