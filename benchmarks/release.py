"""Gates lifted by the loop, against bare writes of the same kind without any decision.

Both are measured in turn on one real API server, with the same client and as many writes
under way, on a backlog of gated pods, while another process goes on creating more. The
loop in addition follows every pod by a watch, decides by its books, and keeps them.

The second figure is the resident memory of a process with 150,000 pods in rows and books.
"""

import asyncio
import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import SystemRandom
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.files.crds import crd_documents
from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kube.kubeconfig.config import load_kubeconfig
from bursar.adapters.kube.transport import Limits
from bursar.app.cluster.informer.store import Store
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import Key, NotFoundError, Patch, PatchKind, Query
from bursar.app.quota.kinds import APPLICATION_QUOTAS
from bursar.app.quota.quota_loop import LIFTS_MAX, QuotaLoop
from bursar.app.quota.release.lifting import GateLifter
from bursar.app.quota.sources import quota_sources
from bursar.core.model.quantity import Quantity
from bursar.core.quota.books import Books
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.coverage import Namespace
from bursar.core.quota.quota import GATE, NamespaceSelector, Quota, QuotaKey, QuotaKind
from bursar.core.quota.targeting import GATING_LABEL, Targeting
from bursar.wire.model.pod_row import PodRowDecoder
from controlplane import ControlPlane
from informer import fill_rows
from pod_bodies import NAMESPACES, PER_WORKLOAD
from ratio import Ratio

BACKLOG = 600
ROUNDS = 7
MEMORY_PODS = 150_000
CREATIONS_AT_ONCE = 16
PACE_SECONDS = 0.02
"""Between two creations of the process that goes on creating while we measure."""
HARD = {"pods": "1000000", "requests.cpu": "1000000", "requests.memory": "1000Ti"}

LIMITS = Limits(in_flight_max=LIFTS_MAX)
"""As a controller has them."""

Release = Callable[[KubeClient, str], Awaitable["Cost"]]


class Cost(NamedTuple):
    """What it took to lift the backlog."""

    seconds: float
    cpu_seconds: float


def measure() -> Iterator[Ratio]:
    loop, bare = asyncio.run(_costs())
    yield Ratio(
        "gates lifted",
        BACKLOG / _median(each.seconds for each in loop),
        "bare writes",
        BACKLOG / _median(each.seconds for each in bare),
        "pods/s",
        ">= 0.8",
    )
    yield Ratio(
        "CPU per gate lifted",
        _median(each.cpu_seconds for each in loop) / BACKLOG * 1e6,
        "bare writes",
        _median(each.cpu_seconds for each in bare) / BACKLOG * 1e6,
        "us",
    )
    yield from _memory()


def _median(numbers: Iterable[float]) -> float:
    return statistics.median(numbers)


async def _costs() -> tuple[list[Cost], list[Cost]]:
    """Of the loop and of the bare writer, turn and turn about so that noise hits both."""
    loop: list[Cost] = []
    bare: list[Cost] = []
    with _control_plane() as plane:
        async with _client(str(plane.kubeconfig), LIMITS) as client:
            await _await_definitions(client)
            turns = [("loop", by_quota_loop, loop), ("bare", by_bare_writes, bare)]
            for number in range(ROUNDS):
                for name, release, costs in turns:
                    costs.append(await _round(plane, client, f"{name}-{number}", release))
                turns.reverse()
                rates = [f"{BACKLOG / each[-1].seconds:,.0f}" for each in (loop, bare)]
                print(f"  {' and '.join(rates)} pods/s", file=sys.stderr, flush=True)
    return loop, bare


async def _round(plane: ControlPlane, client: KubeClient, namespace: str, release: Release) -> Cost:
    kubeconfig = str(plane.kubeconfig)
    _prepare(plane, namespace)
    with _creating(kubeconfig, namespace, "backlog", BACKLOG) as creator:
        assert await asyncio.to_thread(creator.wait) == 0, "the backlog was not created"
    with _creating(kubeconfig, namespace, "more", 0) as creator:
        assert creator.stdout is not None
        await asyncio.to_thread(creator.stdout.readline)
        cost = await release(client, namespace)
        assert creator.poll() is None, "pods were created all the while"
        creator.terminate()
    return cost


# ------------------------------------------------------------------ the two ways


async def by_quota_loop(client: KubeClient, _: str) -> Cost:
    """From the moment everything has been seen until the backlog is gone."""
    sources = quota_sources(client, SYSTEM_CLOCK, SystemRandom(), Targeting(own_namespace="bursar"))
    lifter = GateLifter(
        client,
        SYSTEM_CLOCK,
        random=SystemRandom(),
        may_write=lambda: True,
        write_seconds=30,
        remaining_seconds=lambda: 30,
    )
    loop = QuotaLoop(
        Books(NativeCounter().count),
        sources,
        lifter,
        clock=SYSTEM_CLOCK,
        record_wait=lambda _: None,
        on_usage_changed=lambda _: None,
    )
    informers = (sources.pods, sources.namespaces, *sources.quotas)
    running = [asyncio.create_task(each.run()) for each in informers]
    for informer in informers:
        await informer.wait_synced()
    running.append(asyncio.create_task(loop.run()))
    await _until(lambda: loop.is_synced)
    cost = await _cost_of(_until(lambda: loop.counters.released >= BACKLOG))
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    assert loop.books.ledger.pod_count, "the books were kept"
    return cost


async def _cost_of(work: Awaitable[object]) -> Cost:
    began, cpu_began = time.perf_counter(), time.process_time()
    await work
    return Cost(time.perf_counter() - began, time.process_time() - cpu_began)


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(300):
        while not is_so():  # noqa: ASYNC110 - a counter cannot be awaited
            await asyncio.sleep(0.02)


