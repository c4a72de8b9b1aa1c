"""Admission of the embedded cluster: who is gated, and who may grow."""

import asyncio
import json
import random

import pytest

from bursar.adapters.files.crds import crd_documents
from bursar.adapters.memory.admission import Admitted, Request
from bursar.adapters.memory.manifests import load_manifests
from bursar.adapters.memory.quota_admission import QuotaAdmission
from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import ForbiddenError, Key, Patch, PatchKind
from bursar.app.controller.controller import Controller, ControllerSettings
from bursar.app.controller.sources import term_sources
from bursar.app.quota.growth.resize import REQUEST_SECONDS
from bursar.core.quota.quota import GATE
from bursar.core.quota.targeting import GATING_LABEL, Targeting
from bursar.wire.model.pod_row import PodRowDecoder
from support.builders.manifests import arq_manifest, namespace_manifest, pod_manifest

TARGETING = Targeting(own_namespace="aaq")


def pod(name: str, space: str = "team", cpu: str = "100m", **spec: object) -> dict:
    return pod_manifest(f"{space}/{name}", requests=f"cpu={cpu}", **spec)


class SlowWebhook:
    """Somebody else's admission plugin, which takes its time for resizes of one pod."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.name, self.seconds = "", 0.0

    async def __call__(self, request: Request) -> Admitted:
        if request.subresource == "resize" and request.key.name == self.name:
            await self._clock.sleep(self.seconds)
        return Admitted()


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def slow(clock):
    return SlowWebhook(clock)


@pytest.fixture
async def world(clock, slow):
    """A cluster with quota admission and a controller, on a virtual clock."""
    luck = random.Random(7)  # noqa: S311 - a run must be repeatable
    keeper = QuotaAdmission(TARGETING, decode=PodRowDecoder().decode)
    cluster = MemoryCluster(
        clock, source=luck, mutating=(keeper.gate,), validating=(keeper.check_resize, slow)
    )
    keeper.reader = cluster
    await load_manifests(
        cluster,
        [
            *crd_documents(),
            namespace_manifest("aaq"),
            namespace_manifest("team", **{GATING_LABEL: ""}),
            namespace_manifest("free"),
        ],
    )
    controller = Controller(
        cluster,
        clock,
        luck,
        settings=ControllerSettings(namespace="aaq", identity="test"),
        open_sources=lambda: term_sources(cluster, clock, luck, TARGETING),
    )
    keeper.find_resizes = lambda: controller.resize_service
    working = asyncio.create_task(controller.run())
    yield cluster, clock
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def gates(cluster: MemoryCluster, key: Key) -> list[str]:
    spec = json.loads(await cluster.get(PODS, key))["spec"]
    return [gate["name"] for gate in spec.get("schedulingGates", ())]


async def grow(cluster: MemoryCluster, name: str, cpu: str, *, is_dry_run: bool = False) -> None:
    value = {"requests": {"cpu": cpu}}
    change = [{"op": "replace", "path": "/spec/containers/0/resources", "value": value}]
    patch = Patch(kind=PatchKind.JSON, body=change)
    key = Key("team", name)
    await cluster.patch(PODS, key, patch, subresource="resize", is_dry_run=is_dry_run)


async def test_only_new_pods_of_selected_namespaces_are_gated(world):
    cluster, clock = world
    await load_manifests(
        cluster,
        [arq_manifest("team/limits", {"pods": "1"}), pod("one"), pod("two"), pod("three", "free")],
    )

    assert await gates(cluster, Key("team", "one")) == [GATE]
    assert await gates(cluster, Key("free", "three")) == []
    await clock.advance(1)
    assert await gates(cluster, Key("team", "one")) == []
    assert await gates(cluster, Key("team", "two")) == [GATE]


async def test_a_pod_that_names_its_node_is_refused_with_advice(world):
    cluster, _ = world

    with pytest.raises(ForbiddenError, match=r"remove spec\.nodeName"):
        await load_manifests(cluster, [pod("bound", nodeName="n")])


async def test_a_pod_grows_only_into_room(world):
    cluster, clock = world
    await load_manifests(
        cluster,
        [
            arq_manifest("team/limits", {"requests.cpu": "400m"}),
            *(pod(f"p{each}") for each in range(3)),
        ],
    )
    await clock.advance(1)
    await grow(cluster, "p0", "150m")

    with pytest.raises(
        ForbiddenError, match=r"exceeded quota: limits, requested: requests.cpu=100m"
    ):
        await grow(cluster, "p1", "200m")
    await grow(cluster, "p1", "50m")
    await grow(cluster, "p2", "150m", is_dry_run=True)
    await clock.advance(1)
    await grow(cluster, "p2", "200m")


async def test_room_of_a_resize_that_takes_nearly_as_long_as_a_request_may_goes_to_nobody_else(
    world, slow
):
    cluster, clock = world
    limits = arq_manifest("team/limits", {"requests.cpu": "300m"})
    await load_manifests(cluster, [limits, pod("p0"), pod("p1")])
    await clock.advance(1)
    slow.name, slow.seconds = "p0", REQUEST_SECONDS - 1
    growing = asyncio.create_task(grow(cluster, "p0", "200m"))
    await load_manifests(cluster, [pod("p2")])

    await clock.advance(slow.seconds - 1)
    assert not growing.done()
    assert await gates(cluster, Key("team", "p2")) == [GATE]
    with pytest.raises(ForbiddenError, match="exceeded quota: limits"):
        await grow(cluster, "p1", "200m")

    await clock.advance(2)
    await growing
    await clock.advance(2 * REQUEST_SECONDS)
    assert await gates(cluster, Key("team", "p2")) == [GATE]
