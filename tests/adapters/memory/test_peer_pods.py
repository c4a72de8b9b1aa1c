"""Peer pods on the embedded cluster are rewritten as the webhook does it."""

import json
import random

import pytest

from bursar.adapters.memory.plugins.peer_pods import rewrite_peer_pods
from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import PODS, RUNTIME_CLASSES
from bursar.app.cluster.ports import ForbiddenError, Key, Patch, PatchKind
from bursar.core.peerpods.settings import PeerPodSettings
from support.builders.manifests import pod_manifest


@pytest.fixture
async def cluster():
    made = MemoryCluster(
        VirtualClock(),
        source=random.Random(1),  # noqa: S311
        mutating=(rewrite_peer_pods(PeerPodSettings()),),
    )
    await made.create(RUNTIME_CLASSES, {"metadata": {"name": "kata-remote"}, "handler": "kata"})
    return made


async def created(cluster, **fields) -> dict:
    body = pod_manifest("default/p", requests="cpu=2 memory=4Gi", **fields)
    return json.loads(await cluster.create(PODS, body, namespace="default"))


async def test_a_peer_pod_requests_a_vm_in_place_of_its_resources(cluster):
    pod = await created(cluster, runtimeClassName="kata-remote")

    one = {"kata.peerpods.io/vm": "1"}
    assert pod["spec"]["containers"][0]["resources"] == {"requests": one, "limits": one}
    assert (
        pod["metadata"]["annotations"]["io.katacontainers.config.hypervisor.default_vcpus"] == "2"
    )


async def test_other_pods_and_later_changes_are_left_alone(cluster):
    pod = await created(cluster)
    patch = Patch(kind=PatchKind.MERGE, body={"metadata": {"labels": {"a": "b"}}})
    await cluster.patch(PODS, Key("default", "p"), patch)

    assert pod["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "2", "memory": "4Gi"}}


async def test_a_peer_pod_that_cannot_be_sized_is_refused(cluster):
    body = pod_manifest("default/p", requests="cpu=2", runtimeClassName="kata-remote")
    body["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "1"}

    with pytest.raises(ForbiddenError, match="cpu"):
        await cluster.create(PODS, body, namespace="default")
