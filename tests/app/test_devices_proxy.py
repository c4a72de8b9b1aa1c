"""The proxy adds devices to kubelet's response, and never returns less than that response."""

import asyncio
from dataclasses import replace

import pytest

from bursar.app.devices.planning import CompatPlanning, HoldingPlanning
from bursar.app.devices.ports import CallError, Method, Version
from bursar.app.devices.proxy import ProxyRules
from bursar.core.devices.allocation import ProblemKind
from bursar.core.devices.claim import Claims
from bursar.core.devices.inventory import Device, Inventory
from bursar.core.devices.source import KOORDINATOR
from bursar.wire.devices.pod_resources import v1_pb2 as v1
from support.devices.pod_resources_proxy import GPU, SOURCES, devices, gpu_pod, on_scene

ONE = (GPU, "GPU-1")
TWO = (GPU, "GPU-2")
NIC = ("vendor.com/nic", "nic-7")
LISTED = Inventory((Device(kind="gpu", minor=0, id="GPU-1", vendor="nvidia"),))
ALL_LISTED = Inventory(
    tuple(Device(kind="gpu", minor=n, id=f"GPU-{n}", vendor="nvidia") for n in range(1, 6))
)
HURRIED = (Version.V1, Method.LIST, b"", 2.0)
"""A List by a client that has two seconds left."""

# ------------------------------------------------------------------ filling


@on_scene()
async def test_list_has_kubelets_devices_and_those_of_the_annotation(scene):
    scene.kubelet.pods = {"a": [NIC], "plain": []}
    scene.source.pods = [gpu_pod("a", "GPU-1"), gpu_pod("plain")]

    assert await scene.list() == {"a": [NIC, ONE], "plain": []}
    assert scene.proxy.counts.filled == 1


@on_scene(planning=HoldingPlanning(SOURCES))
async def test_no_device_is_told_of_before_the_inventory_is_known(scene):
    """As installed: an annotation alone, which the tenant may have written, gives nothing."""
    scene.kubelet.pods = {"a": [NIC]}
    scene.source.pods = [gpu_pod("a", "GPU-1", "GPU-9")]

    assert await scene.list() == {"a": [NIC]}
    scene.inventory.inventory = LISTED
    assert await scene.list() == {"a": [NIC, ONE]}


@on_scene()
async def test_devices_that_were_added_are_counted_over_all_answers(scene):
    scene.kubelet.pods = {"a": [ONE], "b": []}
    scene.source.pods = [gpu_pod("a", "GPU-1", "GPU-2"), gpu_pod("b", "GPU-3", "GPU-4", "GPU-5")]
    scene.inventory.inventory = ALL_LISTED
    counted = []
    for ask in (
        scene.list,
        scene.list,
        lambda: scene.list(Version.V1ALPHA1),
        lambda: scene.get("b"),
        lambda: scene.get("b"),
        lambda: scene.proxy.call(Version.V1, Method.ALLOCATABLE, b"", None),
    ):
        await ask()
        counted.append(scene.proxy.counts.filled)

    assert counted == [4, 8, 12, 15, 18, 23]


@on_scene(rules=ProxyRules(fills_list_only=True), planning=CompatPlanning())
async def test_devices_added_koordinators_way_are_counted_too(scene):
    for number in range(700):
        scene.kubelet.pods = {f"p-{number}": []}
        scene.source.pods = [gpu_pod(f"p-{number}", "GPU-1", "GPU-2")]
        await scene.list()

    assert scene.proxy.counts.filled == 1400


@on_scene()
async def test_get_and_list_agree(scene):
    scene.kubelet.pods = {"a": [NIC]}
    scene.source.pods = [gpu_pod("a", "GPU-1")]

    assert await scene.get("a") == (await scene.list())["a"] == [NIC, ONE]


@on_scene()
async def test_old_version_is_filled_too_and_made_of_the_new_one_where_kubelet_dropped_it(scene):
    scene.place("a", "GPU-1")
    with_it = await scene.list(Version.V1ALPHA1)
    scene.kubelet.has_alpha = False
    without = await scene.list(Version.V1ALPHA1)

    assert with_it == without == {"a": [ONE]}
    assert scene.kubelet.calls == ["v1alpha1 List", "v1alpha1 List", "v1 List"]


@on_scene()
async def test_allocatable_has_the_inventory_beside_kubelets_devices(scene):
    nic = v1.ContainerDevices(resource_name=NIC[0], device_ids=[NIC[1]])
    body = v1.AllocatableResourcesResponse(devices=[nic], cpu_ids=[0, 1]).SerializeToString()
    scene.kubelet.allocatable_body = body
    unknown = await scene.proxy.call(Version.V1, Method.ALLOCATABLE, b"", None)
    scene.inventory.inventory = LISTED
    known = v1.AllocatableResourcesResponse.FromString(
        await scene.proxy.call(Version.V1, Method.ALLOCATABLE, b"", None)
    )

    assert unknown == body
    assert [(line.resource_name, *line.device_ids) for line in known.devices] == [NIC, ONE]
    assert list(known.cpu_ids) == [0, 1]


