"""Gating a pod, compared with a handler that gets the same review and sends fixed bytes.

Both are routes of one HTTPS server in another process on loopback. They are measured in turns
over the same connections, so the ratio is the cost of judging beyond TLS and HTTP.
"""

import json
import statistics
from collections.abc import Iterator

from ratio import Ratio
from review_load import a_request, measured

REQUESTS = 1_600

SERVER = """
import asyncio, sys
from random import SystemRandom
from bursar.adapters.admission.reviewer import Reviewer
from bursar.adapters.admission.routes import review_counts, webhook_routes
from bursar.adapters.cel.language import open_language
from bursar.adapters.serving.message import JSON, Response, Route, fixed
from bursar.adapters.serving.server import HttpServer
from bursar.adapters.serving.tls.serving_certificate import ServingCertificate
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.app.admission.pods import Installation
from bursar.app.admission.policies import PolicyCheck
from bursar.app.admission.quotas import QuotaCheck

async def main():
    quotas = QuotaCheck(None, clock=SYSTEM_CLOCK, random=SystemRandom())
    reviewer = Reviewer(
        installation=Installation(),
        quotas=quotas,
        reservations=None,
        policies=PolicyCheck(open_language()),
    )
    routes = dict(
        webhook_routes(
            reviewer.answer, counts=review_counts(), metrics=bytes, metrics_guard=None
        )
    )
    routes["POST", "/noop"] = Route(fixed(Response(b"x" * 300, content_type=JSON)), 2**20)
    certificate = ServingCertificate(sys.argv[1], clock=SYSTEM_CLOCK)
    server = HttpServer(routes, clock=SYSTEM_CLOCK)
    print(await server.start("127.0.0.1", 0, await certificate.wait_for_context()), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def a_review() -> bytes:
    """About six kilobytes, as a pod of three containers makes it."""
    environment = [{"name": f"NAME_{n}", "value": "v" * 30} for n in range(20)]
    resources = {"requests": {"cpu": "100m", "memory": "1Gi"}}
    containers = [
        {"name": f"c{n}", "image": "example.com/i", "env": environment, "resources": resources}
        for n in range(3)
    ]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-1", "annotations": {"padding": "x" * 1500}},
        "spec": {"containers": containers},
    }
    request = {
        "uid": "0b1c9f3e-7d1a-4a55-9a43-3f0a53a8f8a1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "team-a",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
        "object": pod,
        "oldObject": None,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(review).encode()


def all_requests() -> dict[str, list[bytes]]:
    return {path: [a_request(path, a_review())] for path in ("/gate", "/noop")}


def measure() -> Iterator[Ratio]:
    found = measured(SERVER, all_requests(), lambda _: REQUESTS)
    rate = {path: statistics.median(each[0] for each in rounds) for path, rounds in found.items()}
    late = {path: statistics.median(each[1] for each in rounds) for path, rounds in found.items()}
    yield Ratio(
        "gate pods, reviews a second", rate["/gate"], "no-op handler", rate["/noop"], "reviews/s"
    )
    yield Ratio(
        "gate pods, p99 of 8 at once",
        late["/gate"] * 1e3,
        "no-op handler",
        late["/noop"] * 1e3,
        "ms",
    )
