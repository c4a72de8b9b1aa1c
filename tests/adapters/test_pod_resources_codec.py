"""Kubelet's messages, through the port that the proxy speaks."""

import pytest

from bursar.adapters.pod_resources_codec import ProtobufCodec
from bursar.app.devices.ports import AllocatableAnswer, Codec, PodsAnswer, Version
from bursar.core.devices.allocation import Additions, Entry, ReportedPod
from bursar.wire.pod_resources import v1_pb2 as v1

GPU = Entry(resource="nvidia.com/gpu", devices=("GPU-1",), numa=1)


def test_codec_fits_the_port():
    codec: Codec = ProtobufCodec()
    pods: PodsAnswer = codec.pods(Version.V1, b"")
    allocatable: AllocatableAnswer = codec.allocatable(b"")

    assert (pods.encode(), allocatable.encode()) == (b"", b"")


def two_pods() -> bytes:
    answer = v1.ListPodResourcesResponse()
    for name in ("a", "b"):
        answer.pod_resources.add(name=name, namespace="n").containers.add(name="main")
    return answer.SerializeToString()


def planned_for(asked: list[str], additions: Additions | None):
    def plan(pod: ReportedPod) -> Additions | None:
        asked.append(pod.name)
        return additions

    return plan


@pytest.mark.parametrize("version", Version)
def test_only_wanted_pods_are_planned_for_and_added_to(version):
    answer = ProtobufCodec().pods(version, two_pods())
    asked: list[str] = []
    plan = planned_for(asked, Additions(entries={"main": (GPU,)}))
    answer.add([("n", "b")], plan)

    assert answer.keys() == [("n", "a"), ("n", "b")]
    assert asked == ["b"]
    merged = v1.ListPodResourcesResponse.FromString(answer.encode())
    assert [len(pod.containers[0].devices) for pod in merged.pod_resources] == [0, 1]
    (line,) = merged.pod_resources[1].containers[0].devices
    assert line.HasField("topology") == (version is Version.V1)


def test_pod_that_the_planner_leaves_alone_stays_as_it_is():
    body = two_pods()
    answer = ProtobufCodec().pods(Version.V1, body)
    answer.add(answer.keys(), planned_for([], None))

    assert answer.encode() is body


def test_pods_without_devices_are_left_out_on_demand():
    answer = ProtobufCodec().pods(Version.V1, two_pods())
    answer.keep_only_with_devices()

    assert answer.encode() == b""


def test_pod_with_unreadable_lines_stays_as_it_is_and_the_others_are_filled():
    broken = b"\x0a\x0a\x0a\x01p\x1a\x05\x12\x03\x0a\x01\xff"
    answer = ProtobufCodec().pods(Version.V1, broken + two_pods())
    answer.add(answer.keys(), planned_for([], Additions(entries={"main": (GPU,)})))

    assert answer.encode().startswith(broken)
    assert answer.encode().count(b"GPU-1") == 2


def test_error_of_the_planner_is_not_hidden():
    def plan(_: ReportedPod) -> Additions | None:
        raise ValueError("a mistake of ours")

    answer = ProtobufCodec().pods(Version.V1, two_pods())
    with pytest.raises(ValueError, match="a mistake of ours"):
        answer.add(answer.keys(), plan)


def test_one_pod_and_the_request_for_it_are_read():
    codec = ProtobufCodec()
    request = v1.GetPodResourcesRequest(pod_name="b", pod_namespace="n").SerializeToString()
    one = v1.GetPodResourcesResponse(
        pod_resources=v1.PodResources(name="b", namespace="n")
    ).SerializeToString()

    assert codec.asked_for(request) == ("n", "b")
    assert codec.pod(one).keys() == [("n", "b")]


def test_what_is_no_message_is_refused():
    codec = ProtobufCodec()
    for read in (codec.pod, codec.allocatable, codec.asked_for):
        with pytest.raises(ValueError, match=r"^not "):
            read(b"\x0a")
