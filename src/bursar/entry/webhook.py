"""The webhook process: which parts it is made of."""

from contextlib import AsyncExitStack
from functools import partial
from itertools import chain
from random import SystemRandom
from typing import TYPE_CHECKING, Final

from bursar.adapters.admission.leader_client import LeaderClient
from bursar.adapters.admission.peerpods import PeerPodCounts, peer_pod_routes
from bursar.adapters.admission.reviewer import Reviewer
from bursar.adapters.admission.routes import Tracing, review_counts, webhook_routes
from bursar.adapters.cel.language import open_language
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kube.access import ClusterAccess
from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kube.token_review import TokenReviewer
from bursar.adapters.serving.server import HttpServer
from bursar.adapters.serving.status_page import Report, status_routes
from bursar.adapters.serving.tls.client_authority import client_guard
from bursar.adapters.serving.tls.secret_certificate import SecretCertificate
from bursar.adapters.telemetry.certificates.served import served_families
from bursar.adapters.telemetry.exposition import exposition
from bursar.adapters.telemetry.process import process_families, trace_families
from bursar.adapters.telemetry.status.webhook import webhook_status
from bursar.adapters.telemetry.webhook_families import webhook_families
from bursar.app.admission.gate_switch import GateSwitch
from bursar.app.admission.policies import PolicyCheck
from bursar.app.admission.quotas import QuotaCheck
from bursar.app.log import Log
from bursar.app.names import WEBHOOK
from bursar.cli.processes.webhook import WebhookProcess
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
from bursar.entry.process import open_tracer, start_tracing, tasks_of_process

if TYPE_CHECKING:
    from bursar.adapters.telemetry.tracing.exporter import OtlpTracer

LOG: Final = Log("webhook")


def run_webhook(settings: WebhookProcess) -> None:
    """Answer admission reviews until SIGTERM or SIGINT. Raises `BadInputError`."""
    run_on_cluster(
        LOG,
        settings.log,
        settings.cluster,
        settings.installation.namespace,
        partial(_serve, settings),
    )


async def _serve(settings: WebhookProcess, access: ClusterAccess, state: StateDump) -> None:
    random, tls = SystemRandom(), with_clients(settings.tls, settings.client_ca)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(KubeClient(access, clock=SYSTEM_CLOCK, rng=random))
        certificate = open_certificate(
            settings.tls_source,
            settings.installation.namespace,
            client,
            random,
            profile=tls,
        )

        def authorities() -> str:
            assert isinstance(certificate, SecretCertificate)
            return certificate.authorities

        leader = await stack.enter_async_context(
            LeaderClient(client, settings.leader, authorities if settings.trusts_secret else None)
        )
        switch = GateSwitch(client, SYSTEM_CLOCK, random, settings.installation.namespace)
        tracer = open_tracer(settings.traces, WEBHOOK, random)
        server = _server(settings, client, leader, certificate, switch, state=state, tracer=tracer)
        async with tasks_of_process() as tasks:
            start_tracing(tasks, tracer)
            tasks.create_task(switch.run())
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


def _server(  # noqa: PLR0913 - the server connects all of them
    settings: WebhookProcess,
    client: KubeClient,
    leader: LeaderClient,
    certificate: Certificate,
    switch: GateSwitch,
    *,
    state: StateDump,
    tracer: "OtlpTracer | None",
) -> HttpServer:
    tracing = None if tracer is None else Tracing(tracer, SYSTEM_CLOCK)
    reviewer = Reviewer(
        installation=settings.installation,
        quotas=QuotaCheck(client, clock=SYSTEM_CLOCK, random=SystemRandom()),
        reservations=leader,
        policies=PolicyCheck(open_language()),
        when_unreachable=settings.when_unreachable,
        is_gating=lambda: switch.is_on,
    )
    counts, peers = review_counts(), PeerPodCounts()
    guard = client_guard(settings.client_names) if settings.client_ca else None
    readers = metrics_guard(settings.metrics_auth, client, TokenReviewer(client, SYSTEM_CLOCK))

    def report() -> Report:
        return webhook_status(
            counts,
            peers.ends,
            served(certificate),
            is_gating=switch.is_on,
            now=SYSTEM_CLOCK.now(),
            uptime_s=state.uptime_s,
        )

    state.report = report
    routes = webhook_routes(
        reviewer.answer,
        counts=counts,
        metrics=lambda: exposition(
            chain(
                webhook_families(counts, peers.ends, peers.overwritten),
                served_families(served(certificate), SYSTEM_CLOCK.now()),
                trace_families(None if tracer is None else tracer.counts),
                process_families(),
            )
        ),
        body_bytes_max=settings.body_bytes_max,
        metrics_guard=readers,
        review_guard=guard,
        tracing=tracing,
    )
    peer_pods = peer_pod_routes(settings.peer_pods, peers, guard, tracing)
    every = {**routes, **peer_pods, **status_routes(report, readers)}
    return HttpServer(every, clock=SYSTEM_CLOCK)