@on_scene()
async def test_answer_without_anything_to_add_is_the_very_bytes_of_kubelet(scene):
    scene.kubelet.pods = {"a": [NIC], "b": []}
    scene.source.pods = [gpu_pod("a"), gpu_pod("b")]
    direct = await scene.kubelet.call(Version.V1, Method.LIST, b"", None)

    assert await scene.proxy.call(Version.V1, Method.LIST, b"", None) == direct


@on_scene()
async def test_request_with_fields_of_a_newer_kubelet_goes_there_as_it_is(scene):
    scene.place("a", "GPU-1")
    await scene.proxy.call(Version.V1, Method.LIST, b"\x0a\x01x", None)
    await scene.proxy.call(Version.V1, Method.ALLOCATABLE, b"\x0a\x01y", None)

    assert scene.kubelet.requests == [b"\x0a\x01x", b"\x0a\x01y"]


# ------------------------------------------------------------------ cost


@on_scene()
async def test_fifty_clients_at_once_cost_kubelet_and_source_one_call_each(scene):
    scene.kubelet.pods = {"a": []}
    scene.kubelet.takes_s = scene.source.takes_s = 0.1
    scene.source.pods = [gpu_pod("a", "GPU-1")]

    assert await scene.lists(50) == [{"a": [ONE]}] * 50
    assert (scene.kubelet.calls, scene.source.reads) == (["v1 List"], 1)


@on_scene()
async def test_kubelet_and_source_are_asked_at_the_same_time(scene):
    scene.kubelet.takes_s = scene.source.takes_s = 1.0
    await scene.list()

    assert scene.clock.monotonic() == 1.0


@on_scene()
async def test_pods_are_looked_at_closely_only_when_they_or_the_inventory_change(scene):
    scene.kubelet.pods = {"a": [], "b": []}
    for _ in range(5):
        # The source reads anew each time: other objects that say the same.
        scene.source.pods = [gpu_pod("a", "GPU-1"), gpu_pod("b", "GPU-2")]
        await scene.list()
        await scene.clock.sleep(2)
    unchanged = scene.planning.resolved
    scene.source.pods = [gpu_pod("a", "GPU-3"), gpu_pod("b", "GPU-2")]
    await scene.list()
    changed = scene.planning.resolved
    scene.inventory.inventory = LISTED
    await scene.list()

    assert (unchanged, changed, scene.planning.resolved) == (2, 3, 5)


@on_scene()
async def test_client_that_leaves_ends_its_work_and_nobody_elses(scene):
    scene.kubelet.pods = {"a": []}
    scene.kubelet.takes_s = 1
    gone = asyncio.create_task(scene.list())
    await scene.clock.sleep(0.5)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)

    assert await scene.list() == {"a": []}
    assert scene.clock.monotonic() == 1.5


# ------------------------------------------------------------------ pods just born


@on_scene()
async def test_pod_that_is_born_between_two_calls_has_its_devices_in_the_second(scene):
    scene.place("a", "GPU-1")
    await scene.list()
    scene.kubelet.pods["b"] = []
    scene.source.pods.append(gpu_pod("b", "GPU-2"))

    assert await scene.get("b") == [TWO]
    assert await scene.list() == {"a": [ONE], "b": [TWO]}


# ------------------------------------------------------------------ failures


@on_scene()
async def test_kubelets_errors_are_passed_on_with_code_and_text(scene):
    with pytest.raises(CallError) as missing:
        await scene.get("nobody")
    scene.kubelet.error = CallError(14, "connection refused")
    with pytest.raises(CallError) as down:
        await scene.lists(3)

    assert (missing.value.code, missing.value.text) == (2, "pod nobody in namespace team not found")
    assert (down.value.code, down.value.text) == (14, "connection refused")


@on_scene()
async def test_dead_source_costs_the_devices_and_not_the_answer(scene):
    scene.kubelet.pods = {"a": [NIC]}
    scene.source.is_broken = True

    assert await scene.list() == {"a": [NIC]}
    assert await scene.get("a") == [NIC]
    assert scene.proxy.counts.bare == 2


@on_scene()
async def test_last_good_pods_fill_answers_while_the_source_fails(scene):
    scene.place("a", "GPU-1")
    await scene.list()
    scene.source.is_broken = True
    await scene.clock.sleep(200)

    assert await scene.list() == {"a": [ONE]}
    assert (scene.proxy.counts.aged, scene.proxy.counts.bare) == (1, 0)
    await scene.clock.sleep(200)
    assert await scene.list() == {"a": []}
    assert scene.proxy.counts.bare == 1


