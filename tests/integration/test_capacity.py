"""Capacity on nodes of a real control plane: its scheduler counts it, and the keeper keeps it."""

import asyncio
import contextlib
import http.client
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from functools import partial
from random import Random
from typing import Any

import pytest

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kube.client import KubeClient
from bursar.app.capacity.controller import CapacityController
from bursar.app.capacity.events import CapacityReason, record_event
from bursar.app.capacity.sources import CapacityPlaces
from bursar.app.capacity.watched_sources import capacity_sources
from bursar.app.cluster.events.recorder import EventRecorder
from bursar.app.cluster.kinds import NODES
from bursar.app.cluster.observe_kinds import observe_pod_rows
from bursar.app.cluster.ports import Key, Patch, PatchKind
from bursar.app.cluster.reconcile import ReconcileContext
from bursar.core.model.selectors.text import parse_selector
from bursar.core.peerpods.capacity import MARK_ANNOTATION
from bursar.core.peerpods.names import VM_RESOURCE
from controlplane import ControlPlane
from support.cluster.access import a_client, access_of
from support.until import until, until_blocking

COMPONENT = "bursar.io/capacity"


class Stage:
    """A namespace with upstream's settings, and a node of our own."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.mark = uuid.uuid4().hex[:8]
        self.namespace, self.node = f"capacity-{self.mark}", f"peer-node-{self.mark}"

    def build(self, limit: str) -> None:
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        # Pods need it, and the controller that makes it takes seconds after it was started.
        account = {"metadata": {"name": "default"}}
        self.plane.request("POST", f"/api/v1/namespaces/{self.namespace}/serviceaccounts", account)
        self.plane.add_node(self.node)
        self.call("POST", self.path("configmaps"), self.settings(limit))

    def path(self, plural: str, name: str = "") -> str:
        place = f"/api/v1/namespaces/{self.namespace}/{plural}"
        return f"{place}/{name}" if name else place

    def settings(self, limit: str) -> dict[str, Any]:
        data = {"PEERPODS_LIMIT_PER_NODE": limit}
        return {"metadata": {"name": "peer-pods-cm"}, "data": data}

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        code, answer = self.plane.request(method, path, body)
        assert code < http.client.BAD_REQUEST, answer
        return json.loads(answer)

    def remove(self) -> None:
        self.plane.request("DELETE", f"/api/v1/namespaces/{self.namespace}")
        self.plane.request("DELETE", f"/api/v1/nodes/{self.node}")

    # ------------------------------------------------------------------ what is there

    def make_pod(self, name: str) -> None:
        amounts = {VM_RESOURCE: "1"}
        container = {
            "name": "c",
            "image": "i",
            "resources": {"requests": amounts, "limits": amounts},
        }
        spec = {
            "nodeSelector": {"kubernetes.io/hostname": self.node},
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
        }
        self.call("POST", self.path("pods"), {"metadata": {"name": name}, "spec": spec})

    def pods(self) -> dict[str, dict[str, Any]]:
        listed = self.call("GET", self.path("pods"))["items"]
        return {pod["metadata"]["name"]: pod for pod in listed}

    def phases(self) -> list[str]:
        return sorted(pod["status"]["phase"] for pod in self.pods().values())

    def complaints(self) -> list[str]:
        """What the scheduler says about the pods for which it has no node."""
        return [
            condition.get("message", "")
            for pod in self.pods().values()
            for condition in pod["status"].get("conditions", ())
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        ]

    def read_node(self) -> dict[str, Any]:
        return self.call("GET", f"/api/v1/nodes/{self.node}")

    def offered(self) -> tuple[str | None, str | None]:
        status = self.read_node()["status"]
        return status["capacity"].get(VM_RESOURCE), status["allocatable"].get(VM_RESOURCE)

    async def offers(self, amount: str | None) -> None:
        """Wait until the node has this capacity."""
        wanted = (amount, amount)

        await until_blocking(
            lambda: self.offered() == wanted,
            lambda: f"the node offers {amount}, not {self.offered()}",
        )

    async def runs(self, phases: list[str]) -> None:
        """Wait until the pods have these phases."""
        await until_blocking(
            lambda: self.phases() == phases, lambda: f"{phases}, not {self.phases()}"
        )

    def marked(self) -> str | None:
        return self.read_node()["metadata"].get("annotations", {}).get(MARK_ANNOTATION)


@pytest.fixture
def stage(control_plane: ControlPlane) -> Iterator[Stage]:
    built = Stage(control_plane)
    built.build("2")
    yield built
    built.remove()


@contextlib.asynccontextmanager
async def keeping(stage: Stage) -> AsyncIterator[tuple[CapacityController, KubeClient]]:
    """A running capacity controller, as a leader would run it."""
    random = Random(1)  # noqa: S311 - the same pauses in every run
    places = CapacityPlaces(
        namespace=stage.namespace,
        preset_namespace=stage.namespace,
        preset_selector=parse_selector(f"kubernetes.io/hostname={stage.node}"),
    )
    async with a_client(access_of(stage.plane)) as client:
        recorder = EventRecorder(
            client,
            SYSTEM_CLOCK,
            reasons=CapacityReason,
            component=COMPONENT,
            instance="bursar-0",
        )
        pods = observe_pod_rows(client, SYSTEM_CLOCK, random)
        sources = capacity_sources(client, SYSTEM_CLOCK, random, places=places, pods=pods)
        work = CapacityController(
            context=ReconcileContext(
                writer=client, clock=SYSTEM_CLOCK, random=random, may_write=lambda: True
            ),
            sources=sources,
            record=partial(record_event, recorder),
        )
        jobs = [asyncio.create_task(job) for job in (pods.run(), recorder.run(), work.run())]
        try:
            yield work, client
        finally:
            for job in jobs:
                job.cancel()
            await asyncio.wait(jobs)


async def offer(client: KubeClient, stage: Stage, amount: str | None) -> None:
    """Write an amount as anybody with the right to might."""
    amounts = {VM_RESOURCE: amount}
    body = {"status": {"capacity": amounts, "allocatable": amounts}}
    patch = Patch(kind=PatchKind.MERGE, body=body)
    await client.patch(NODES, Key("", stage.node), patch, subresource="status")


async def test_the_scheduler_places_as_many_peer_pods_as_there_is_capacity(stage):
    """Capacity 2 and three pods: two run, the third waits; one is deleted, and it runs."""
    async with keeping(stage):
        await stage.offers("2")
        for name in ("one", "two", "three"):
            stage.make_pod(name)
        await stage.runs(["Pending", "Running", "Running"])
        await until(
            lambda: any(f"Insufficient {VM_RESOURCE}" in text for text in stage.complaints()),
            lambda: f"the scheduler complains of too little capacity, not {stage.complaints()}",
        )
        runs = next(name for name, pod in stage.pods().items() if pod["spec"].get("nodeName"))
        stage.call("DELETE", stage.path("pods", runs))
        await stage.runs(["Running", "Running"])

    assert runs not in stage.pods()


@pytest.mark.parametrize("amount", [None, "0", "1"])
async def test_wiped_capacity_is_restored(stage, amount):
    async with keeping(stage) as (work, client):
        await stage.offers("2")
        await offer(client, stage, amount)
        await stage.offers("2")
        await until(lambda: work.reconciler.healed == 1, "the repair is counted")

    assert stage.marked() == json.dumps({VM_RESOURCE: 2})
    listed = stage.call("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    told = [
        event["reason"]
        for event in listed
        if event["regarding"]["name"] == stage.node
        and event.get("reportingController") == COMPONENT
    ]
    assert told == ["CapacityHealed"]


async def test_node_registered_anew_gets_its_capacity_again(stage):
    async with keeping(stage):
        await stage.offers("2")
        stage.call("DELETE", f"/api/v1/nodes/{stage.node}")
        stage.plane.add_node(stage.node)
        await stage.offers("2")


async def test_capacity_follows_upstreams_settings_and_goes_with_them(stage):
    async with keeping(stage):
        await stage.offers("2")
        stage.call("PUT", stage.path("configmaps", "peer-pods-cm"), stage.settings("5"))
        await stage.offers("5")
        stage.call("PUT", stage.path("configmaps", "peer-pods-cm"), stage.settings("-1"))
        await stage.offers(None)

    assert stage.marked() is None


async def test_capacity_is_lowered_as_pods_end(stage):
    async with keeping(stage):
        await stage.offers("2")
        for name in ("one", "two"):
            stage.make_pod(name)
        await stage.runs(["Running", "Running"])
        stage.call("PUT", stage.path("configmaps", "peer-pods-cm"), stage.settings("0"))
        stage.call("DELETE", stage.path("pods", "one"))
        await stage.offers("1")
        stage.call("DELETE", stage.path("pods", "two"))
        await stage.offers("0")


async def test_what_is_right_costs_no_write(stage):
    async with keeping(stage) as (work, _):
        await stage.offers("2")
        await until(lambda: work.reconciler.reconciler.is_idle, "there is nothing left to do")
    async with keeping(stage) as (work, _):
        await until(lambda: work.is_synced, "the sources are synced")
        loop = work.reconciler.reconciler
        await until(lambda: loop.counters.reconciles and loop.is_idle, "the node was considered")

    assert loop.counters.writes == 0
