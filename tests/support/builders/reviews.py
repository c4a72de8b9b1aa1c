"""Reviews in a few words, and an HTTPS server of ours to send them to."""

import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from bursar.adapters.admission.reviewer import Reviewer
from bursar.adapters.admission.routes import review_counts, webhook_routes
from bursar.adapters.cel.language import open_language
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.serving.limits import ServerLimits
from bursar.adapters.serving.message import Guard, Handler, Route, Routes
from bursar.adapters.serving.server import HttpServer
from bursar.adapters.serving.tls.profile import DEFAULT_PROFILE, TlsProfile
from bursar.adapters.serving.tls.serving_certificate import ServingCertificate
from bursar.adapters.telemetry.exposition import exposition
from bursar.adapters.telemetry.webhook_families import webhook_families
from bursar.app.admission.pods import (
    Installation,
    Reply,
    ResizeRequest,
    Unreachable,
    WhenUnreachable,
)
from bursar.app.admission.policies import PolicyCheck
from bursar.app.admission.quotas import QuotaCheck
from bursar.app.cluster.ports import (
    Clock,
    ClusterError,
    Json,
    Key,
    NotFoundError,
    Patch,
    Preconditions,
    Resource,
)
from certificates import Authority, Pair
from support.builders.manifests import pod_manifest
from support.http_peer import Answer, HttpPeer, connected

GATE = "ApplicationAwareQuotaGate"
CONTROLLER_USER = "system:serviceaccount:aaq:aaq-controller"
ARQ = "ApplicationAwareResourceQuota"
ACRQ = "ApplicationAwareClusterResourceQuota"
GROUPS = {ARQ: "aaq.kubevirt.io", ACRQ: "aaq.kubevirt.io", "AAQ": "aaq.kubevirt.io"}
GROUPS["CountingPolicy"] = "bursar.io"


def raw_pod(*gates: str, node: str = "", cpu: str = "", **more: object) -> dict:
    requests = f"cpu={cpu}" if cpu else ""
    metadata = {"uid": "pod-uid"}
    return pod_manifest("web", *gates, node=node, requests=requests, metadata=metadata) | more


def an_arq(hard: Mapping[str, object] | None = None, **spec: object) -> dict:
    return {"metadata": {"name": "q"}, "spec": {"hard": hard or {}, **spec}}


def an_acrq(hard: Mapping[str, object] | None = None, **spec: object) -> dict:
    quota = {"hard": hard or {}, **spec}
    return {"metadata": {"name": "q"}, "spec": {"quota": quota, "selector": {}}}


def a_review(
    kind: str, operation: str, new: object, old: object = None, /, **request: object
) -> dict:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "review-1",
            "kind": {"group": GROUPS.get(kind, ""), "version": "v1", "kind": kind},
            "operation": operation,
            "namespace": "team-a",
            "name": "web",
            "userInfo": {"username": "somebody"},
            "object": new,
            "oldObject": old,
            **request,
        },
    }


# ------------------------------------------------------------------ whom the webhook asks