@on_scene(rules=ProxyRules(fails_closed=True))
async def test_whoever_prefers_no_answer_to_one_without_devices_gets_none(scene):
    scene.kubelet.pods = {"a": []}
    scene.source.is_broken = True
    with pytest.raises(CallError) as refused:
        await scene.list()

    assert refused.value.code == 14
    assert refused.value.text == "the pods of this node are not known: 403 Forbidden"
    assert scene.proxy.counts.refused == 1


@on_scene()
async def test_source_that_hangs_costs_nobody_the_answer_nor_the_devices_of_pods_known(scene):
    scene.place("a", "GPU-1")
    await scene.list()
    scene.source.takes_s = 3600
    answers = []
    for _ in range(42):
        await scene.clock.sleep(1)
        async with asyncio.timeout(1):
            answers.append(devices(await scene.proxy.call(*HURRIED)))
    await scene.proxy.pods.close()

    assert answers == [{"a": [ONE]}] * 42
    assert scene.proxy.counts.bare == 0
    assert scene.proxy.counts.aged >= 40
    assert scene.proxy.pods.counts.failures >= 3
    assert scene.proxy.pods.counts.failing_since_s is not None


@on_scene()
async def test_source_that_hangs_from_the_beginning_costs_the_devices_and_not_the_answer(scene):
    scene.kubelet.pods = {"a": [NIC]}
    scene.source.takes_s = 3600
    for _ in range(5):
        async with asyncio.timeout(1.5):
            assert devices(await scene.proxy.call(*HURRIED)) == {"a": [NIC]}
    await scene.proxy.pods.close()

    assert scene.proxy.counts.bare == 5


@on_scene(rules=ProxyRules(fails_closed=True))
async def test_refusal_comes_before_the_deadline_as_well(scene):
    scene.kubelet.pods = {"a": []}
    scene.source.takes_s = 3600
    with pytest.raises(CallError) as refused:
        async with asyncio.timeout(1.5):
            await scene.proxy.call(*HURRIED)
    await scene.proxy.pods.close()

    assert refused.value.text == "the pods of this node are not known: no answer yet"


@on_scene()
async def test_client_in_a_hurry_does_not_cost_a_patient_one_its_devices(scene):
    scene.place("a", "GPU-1")
    scene.source.takes_s = 2.0
    hurried, patient = await asyncio.gather(
        scene.proxy.call(*HURRIED), scene.proxy.call(Version.V1, Method.LIST, b"", 10.0)
    )

    await scene.proxy.pods.close()

    assert (devices(hurried), devices(patient)) == ({"a": []}, {"a": [ONE]})


@on_scene()
async def test_get_of_a_new_pod_is_answered_in_time_while_the_source_hangs(scene):
    scene.place("a", "GPU-1")
    await scene.list()
    scene.source.takes_s = 3600
    scene.kubelet.pods["b"] = [NIC]
    request = v1.GetPodResourcesRequest(pod_name="b", pod_namespace="team").SerializeToString()
    async with asyncio.timeout(1):
        body = await scene.proxy.call(Version.V1, Method.GET, request, 2.0)
    await scene.proxy.pods.close()

    assert body == await scene.kubelet.call(Version.V1, Method.GET, request, None)
    assert scene.proxy.counts.aged == 1


@on_scene()
async def test_bytes_that_are_no_answer_are_passed_on(scene):
    scene.kubelet.nonsense = b"\xff\xff"
    answers = [
        await scene.proxy.call(Version.V1, Method.LIST, b"", None),
        await scene.proxy.call(Version.V1, Method.GET, b"\xff", None),
        await scene.proxy.call(Version.V1, Method.ALLOCATABLE, b"", None),
    ]

    assert answers == [b"\xff\xff"] * 3
    assert scene.proxy.counts.unreadable == 3


@on_scene()
async def test_bad_annotation_costs_only_its_own_pod_and_is_told_once(scene):
    bad = Claims(source=KOORDINATOR.name, problem="device 0 is null")
    scene.kubelet.pods = {"bad": [NIC], "good": []}
    for _ in range(3):
        scene.source.pods = [gpu_pod("bad", uid="u-bad"), gpu_pod("good", "GPU-1")]
        scene.source.pods[0] = _with_claims(scene.source.pods[0], bad)
        answer = await scene.list()
        await scene.clock.sleep(40)

    assert answer == {"bad": [NIC], "good": [ONE]}
    assert [(uid, problem.kind) for uid, problem in scene.told.news] == [
        ("u-bad", ProblemKind.UNREADABLE)
    ]
    assert scene.proxy.counts.standing == {ProblemKind.UNREADABLE: 1}


