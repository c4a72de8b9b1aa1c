"""From nothing to 150,000 pods in the cache: the whole way, from a TLS socket to compact rows.

The server is another process of ours that streams made-up pods of about three kilobytes, every
eight of the same workload, as an API server streams initial events.
"""

import asyncio
import random
import ssl
import time
from collections.abc import Iterator

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kube.client import KubeClient
from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.observe_kinds import identify_pod
from bursar.app.cluster.sighting import locate
from bursar.wire.model.pod_row import PodRowDecoder
from ratio import Ratio
from watch import Access, read_bare, streaming

PODS_COUNT = 150_000

SERVER = """
import socket, ssl, sys
certificate, key, count = sys.argv[1:4]
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain(certificate, key)
padding = "x" * 2200
def pod(n):
    w = n // 8
    return ('{"type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{'
            '"name":"web-%d-%d","namespace":"team-%d","uid":"%08x-0000-4000-8000-%012x","resourceVersion":"%d",'
            '"creationTimestamp":"2026-01-01T00:00:00Z","labels":{"app":"web-%d"},'
            '"annotations":{"padding":"%s"}},"spec":{"nodeName":"node-%d","containers":[{"name":"web",'
            '"image":"example.com/web","resources":{"requests":{"cpu":"%dm","memory":"%dMi"},'
            '"limits":{"memory":"1Gi"}}}]},"status":{"phase":"Running","qosClass":"Burstable"}}}\\n'
            % (w, n % 8, w % 200, n, n, n + 1, w, padding, n % 5000, 100 + w % 40, 64 + w % 64))
BOOKMARK = ('{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{'
            '"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}}\\n')
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    for _ in range(2):
        plain, _ = server.accept()
        with context.wrap_socket(plain, server_side=True) as peer:
            peer.recv(65536)
            peer.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\n"
                         b"Transfer-Encoding: chunked\\r\\n\\r\\n")
            for start in range(0, int(count), 50):
                block = "".join(pod(n) for n in range(start, start + 50)).encode()
                peer.sendall(b"%x\\r\\n" % len(block) + block + b"\\r\\n")
            block = (BOOKMARK % (int(count) + 1)).encode()
            peer.sendall(b"%x\\r\\n" % len(block) + block + b"\\r\\n0\\r\\n\\r\\n")
"""


async def sync(port: int, context: ssl.SSLContext) -> int:
    access = Access(f"https://localhost:{port}", context)
    rng = random.SystemRandom()
    async with KubeClient(access, clock=SYSTEM_CLOCK, rng=rng) as client:
        informer = Informer(
            client,
            client,
            clock=SYSTEM_CLOCK,
            random=rng,
            resource=PODS,
            decode=PodRowDecoder().decode,
            identify=identify_pod,
            locate=locate,
        )
        running = asyncio.create_task(informer.run())
        await informer.wait_synced()
        held = len(informer)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return held


def measure() -> Iterator[Ratio]:
    with streaming(SERVER, PODS_COUNT) as (port, context):
        started = time.perf_counter()
        read_bare(port, context)
        bare = time.perf_counter() - started
        started = time.perf_counter()
        held = asyncio.run(sync(port, context))
        ours = time.perf_counter() - started
    assert held == PODS_COUNT, f"{held} of {PODS_COUNT} pods are held"
    yield Ratio("sync 150k pods", ours, "bare socket", bare, "s", "<= 60")