async def by_bare_writes(client: KubeClient, namespace: str) -> Cost:
    """The same writes, as fast as they are taken."""
    page = await client.list(PODS, Query(namespace=namespace))
    decode = PodRowDecoder().decode
    rows = iter(sorted(map(decode, page.items), key=lambda row: row.name)[:BACKLOG])

    async def work() -> None:
        for row in rows:
            stamp = row.stamp
            fence = {"uid": stamp.uid, "resourceVersion": stamp.resource_version}
            steps = [
                *({"op": "test", "path": f"/metadata/{k}", "value": v} for k, v in fence.items()),
                {"op": "remove", "path": "/spec/schedulingGates"},
            ]
            patch = Patch(kind=PatchKind.JSON, body=steps)
            await client.patch(PODS, Key(namespace, row.name), patch)

    return await _cost_of(asyncio.gather(*(work() for _ in range(LIFTS_MAX))))


# ------------------------------------------------------------------ the cluster


@contextmanager
def _control_plane() -> Iterator[ControlPlane]:
    plane = ControlPlane()
    plane.start(parts=[plane.etcd, plane.apiserver])
    try:
        for definition in crd_documents():
            plane.request(
                "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition
            )
        yield plane
    finally:
        plane.stop()


@asynccontextmanager
async def _client(kubeconfig: str, limits: Limits) -> AsyncIterator[KubeClient]:
    access = load_kubeconfig([kubeconfig], environment=os.environ, clock=SYSTEM_CLOCK)
    rng = SystemRandom()
    async with KubeClient(access, clock=SYSTEM_CLOCK, rng=rng, limits=limits) as client:
        yield client


async def _await_definitions(client: KubeClient) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await client.list(APPLICATION_QUOTAS)
            except NotFoundError:
                await asyncio.sleep(0.2)
            else:
                return


def _prepare(plane: ControlPlane, name: str) -> None:
    """A namespace with a quota that has room for all, and what pods need to be accepted."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    quota = {
        "apiVersion": APPLICATION_QUOTAS.api_version,
        "kind": APPLICATION_QUOTAS.kind,
        "metadata": {"name": "plenty"},
        "spec": {"hard": HARD},
    }
    labelled = {"name": name, "labels": {GATING_LABEL: ""}}
    home = f"namespaces/{name}"
    quotas = f"/apis/{APPLICATION_QUOTAS.api_version}/{home}/{APPLICATION_QUOTAS.plural}"
    for path, body in (
        ("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": labelled}),
        (f"/api/v1/{home}/serviceaccounts", account),
        (quotas, quota),
    ):
        code, answer = plane.request("POST", path, body)
        assert code == 201, answer


@contextmanager
def _creating(
    kubeconfig: str, namespace: str, prefix: str, count: int
) -> Iterator[subprocess.Popen]:
    """Another process that creates gated pods: so many, or one by one until it is ended."""
    command = [sys.executable, __file__, "create", kubeconfig, namespace, prefix, str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as creator:
        try:
            yield creator
        finally:
            creator.terminate()


async def _create(kubeconfig: str, namespace: str, prefix: str, count: int) -> None:
    numbers = iter(range(count or sys.maxsize))
    limits = Limits(in_flight_max=CREATIONS_AT_ONCE)
    async with _client(kubeconfig, limits) as client:

        async def work() -> None:
            for number in numbers:
                await client.create(PODS, _gated_pod(f"{prefix}-{number:06d}"), namespace=namespace)
                if not count:
                    print(number, flush=True)
                    await asyncio.sleep(PACE_SECONDS)

        await asyncio.gather(*(work() for _ in range(CREATIONS_AT_ONCE if count else 1)))


def _gated_pod(name: str) -> dict:
    size = {"cpu": "100m", "memory": "64Mi"}
    container = {"name": "c", "image": "example.com/c", "resources": {"requests": size}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [container], "schedulingGates": [{"name": GATE}]},
    }


# ------------------------------------------------------------------ memory, in a process apart


def _memory() -> Iterator[Ratio]:
    both, rows = (_apart(what) for what in ("books", "rows"))
    what = f"{MEMORY_PODS // 1000}k pods, rows and books"
    yield Ratio(what, both, "rows alone", rows, "MB RSS", "<= 200")


def _apart(what: str) -> float:
    command = [sys.executable, __file__, what, str(MEMORY_PODS)]
    return float(subprocess.run(command, check=True, capture_output=True).stdout)


def fill_books(store: Store) -> Books:
    """Every pod under two quotas: one of its namespace, and one over all."""
    books = Books(NativeCounter().count)
    hard = {name: Quantity.parse(text) for name, text in HARD.items()}
    for number in range(NAMESPACES):
        name = f"team-{number}"
        books.see_namespace(Namespace(name=name))
        books.see_quota(Quota(key=QuotaKey(QuotaKind.NAMESPACED, name, "plenty"), hard=hard))
    everywhere = QuotaKey(QuotaKind.CLUSTER, "", "plenty")
    books.see_quota(Quota(key=everywhere, hard=hard, selector=NamespaceSelector()))
    for row in store.snapshot().objects():
        books.see_pod(row)
    books.decide()
    return books


def resident_megabytes(what: str, count: int) -> float:
    held = list(fill_rows(count, PER_WORKLOAD))
    if what == "books":
        held.append(fill_books(held[0]))
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def main(what: str, *arguments: str) -> None:
    if what == "create":
        kubeconfig, namespace, prefix, count = arguments
        asyncio.run(_create(kubeconfig, namespace, prefix, int(count)))
    else:
        print(resident_megabytes(what, int(arguments[0])))


if __name__ == "__main__":
    main(*sys.argv[1:])
