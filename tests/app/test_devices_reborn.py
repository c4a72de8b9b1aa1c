"""Pods that follow each other under one name do not get the device of a predecessor."""

from bursar.app.devices.node_pods import FreshnessRules, NodePods, ReadDeadline, named_twice
from bursar.app.devices.planning import CompatPlanning
from bursar.app.devices.ports import Method, Version
from bursar.app.devices.proxy import ProxyRules
from bursar.wire.devices.pod_resources import v1_pb2 as v1
from support.devices.pod_resources_proxy import GPU, MadeUpPods, devices, gpu_pod, on_scene
from support.virtual_time import MachineClock, in_virtual_time

LIST = (Version.V1, Method.LIST, b"", None)
WEB = ("team", "web")


def twice(body: bytes) -> bytes:
    """The same pods once more, as kubelet lists one that leaves beside one that has come."""
    pods = v1.ListPodResourcesResponse.FromString(body).pod_resources
    return v1.ListPodResourcesResponse(pod_resources=[*pods, *pods]).SerializeToString()


def all_devices(body: bytes) -> list[str]:
    pods = v1.ListPodResourcesResponse.FromString(body).pod_resources
    return [
        device
        for pod in pods
        for container in pod.containers
        for line in container.devices
        for device in line.device_ids
    ]


def test_names_that_come_twice_are_found():
    other = ("team", "other")

    assert named_twice([WEB, other]) == ()
    assert named_twice([WEB, other, WEB]) == [WEB]


@on_scene()
async def test_pod_that_kubelet_names_twice_is_looked_for_and_its_devices_told_once(scene):
    scene.kubelet.pods["web"] = []
    scene.source.pods = [gpu_pod("web", "GPU-old")]
    single = await scene.proxy.call(*LIST)
    scene.source.pods = [gpu_pod("web", "GPU-old", is_terminating=True), gpu_pod("web", "GPU-new")]
    scene.kubelet.nonsense = twice(await scene.kubelet.call(*LIST))
    answers = [await scene.proxy.call(*LIST) for _ in range(5)]

    assert devices(single) == {"web": [(GPU, "GPU-old")]}
    assert [all_devices(each) for each in answers] == [["GPU-new"]] * 5
    assert scene.source.reads == 2


@on_scene(rules=ProxyRules(fills_list_only=True), planning=CompatPlanning())
async def test_koordinators_way_tells_them_twice(scene):
    scene.kubelet.pods["web"] = []
    scene.source.pods = [gpu_pod("web", "GPU-1")]
    scene.kubelet.nonsense = twice(await scene.kubelet.call(*LIST))

    assert all_devices(await scene.proxy.call(*LIST)) == ["GPU-1", "GPU-1"]


def following(clock: MachineClock) -> tuple[NodePods, MadeUpPods, list[list]]:
    """A source that is followed; what was heard last stands in the list."""
    source, heard = MadeUpPods(clock), [[]]
    return NodePods(source, clock, FreshnessRules(), watched=lambda: heard[0]), source, heard


@in_virtual_time
async def test_whoever_is_followed_is_never_asked_and_always_up_to_date():
    clock = MachineClock()
    pods, source, heard = following(clock)
    heard[0] = [gpu_pod("web", "GPU-1")]
    first = pods.fresh()
    await clock.sleep(1000)
    assert pods.fresh() is first is await pods.current()
    assert pods.age_s() == 0
    heard[0] = [gpu_pod("web", "GPU-2", uid="new")]
    second = await pods.covering(pods.fresh(), [WEB])

    assert second.pods["team", "web"].uid == "new"
    assert source.reads == 0


@in_virtual_time
async def test_pod_that_was_not_heard_of_is_read_and_kept_until_there_is_news():
    clock = MachineClock()
    pods, source, heard = following(clock)
    source.pods = [gpu_pod("web", "GPU-1")]
    found = await pods.covering(pods.fresh(), [WEB])
    await clock.sleep(0.5)
    assert pods.fresh() is found
    heard[0] = source.pods
    assert WEB in pods.fresh().pods
    assert source.reads == 1


@in_virtual_time
async def test_who_is_not_heard_of_any_more_is_asked():
    clock = MachineClock()
    pods, source, heard = following(clock)
    assert pods.fresh() is not None
    heard[0] = None
    source.pods = [gpu_pod("web", "GPU-1")]
    await clock.sleep(2)
    assert pods.fresh() is None
    assert ("team", "web") in (await pods.current()).pods


@in_virtual_time
async def test_who_is_followed_and_could_not_be_asked_is_asked_again_for_the_sake_of_a_pod():
    clock = MachineClock()
    pods, source, _ = following(clock)
    source.is_broken, source.takes_s = True, 1
    await pods.covering(pods.fresh(), [WEB])
    await clock.sleep(2)
    await pods.covering(pods.fresh(), [WEB], ReadDeadline(clock.monotonic()))
    await clock.sleep(1.5)
    source.is_broken = False
    source.pods = [gpu_pod("web", "GPU-1")]
    await clock.sleep(2)
    assert WEB in (await pods.covering(pods.fresh(), [WEB])).pods


@in_virtual_time
async def test_news_are_the_end_of_trouble():
    clock = MachineClock()
    pods, source, heard = following(clock)
    source.is_broken = True
    await pods.covering(pods.fresh(), [WEB])
    assert pods.counts.failing_since_s is not None
    assert pods.fresh() is not None
    assert pods.counts.failing_since_s is not None
    heard[0] = [gpu_pod("web", "GPU-1")]
    assert pods.fresh() is not None
    assert (pods.counts.failing_since_s, pods.counts.last_error) == (None, "")
