"""Gating a pod, against a handler that reads the same review and answers with fixed bytes.

Both are routes of one HTTPS server in another process on loopback, asked turn and turn about over
the same connections, so the ratio is what judging costs beyond TLS and HTTP.
"""

import json
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from certificates import Authority
from ratio import Ratio

ROUNDS = 12
REQUESTS = 1_600
AT_ONCE = 8

SERVER = """
import asyncio, sys
from random import SystemRandom
from bursar.adapters.admission.reviewing import Reviewer
from bursar.adapters.admission.routes import ReviewCounts, webhook_routes
from bursar.adapters.serving.server import JSON, HttpsServer, Outgoing
from bursar.adapters.serving.serving_pair import ServingPair
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.app.admission import Installation
from bursar.app.admission_quotas import QuotaCheck

async def main():
    quotas = QuotaCheck(None, clock=SYSTEM_CLOCK, random=SystemRandom())
    reviewer = Reviewer(installation=Installation(), quotas=quotas, desk=None)
    counts = ReviewCounts()
    routes = dict(webhook_routes(reviewer.answer, counts=counts, metrics=counts.exposition))
    fixed = Outgoing(b"x" * 300, content_type=JSON)
    async def noop(_):
        return fixed
    routes["/noop"] = noop
    pair = ServingPair(sys.argv[1], clock=SYSTEM_CLOCK, report=lambda _: None)
    server = HttpsServer(routes, clock=SYSTEM_CLOCK)
    print(await server.start("127.0.0.1", 0, await pair.listening_context()), flush=True)
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


def a_request(path: str) -> bytes:
    body = a_review()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, */*\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def read_answer(peer: ssl.SSLSocket) -> None:
    got = b""
    while b"\r\n\r\n" not in got:
        got += peer.recv(65_536)
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += peer.recv(65_536)


def latencies(peers: list[ssl.SSLSocket], request: bytes) -> list[float]:
    """Seconds until each answer, with one request under way on each connection."""
    taken = []
    for _ in range(REQUESTS // AT_ONCE):
        started = time.perf_counter()
        for peer in peers:
            peer.sendall(request)
        for peer in peers:
            read_answer(peer)
            taken.append(time.perf_counter() - started)
    return taken


def connect(port: int, authority: Authority) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    plain = socket.create_connection(("127.0.0.1", port))
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(plain, server_hostname="localhost")


def measured(folder: str) -> dict[str, list[tuple[float, float]]]:
    """For each path, requests a second and the 99th percentile of every round."""
    authority = Authority(Path(folder))
    pair = authority.server("server")
    for source, name in ((pair.certificate, "tls.crt"), (pair.key, "tls.key")):
        Path(folder, name).write_bytes(source.read_bytes())
    found: dict[str, list[tuple[float, float]]] = {"/gate": [], "/noop": []}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, folder], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        peers = [connect(port, authority) for _ in range(AT_ONCE)]
        for path in found:
            latencies(peers, a_request(path))  # to warm up
        for _ in range(ROUNDS):
            for path, rounds in found.items():
                request = a_request(path)
                started = time.perf_counter()
                taken = sorted(latencies(peers, request))
                elapsed = time.perf_counter() - started
                rounds.append((REQUESTS / elapsed, taken[len(taken) * 99 // 100]))
        for peer in peers:
            peer.close()
        server.terminate()
    return found


def measure() -> Iterator[Ratio]:
    with tempfile.TemporaryDirectory() as folder:
        found = measured(folder)
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