@dataclass
class OpinionatedWriter:
    """The writing side of an API server that accepts everything, or has one opinion about it."""

    opinion: ClusterError | None = None
    created: list[tuple[str, Json, bool]] = field(default_factory=list)
    """Namespace, body, and whether it was only for show."""
    has_openshift: bool = False
    """Whether ClusterResourceQuotas are served."""
    cluster_opinion: ClusterError | None = None
    """The opinion about ClusterResourceQuotas."""

    async def create(
        self, resource: Resource, body: Json, *, namespace: str = "", is_dry_run: bool = False
    ) -> bytes:
        if resource.plural == "clusterresourcequotas":
            if not self.has_openshift:
                raise NotFoundError("404 page not found")
            self.created.append((namespace, body, is_dry_run))
            if self.cluster_opinion is not None:
                raise self.cluster_opinion
            return b"{}"
        assert resource.plural == "resourcequotas"
        self.created.append((namespace, body, is_dry_run))
        if self.opinion is not None:
            raise self.opinion
        return b"{}"

    async def patch(
        self,
        resource: Resource,
        key: Key,
        patch: Patch,
        *,
        subresource: str = "",
        is_dry_run: bool = False,
    ) -> bytes:
        raise AssertionError((resource, key, patch, subresource, is_dry_run))

    async def delete(
        self,
        resource: Resource,
        key: Key,
        *,
        preconditions: Preconditions | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        raise AssertionError((resource, key, preconditions, grace_seconds))


@dataclass
class OneAnswerReservations:
    reply: Reply = field(default_factory=lambda: Unreachable("nobody leads"))
    asked: list[ResizeRequest] = field(default_factory=list)

    async def reserve_resize(self, request: ResizeRequest) -> Reply:
        self.asked.append(request)
        return self.reply


def a_reviewer(
    writer: OpinionatedWriter | None = None,
    reservations: OneAnswerReservations | None = None,
    when_unreachable: WhenUnreachable = WhenUnreachable.DENY,
    is_gating: Callable[[], bool] = lambda: True,
) -> Reviewer:
    source = Random(1)  # noqa: S311 - the same names in every run
    return Reviewer(
        installation=Installation("aaq"),
        quotas=QuotaCheck(writer or OpinionatedWriter(), clock=SYSTEM_CLOCK, random=source),
        reservations=reservations or OneAnswerReservations(),
        policies=PolicyCheck(open_language()),
        when_unreachable=when_unreachable,
        is_gating=is_gating,
    )


async def response_to(reviewer: Reviewer, review: dict) -> dict:
    body, _ = await reviewer.answer(json.dumps(review).encode())
    return json.loads(body)["response"]


# ------------------------------------------------------------------ a server


def put_pair(folder: Path, pair: Pair) -> None:
    """Replace both files at once, as the kubelet does with a mounted Secret."""
    for source, name in ((pair.certificate, "tls.crt"), (pair.key, "tls.key")):
        fresh = folder / f".{name}"
        fresh.write_bytes(source.read_bytes())
        fresh.replace(folder / name)


@dataclass
class RunningServer:
    server: HttpServer
    port: int
    certificate: ServingCertificate
    trust: ssl.SSLContext
    authority: Path
    """The CA certificate (PEM) of the server."""
    peers: contextlib.AsyncExitStack
    """Connections of the test, closed at its end."""
    kept: HttpPeer | None = None
    """The connection that questions are asked on, until the server closes it."""

    def url(self, path: str) -> str:
        return f"https://127.0.0.1:{self.port}{path}"

    async def connect(self, client: Pair | None = None) -> HttpPeer:
        """A new connection, with a client certificate if there is one."""
        trust = self.trust
        if client is not None:
            trust = ssl.create_default_context(cafile=str(self.authority))
            trust.load_cert_chain(client.certificate, client.key)
        return await self.peers.enter_async_context(connected(self.port, trust))

    async def answer(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        """Ask on the connection that is open, as API servers do."""
        if self.kept is None:
            self.kept = await self.connect()
        answer = await self.kept.ask(method, path, body, **headers)
        if answer.is_last:
            self.kept = None
        return answer

    async def ask(
        self, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> tuple[int, str]:
        answer = await self.answer("POST", path, body, Content_Type=content_type)
        return answer.code, answer.text

    async def get(self, path: str) -> tuple[int, str]:
        answer = await self.answer("GET", path)
        return answer.code, answer.text


@contextlib.asynccontextmanager
async def running(
    folder: Path,
    routes: Routes,
    limits: ServerLimits | None = None,
    clock: Clock = SYSTEM_CLOCK,
    profile: TlsProfile = DEFAULT_PROFILE,
) -> AsyncIterator[RunningServer]:
    """A server on loopback with a certificate of its own authority, `ca.crt` in the folder."""
    authority = Authority(folder)
    put_pair(folder, authority.server("webhook"))
    certificate = ServingCertificate(str(folder), clock=SYSTEM_CLOCK, profile=profile)
    server = HttpServer(routes, clock=clock, limits=limits or ServerLimits())
    port = await server.start("127.0.0.1", 0, await certificate.wait_for_context())
    trust = ssl.create_default_context(cafile=str(authority.certificate))
    async with contextlib.AsyncExitStack() as peers:
        try:
            yield RunningServer(server, port, certificate, trust, authority.certificate, peers)
        finally:
            await peers.aclose()
            if not server.is_stopping:
                virtual = isinstance(clock, VirtualClock)
                async with clock.running() if virtual else contextlib.nullcontext():
                    await server.stop()


def routes_of(reviewer: Reviewer, review_guard: Guard | None = None) -> Routes:
    counts = review_counts()
    return webhook_routes(
        reviewer.answer,
        counts=counts,
        metrics=lambda: exposition(webhook_families(counts, {}, 0)),
        metrics_guard=None,
        review_guard=review_guard,
    )


def posting(path: str, handler: Handler) -> Routes:
    """One route, for bodies of any size that tests send."""
    return {("POST", path): Route(handler, 2**23)}
