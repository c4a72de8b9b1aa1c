"""Peer pods under quotas on an embedded cluster: a VM of 96 CPUs does not pass a quota of one."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bursar.app.cluster.kinds import PODS, RUNTIME_CLASSES
from bursar.app.cluster.ports import Key, Patch, PatchKind
from bursar.app.counting.peer_pods import peer_pod_parts
from bursar.app.counting.settings import CountingSettings
from bursar.app.quota.views.read_model import view_of
from bursar.core.counting.counters import Counters
from bursar.core.counting.peer_pods import PeerPodCounting, PeerPodMode
from bursar.core.kubevirt.mode import VmiMode
from bursar.core.peerpods.settings import PeerPodSettings
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import GATE
from bursar.core.quota.refusal import Reason
from bursar.entry.counting import open_counting
from bursar.wire.model.pod_row import PodRowDecoder
from support.builders.peer_pods import KATA, RECORD, UPSTREAM, a_peer_pod, main, rewritten
from support.builders.quota_books import a_key
from support.quota.quota_loop import HOME, QuotaLoopScene, a_quota_loop
from support.virtual_time import in_virtual_time

FORGED = json.dumps(
    {"v": "1", "containers": [{"name": "c0", "kind": "container", "requests": {"cpu": "1m"}}]}
)
BY_WEBHOOK = pytest.mark.parametrize(
    "settings", [PeerPodSettings(), UPSTREAM], ids=["ours", "upstream's"]
)


def a_gated_pod(name: str, cpu: str, settings: PeerPodSettings) -> dict:
    raw = a_peer_pod(main(f"cpu={cpu} memory=1Gi"), schedulingGates=[{"name": GATE}])
    document = rewritten(raw, settings).document
    document["metadata"] |= {"name": name, "namespace": HOME}
    return document


def counter_of(mode: PeerPodMode = PeerPodMode.VIRTUAL):
    return open_counting(CountingSettings(peer_pods=PeerPodCounting(mode=mode))).counter


@asynccontextmanager
async def a_loop(mode: PeerPodMode = PeerPodMode.VIRTUAL) -> AsyncIterator[QuotaLoopScene]:
    async with a_quota_loop(counter=counter_of(mode)) as scene:
        runtime = {"metadata": {"name": "kata-remote"}, "handler": "kata-remote"}
        await scene.cluster.create(RUNTIME_CLASSES, runtime)
        yield scene


def used(scene, resource: str) -> str:
    return str(scene.books.coverage.quota(a_key(f"{HOME}/q")).accounts[resource].used)


async def gates(scene, name: str) -> list:
    pod = json.loads(await scene.cluster.get(PODS, Key(HOME, name)))
    return pod["spec"].get("schedulingGates", [])


@BY_WEBHOOK
@in_virtual_time
async def test_a_vm_of_96_cpus_waits_under_a_quota_of_one_with_the_arithmetic(settings):
    async with a_loop() as scene:
        await scene.set_quota("q", requests_cpu="1")
        await scene.cluster.create(PODS, a_gated_pod("huge", "96", settings), namespace=HOME)
        await scene.cluster.create(PODS, a_gated_pod("small", "1", settings), namespace=HOME)
        await scene.rest()

        assert await gates(scene, "huge")
        assert not await gates(scene, "small")
        assert used(scene, "requests.cpu") == "1"
        reason = view_of(scene.books).reasons[PodKey(HOME, "huge")]
        assert "requested: requests.cpu=96, used: requests.cpu=1, limited: requests.cpu=1" in reason


@BY_WEBHOOK
@in_virtual_time
async def test_a_forged_record_changes_nothing_before_or_after_the_release(settings):
    async with a_loop() as scene:
        await scene.set_quota("q", requests_cpu="100")
        pod = a_gated_pod("huge", "96", settings)
        pod["metadata"]["annotations"][RECORD] = FORGED
        await scene.cluster.create(PODS, pod, namespace=HOME)
        await scene.rest()
        assert used(scene, "requests.cpu") == "96"

        for record in (None, FORGED, "{}"):
            body = {"metadata": {"annotations": {RECORD: record}}}
            patch = Patch(kind=PatchKind.MERGE, body=body)
            await scene.cluster.patch(PODS, Key(HOME, "huge"), patch)
            await scene.rest()
            assert used(scene, "requests.cpu") == "96"


@in_virtual_time
async def test_a_pod_of_an_unknown_instance_type_waits_and_says_why():
    async with a_loop() as scene:
        await scene.set_quota("q", requests_cpu="1")
        pod = a_gated_pod("typed", "1", UPSTREAM)
        pod["metadata"]["annotations"][f"{KATA}machine_type"] = "p5.48xlarge"
        await scene.cluster.create(PODS, pod, namespace=HOME)
        await scene.rest()

        assert await gates(scene, "typed")
        assert scene.waits[-1].refusals[0].reason is Reason.NOT_COUNTED
        reason = view_of(scene.books).reasons[PodKey(HOME, "typed")]
        assert "the size of instance type 'p5.48xlarge' is not known" in reason


@in_virtual_time
async def test_a_resize_costs_more_only_where_the_containers_outgrow_the_vm():
    """Without a webhook the containers keep their resources, and the author sizes the VM."""
    async with a_loop() as scene:
        await scene.set_quota("q", requests_cpu="10")
        pod = a_peer_pod(
            main("cpu=4"),
            annotations={f"{KATA}default_vcpus": "8"},
            schedulingGates=[{"name": GATE}],
        )
        pod["metadata"] |= {"name": "web", "namespace": HOME}
        await scene.cluster.create(PODS, pod, namespace=HOME)
        await scene.rest()
        assert used(scene, "requests.cpu") == "8"

        service = scene.resize_service()
        decoder = PodRowDecoder(scene.counter.derive_facts)
        stored = json.loads(await scene.cluster.get(PODS, Key(HOME, "web")))
        for cpu, fits in (("7", True), ("10", True), ("11", False)):
            stored["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
            row = decoder.decode(json.dumps(stored).encode())
            refusals = await service.resize(row, is_dry_run=True)
            assert (refusals == ()) is fits, cpu


@in_virtual_time
async def test_names_of_their_own_limit_peer_pods_beside_other_pods():
    async with a_loop(PeerPodMode.DEDICATED) as scene:
        await scene.set_quota("q", **{"cpu/peerpod": "8", "instances/peerpod": "2", "cpu": "1"})
        for name in ("a", "b", "c"):
            pod = a_gated_pod(name, "4", PeerPodSettings())
            await scene.cluster.create(PODS, pod, namespace=HOME)
            await scene.rest()
        await scene.create_pod("plain", "1")
        await scene.rest()

        assert [used(scene, f"{each}/peerpod") for each in ("cpu", "instances")] == ["8", "2"]
        assert used(scene, "cpu") == "1"
        reason = view_of(scene.books).reasons[PodKey(HOME, "c")]
        assert "used: cpu/peerpod=8,instances/peerpod=2" in reason


def test_peer_pods_are_counted_unless_the_setting_ignores_them():
    ignored = PeerPodCounting(mode=PeerPodMode.IGNORE)
    nothing = CountingSettings(vmi_mode=VmiMode.IGNORE, peer_pods=ignored)

    assert isinstance(counter_of(), Counters)
    assert peer_pod_parts(ignored) == ()
    assert isinstance(open_counting(nothing).counter, NativeCounter)
