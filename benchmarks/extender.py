"""The extender's filter for 5,000 names of nodes, compared with a handler that sends fixed bytes.

Both are routes of one HTTPS server in another process on loopback, and get the same request. They
are measured in turns over the same connections, so the ratio is the cost of deciding beyond TLS
and HTTP. One pod passes, and another one is refused with a message for each node.
"""

import json
import statistics
from collections.abc import Iterator

from ratio import Ratio
from review_load import a_request, measured

REQUESTS = 160
NODES = [f"ip-10-{n // 250}-{n % 250}-17.eu-central-1.compute.internal" for n in range(5_000)]
LICENCE = "example.com/licence"

SERVER = """
import asyncio, sys
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.extender.routes import extender_routes, request_counts
from bursar.adapters.serving.message import JSON, Response, Route, fixed
from bursar.adapters.serving.server import HttpServer
from bursar.adapters.serving.tls.serving_certificate import ServingCertificate
from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.quantity import Quantity
from bursar.core.pools.books import PoolBooks
from bursar.core.pools.pool import Pool
from bursar.wire.model.pod_row import PodRowDecoder

class Decisions:
    def __init__(self):
        self.books, self.decoder = PoolBooks(), PodRowDecoder()
        self.books.see_namespace(NamespaceObject(name="team-a"))
        five = Quantity.parse("5")
        self.books.see_pool(Pool(name="solver", resource="example.com/licence", capacity=five))

    def filter(self, pod):
        return self.books.filter(self.decoder.decode(pod), int(SYSTEM_CLOCK.monotonic()))

async def main():
    routes = dict(extender_routes(
        Decisions(), counts=request_counts(), metrics=bytes, problem=str, metrics_guard=None,
        scheduler_guard=None,
    ))
    for size in (250_000, 1_000_000):
        noop = fixed(Response(b"x" * size, content_type=JSON))
        routes["POST", f"/noop-{size}"] = Route(noop, 2**23)
    certificate = ServingCertificate(sys.argv[1], clock=SYSTEM_CLOCK)
    server = HttpServer(routes, clock=SYSTEM_CLOCK)
    print(await server.start("127.0.0.1", 0, await certificate.wait_for_context()), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def a_filter(name: str, amount: int) -> bytes:
    resources = {"requests": {"cpu": "1", LICENCE: str(amount)}, "limits": {LICENCE: str(amount)}}
    pod = {
        "metadata": {"name": name, "namespace": "team-a", "uid": f"uid-of-{name}"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
    }
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": NODES}).encode()


def all_requests() -> dict[str, list[bytes]]:
    path = "/scheduler/filter"
    return {
        "passes": [a_request(path, a_filter("fits", 1))],
        "refused": [a_request(path, a_filter("large", 6))],
        "fixed 250 kB": [a_request("/noop-250000", a_filter("fits", 1))],
        "fixed 1 MB": [a_request("/noop-1000000", a_filter("fits", 1))],
    }


def measure() -> Iterator[Ratio]:
    found = measured(SERVER, all_requests(), lambda _: REQUESTS)
    late = {kind: statistics.median(each[1] for each in rounds) for kind, rounds in found.items()}
    # The responses of a no-op handler are as large as those that it is compared with.
    for kind, noop in (("passes", "fixed 250 kB"), ("refused", "fixed 1 MB")):
        yield Ratio(
            f"filter 5,000 nodes, {kind}, p99",
            late[kind] * 1e3,
            "no-op handler",
            late[noop] * 1e3,
            "ms",
        )
