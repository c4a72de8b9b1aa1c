"""One quota for CPU, VMs, GPUs and licences, on an embedded cluster."""

import json

from bursar.app.cluster.kinds import PODS, RUNTIME_CLASSES
from bursar.app.cluster.ports import Key, Patch, PatchKind
from bursar.app.counting.devices import device_parts
from bursar.app.counting.settings import CountingSettings
from bursar.app.quota.views.read_model import view_of
from bursar.core.counting.device_settings import DeviceCounting
from bursar.core.counting.peer_pods import PeerPodCounting, PeerPodMode
from bursar.core.devices.source import KOORDINATOR
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import GATE
from bursar.entry.counting import open_counting
from support.builders.manifests import pod_manifest
from support.builders.peer_pods import a_peer_pod, main, rewritten
from support.builders.quota_books import a_key
from support.quota.quota_loop import HOME, a_quota_loop
from support.virtual_time import in_virtual_time

SETTINGS = CountingSettings(
    peer_pods=PeerPodCounting(mode=PeerPodMode.DEDICATED),
    devices=DeviceCounting(sources=(KOORDINATOR,)),
)
HARD = {
    "requests.cpu": "4",
    "instances/peerpod": "1",
    "gpu/koordinator": "2",
    "requests.example.com/licence": "3",
}


def gated(name: str, requests: str) -> dict:
    return pod_manifest(f"{HOME}/{name}", GATE, requests=requests, limits=without_cpu(requests))


def without_cpu(requests: str) -> str:
    return " ".join(each for each in requests.split() if not each.startswith("cpu"))


def a_peer(name: str) -> dict:
    raw = a_peer_pod(
        main("cpu=64 example.com/licence=1", "example.com/licence=1"),
        schedulingGates=[{"name": GATE}],
    )
    document = rewritten(raw).document
    document["metadata"] |= {"name": name, "namespace": HOME}
    return document


def used(scene) -> dict[str, str]:
    accounts = scene.books.coverage.quota(a_key(f"{HOME}/q")).accounts
    return {name: str(account.used) for name, account in accounts.items()}


async def allocate(scene, name: str, text: str) -> None:
    body = {"metadata": {"annotations": {KOORDINATOR.annotation: text}}}
    patch = Patch(kind=PatchKind.MERGE, body=body)
    await scene.cluster.patch(PODS, Key(HOME, name), patch)
    await scene.rest()


@in_virtual_time
async def test_one_quota_limits_cpu_vms_gpus_and_licences():
    async with a_quota_loop(counter=open_counting(SETTINGS).counter) as scene:
        runtime = {"metadata": {"name": "kata-remote"}, "handler": "kata-remote"}
        await scene.cluster.create(RUNTIME_CLASSES, runtime)
        await scene.set_quota("q", **HARD)
        for body in (
            gated("web", "cpu=1"),
            gated("solver", "cpu=1 example.com/licence=2"),
            a_peer("vm"),
            gated("shared", "cpu=1 koordinator.sh/gpu=150"),
            gated("gpu-too-many", "nvidia.com/gpu=1"),
            gated("licence-too-many", "example.com/licence=1"),
            a_peer("vm-too-many"),
            gated("cpu-too-many", "cpu=2"),
        ):
            await scene.cluster.create(PODS, body, namespace=HOME)
            await scene.rest()

        assert used(scene) == {
            "requests.cpu": "3",
            "instances/peerpod": "1",
            "gpu/koordinator": "1500m",
            "requests.example.com/licence": "3",
        }
        reasons = view_of(scene.books).reasons
        for name, missing in (
            ("gpu-too-many", "missing: gpu/koordinator=500m"),
            ("licence-too-many", "missing: requests.example.com/licence=1"),
            ("vm-too-many", "missing: instances/peerpod=1"),
            ("cpu-too-many", "missing: requests.cpu=1"),
        ):
            assert missing in reasons[PodKey(HOME, name)]


@in_virtual_time
async def test_the_charge_follows_the_allocation_upwards_and_stays_when_it_is_forged():
    async with a_quota_loop(counter=open_counting(SETTINGS).counter) as scene:
        await scene.set_quota("q", **{"gpu/koordinator": "2"})
        pod = gated("half", "koordinator.sh/gpu=50")
        await scene.cluster.create(PODS, pod, namespace=HOME)
        await scene.rest()
        assert used(scene) == {"gpu/koordinator": "500m"}

        whole = {"koordinator.sh/gpu-core": "100"}
        await allocate(scene, "half", json.dumps({"gpu": [{"minor": 0, "resources": whole}]}))
        assert used(scene) == {"gpu/koordinator": "1"}
        for forged in ("{}", '{"gpu": []}', "["):
            await allocate(scene, "half", forged)
            assert used(scene) == {"gpu/koordinator": "500m"}


def test_without_sources_there_is_no_counter_of_devices():
    assert device_parts(DeviceCounting()) == ()
