"""The informer of pods on a real API server: the same pods, whichever way they came."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.app.cluster.informer.backoff import BackoffRules
from bursar.app.cluster.informer.changes import Deleted, Upserted
from bursar.app.cluster.informer.informer import Informer, InformerRules
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.observe_kinds import identify_pod
from bursar.app.cluster.ports import InvalidError, Key, Query, UnavailableError
from bursar.app.cluster.sighting import locate
from bursar.wire.model.pod_row import PodRowDecoder
from support.cluster.access import a_client, access_of
from support.cluster.scripted_cluster import seeded
from support.until import PATIENCE_SECONDS, until


class Breakable:
    """A watcher whose line can be cut, and that may refuse to stream what exists."""

    def __init__(self, client, *, refuses_initial):
        self.client = client
        self.refuses_initial = refuses_initial
        self.is_down = asyncio.Event()

    async def watch(self, *place, send_initial=False, **how) -> AsyncIterator:
        if send_initial and self.refuses_initial:
            raise InvalidError("sendInitialEvents is forbidden", code=422)
        if self.is_down.is_set():
            raise UnavailableError("down")
        async with aclosing(self.client.watch(*place, send_initial=send_initial, **how)) as events:
            while True:
                arrival = asyncio.ensure_future(anext(events))
                cut = asyncio.ensure_future(self.is_down.wait())
                await asyncio.wait([arrival, cut], return_when=asyncio.FIRST_COMPLETED)
                cut.cancel()
                if not arrival.done():
                    arrival.cancel()
                    await asyncio.wait([arrival])
                    raise UnavailableError("cut")
                yield arrival.result()


def a_namespace(plane):
    name = f"informer-{uuid.uuid4().hex[:8]}"
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    account = {"metadata": {"name": "default"}}
    plane.request("POST", f"/api/v1/namespaces/{name}/serviceaccounts", account)
    return name


def write(plane, namespace, name, cpu):
    """A pod that nobody schedules, so that only this test changes it."""
    resources = {"requests": {"cpu": cpu}, "limits": {"memory": "64Mi"}}
    pod = {
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {
            "schedulingGates": [{"name": "example.com/hold"}],
            "containers": [{"name": "web", "image": "web", "resources": resources}],
        },
    }
    code, body = plane.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
    assert code == 201, body


def delete(plane, namespace, name):
    path = f"/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds=0"
    assert plane.request("DELETE", path)[0] == 200


async def collected(changes):
    return [change async for change in changes]


def cpu_of(informer, key):
    row = informer.find(key)
    return row and str(row.demand.quota_requests["cpu"])


@pytest.mark.parametrize("refuses_initial", [False, True])
async def test_the_cache_equals_the_cluster_across_an_outage(control_plane, refuses_initial):
    namespace = a_namespace(control_plane)
    for number in range(5):
        write(control_plane, namespace, f"web-{number}", "100m")
    async with a_client(access_of(control_plane)) as client:
        line = Breakable(client, refuses_initial=refuses_initial)
        query = Query(namespace=namespace)
        informer = Informer(
            client,
            line,
            clock=SYSTEM_CLOCK,
            random=seeded(1),
            resource=PODS,
            query=query,
            decode=PodRowDecoder().decode,
            identify=identify_pod,
            locate=locate,
            rules=InformerRules(page_limit=2, backoff=BackoffRules(max_s=0.8)),
        )
        reading = asyncio.create_task(collected(informer.changes()))
        running = asyncio.create_task(informer.run())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await informer.wait_synced()
        assert len(informer) == 5

        delete(control_plane, namespace, "web-0")
        await until(lambda: len(informer) == 4, "the deleted pod is gone")
        line.is_down.set()
        delete(control_plane, namespace, "web-1")
        delete(control_plane, namespace, "web-2")
        write(control_plane, namespace, "web-2", "1500m")
        await until(lambda: informer.counters.failures, "the outage is noticed")
        line.is_down.clear()
        changed = Key(namespace, "web-2")
        await until(lambda: cpu_of(informer, changed) == "1500m", "the new pod is seen")
        page = await client.list(PODS, query)
        running.cancel()
        await asyncio.wait([running])
        told = await reading

    truth = {identify_pod(PodRowDecoder().decode(body)) for body in page.items}
    assert {identify_pod(row) for row in informer.snapshot().objects()} == truth
    gone = [change.last.name for change in told if isinstance(change, Deleted)]
    assert sorted(gone) == ["web-0", "web-1", "web-2"]
    new = {c.new.name: c.new for c in told if isinstance(c, Upserted)}["web-2"]
    assert str(new.demand.quota_requests["cpu"]) == "1500m"
    assert new.profile.gates == ("example.com/hold",)
    assert isinstance(new.packed_stamp, bytes)
