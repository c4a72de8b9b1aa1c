"""Rewriting a peer pod, compared with a handler that gets the same review and sends fixed bytes.

Both are routes of one HTTPS server in another process on loopback. They are measured in turns
over the same connections, with reviews of 3.5 KB and of 100 KB. The webhook caches answers, and
pods of one workload share an answer. So two more kinds are measured: pods that differ only in
annotations that the rewrite does not read, and more different pods than the cache holds, which
shows the cost of the rewrite itself.
"""

import json
import statistics
from collections.abc import Iterator

from ratio import Ratio
from review_load import a_request, measured

REQUESTS = {3_500: 1_600, 100_000: 400}
"""Requests in one round, by the size of the review in bytes."""
DIFFERENT = 1_000
"""Number of different pods; more than the cache holds."""
PATH = "/mutate-v1-pod"

SERVER = """
import asyncio, sys
from bursar.adapters.admission.peerpods import PeerPodCounts, peer_pod_routes
from bursar.adapters.serving.message import JSON, Response, Route, fixed
from bursar.adapters.serving.server import HttpServer
from bursar.adapters.serving.tls.serving_certificate import ServingCertificate
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.core.peerpods.settings import PeerPodSettings

async def main():
    routes = dict(peer_pod_routes(PeerPodSettings(), PeerPodCounts()))
    routes["POST", "/noop"] = Route(fixed(Response(b"x" * 1000, content_type=JSON)), 2**20)
    certificate = ServingCertificate(sys.argv[1], clock=SYSTEM_CLOCK)
    server = HttpServer(routes, clock=SYSTEM_CLOCK)
    print(await server.start("127.0.0.1", 0, await certificate.wait_for_context()), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def a_review(size: int, mark: str = "", memory: str = "1Gi") -> bytes:
    """A review of a pod with three containers, padded to the size with environment variables."""
    resources = {
        "requests": {"cpu": "500m", "memory": memory},
        "limits": {"cpu": "1", "memory": "2Gi"},
    }
    container = {"image": "example.com/i", "imagePullPolicy": "Always", "resources": resources}
    spec = {
        "runtimeClassName": "kata-remote",
        "initContainers": [{"name": "init", **container}],
        "containers": [{"name": "web", **container, "env": []}, {"name": "log", **container}],
        "restartPolicy": "Always",
        "overhead": {"cpu": "250m", "memory": "120Mi"},
    }
    labels = {"app": "web", "pod-template-hash": "5d59d67564"}
    request = {
        "uid": "0b1c9f3e-7d1a-4a55-9a43-3f0a53a8f8a1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "team-a",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
        "object": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": "web-5d59d67564-",
                "labels": labels,
                "annotations": {"mark": mark},
            },
            "spec": spec,
        },
        "oldObject": None,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    environment = spec["containers"][0]["env"]
    while len(json.dumps(review)) < size:
        missing = size - len(json.dumps(review))
        more = range(max(1, missing // 64))
        environment += [{"name": f"NAME_{len(environment) + n}", "value": "v" * 30} for n in more]
    return json.dumps(review).encode()


Key = tuple[int, str, str]
"""Size, path, and how the pods differ."""

ALIKE, MARKED, UNLIKE = "alike", "marked", "unlike"
"""Equal pods; pods with different unread annotations; pods with different requests as well."""


def reviews(size: int, difference: str) -> list[bytes]:
    if difference == ALIKE:
        return [a_review(size)]
    return [
        a_review(size, f"{number:05}", f"{1_000 + number}Mi" if difference == UNLIKE else "1Gi")
        for number in range(DIFFERENT)
    ]


def all_requests() -> dict[Key, list[bytes]]:
    return {
        (size, path, difference): [a_request(path, body) for body in reviews(size, difference)]
        for size, difference in (
            *((3_500, each) for each in (ALIKE, MARKED, UNLIKE)),
            (100_000, ALIKE),
        )
        for path in (PATH, "/noop")
    }


def measure() -> Iterator[Ratio]:
    found = measured(SERVER, all_requests(), lambda key: REQUESTS[key[0]])
    rate = {key: statistics.median(each[0] for each in rounds) for key, rounds in found.items()}
    late = {key: statistics.median(each[1] for each in rounds) for key, rounds in found.items()}
    for size, path, difference in found:
        if path != PATH:
            continue
        ours, noop = (size, PATH, difference), (size, "/noop", difference)
        what = f"{size / 1000:g} KB {difference}"
        goal = "" if difference == UNLIKE else ">= 0.6"
        yield Ratio(f"rewrite {what}", rate[ours], "no-op handler", rate[noop], "reviews/s", goal)
        yield Ratio(
            f"rewrite {what}, p99 of 8", late[ours] * 1e3, "no-op handler", late[noop] * 1e3, "ms"
        )
