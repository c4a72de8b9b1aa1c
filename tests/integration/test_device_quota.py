"""One quota for CPU, VMs, GPUs and licences: API server and controller, both real."""

import json

import pytest

from bursar.app.cluster.kinds import PODS, RUNTIME_CLASSES
from bursar.app.cluster.ports import Key
from bursar.core.devices.source import KOORDINATOR
from bursar.core.peerpods.settings import PeerPodSettings
from bursar.core.quota.quota import GATE
from support.builders.manifests import pod_manifest
from support.builders.peer_pods import VM, a_peer_pod, main, rewritten
from support.processes.kubectl import kubectl
from support.quota.controller_processes import SHORT_TERMS, Controllers, administering
from support.until import until

RUNTIME = "kata-device-quota"
LICENCE = "example.com/licence"
HARD = {
    "requests.cpu": "4",
    "instances/peerpod": "1",
    "gpu/koordinator": "2",
    f"requests.{LICENCE}": "3",
}
OPTIONS = (
    "--count-devices",
    "--peerpod-mode=DedicatedVirtualResources",
    f"--peerpod-runtime-class={RUNTIME}",
    *SHORT_TERMS,
)


@pytest.fixture(scope="module")
def control_plane(quota_cluster):
    return quota_cluster


@pytest.fixture
def controllers(control_plane, tmp_path):
    with Controllers(control_plane, tmp_path, *OPTIONS) as running:
        yield running


def gated(name: str, requests: str) -> dict:
    whole = " ".join(each for each in requests.split() if not each.startswith("cpu"))
    spec = {"schedulerName": "nobody"}
    return pod_manifest(name, GATE, requests=requests, limits=whole, **spec)


def a_peer(name: str) -> dict:
    raw = a_peer_pod(
        main(f"cpu=64 {LICENCE}=1", f"{LICENCE}=1"),
        runtimeClassName=RUNTIME,
        schedulerName="nobody",
        schedulingGates=[{"name": GATE}],
    )
    document = rewritten(raw, PeerPodSettings(runtime_classes=frozenset({RUNTIME}))).document
    document["metadata"] |= {"name": name, "namespace": ""}
    assert VM in json.dumps(document["spec"])
    return document


@pytest.mark.usefixtures("controllers")
async def test_one_quota_limits_cpu_vms_gpus_and_licences(control_plane):
    async with administering(control_plane) as people:
        runtime = {"metadata": {"name": RUNTIME}, "handler": RUNTIME}
        await people.client.create(RUNTIME_CLASSES, runtime)
        try:
            quota = Key(await people.namespace("mixed"), "team")
            await people.quota(quota, HARD)
            for body in (
                gated("solver", f"cpu=1 {LICENCE}=2"),
                a_peer("vm"),
                gated("shared", "cpu=1 koordinator.sh/gpu=150"),
            ):
                await people.client.create(PODS, body, namespace=quota.namespace)
            wanted = {
                "requests.cpu": "2",
                "instances/peerpod": "1",
                "gpu/koordinator": "1500m",
                f"requests.{LICENCE}": "3",
            }
            await people.uses(quota, **wanted)

            late = {
                "gpu-late": (gated("gpu-late", "nvidia.com/gpu=1"), "gpu/koordinator=500m"),
                "vm-late": (a_peer("vm-late"), "instances/peerpod=1"),
                "licence-late": (gated("licence-late", f"{LICENCE}=1"), f"requests.{LICENCE}=1"),
            }
            for name, (body, missing) in late.items():
                await people.client.create(PODS, body, namespace=quota.namespace)
                await until(
                    lambda name=name, missing=missing: missing in notes(control_plane, quota, name),
                    lambda name=name: f"{name}: {notes(control_plane, quota, name)}",
                )

            # What the scheduler allocates beyond the request is charged as well.
            whole = {"koordinator.sh/gpu-core": "100"}
            allocated = [{"minor": number, "resources": whole} for number in range(2)]
            text = json.dumps({"gpu": allocated})
            change = {"metadata": {"annotations": {KOORDINATOR.annotation: text}}}
            await people.change(PODS, Key(quota.namespace, "shared"), change)
            await people.uses(quota, **{**wanted, "gpu/koordinator": "2"})
        finally:
            await people.client.delete(RUNTIME_CLASSES, Key("", RUNTIME))


def notes(control_plane, quota: Key, name: str) -> str:
    """What the events of a pod say is missing."""
    events = ("get", "events.events.k8s.io", "-n", quota.namespace, "-o", "json")
    listed = json.loads(kubectl(control_plane, *events))["items"]
    return "\n".join(each["note"] for each in listed if each["regarding"]["name"] == name)