@on_scene()
async def test_pod_that_asks_for_nothing_cannot_claim_a_device(scene):
    scene.kubelet.pods = {"liar": [], "a": []}
    scene.source.pods = [gpu_pod("liar", "GPU-1", asks=False), gpu_pod("a", "GPU-1")]

    assert await scene.list() == {"liar": [], "a": [ONE]}
    assert scene.proxy.counts.problems == {ProblemKind.NOT_ASKED_FOR: 1}


@on_scene()
async def test_problem_of_the_only_pod_is_told_whoever_asks_how(scene):
    for ask in (scene.list, lambda: scene.get("liar")):
        scene.kubelet.pods = {"liar": []}
        scene.source.pods = [gpu_pod("liar", "GPU-1", uid=str(ask), asks=False)]
        await scene.clock.sleep(2)
        await ask()
        await ask()

        assert [uid for uid, _ in scene.told.news] == [str(ask)]
        scene.told.news.clear()


# ------------------------------------------------------------------ conflicts


@on_scene()
async def test_device_that_two_pods_hold_is_answered_for_both_and_told_of_each(scene):
    scene.kubelet.pods = {"a": [], "b": []}
    scene.source.pods = [gpu_pod("a", "GPU-1"), gpu_pod("b", "GPU-1")]
    for _ in range(3):
        answer = await scene.list()
        await scene.clock.sleep(40)

    assert answer == {"a": [ONE], "b": [ONE]}
    assert sorted((uid, problem.kind) for uid, problem in scene.told.news) == [
        ("a", ProblemKind.CLAIMED_TWICE),
        ("b", ProblemKind.CLAIMED_TWICE),
    ]


@on_scene()
async def test_device_that_kubelet_gave_to_one_pod_and_a_source_to_another_is_told(scene):
    """Also when kubelet gave it later, and to a pod that no source speaks of."""
    scene.kubelet.pods = {"a": [], "plain": []}
    scene.source.pods = [gpu_pod("a", "GPU-1"), gpu_pod("plain")]
    await scene.list()
    before = list(scene.told.news)
    scene.kubelet.pods["plain"] = [ONE]
    await scene.clock.sleep(31)
    await scene.list()

    assert before == []
    assert sorted(uid for uid, _ in scene.told.news) == ["a", "plain"]


@on_scene()
async def test_successor_of_a_pod_with_a_problem_is_told_of_anew(scene):
    scene.kubelet.pods = {"a": [], "b": []}
    for uid in ("first", "second"):
        scene.source.pods = [gpu_pod("a", "GPU-1", uid=uid, asks=False)]
        await scene.list()
        await scene.clock.sleep(2)

    assert [uid for uid, _ in scene.told.news] == ["first", "second"]


# ------------------------------------------------------------------ length, and Koordinator's way


@on_scene(rules=ProxyRules(trims_above_bytes=500))
async def test_long_answer_leaves_out_pods_without_devices(scene):
    scene.source.pods = [gpu_pod("a", "GPU-1")]
    scene.kubelet.pods = {"a": [], "nic": [NIC], "plain": []}
    short = await scene.list()
    scene.kubelet.pods |= {f"plain-{n}": [] for n in range(50)}
    long = await scene.list()

    assert short == {"a": [ONE], "nic": [NIC], "plain": []}
    assert long == {"a": [ONE], "nic": [NIC]}
    assert scene.proxy.counts.trimmed == 1


@on_scene(rules=ProxyRules(fills_list_only=True), planning=CompatPlanning())
async def test_koordinators_way_fills_list_alone_and_asks_nobody(scene):
    scene.kubelet.pods = {"a": [NIC]}
    scene.source.pods = [gpu_pod("a", "GPU-1", asks=False), gpu_pod("a", "GPU-2", asks=False)]
    scene.inventory.inventory = LISTED

    assert await scene.list() == {"a": [TWO, NIC]}
    assert await scene.list(Version.V1ALPHA1) == {"a": [NIC]}
    assert await scene.get("a") == [NIC]
    assert await scene.proxy.call(Version.V1, Method.ALLOCATABLE, b"", None) == b""


@on_scene(rules=ProxyRules(fills_list_only=True), planning=CompatPlanning())
async def test_koordinators_way_puts_kubelets_lines_in_order_even_if_it_adds_none(scene):
    empty = _with_claims(gpu_pod("a"), Claims(source=KOORDINATOR.name))
    other = _with_claims(gpu_pod("b"), Claims(source="somebody-else"))
    scene.source.pods = [empty, other]
    scene.kubelet.pods = {"a": [NIC, ONE], "b": [NIC, ONE]}

    assert await scene.list() == {"a": [ONE, NIC], "b": [NIC, ONE]}


def _with_claims(pod, claims):
    return replace(pod, claims=(claims,))
