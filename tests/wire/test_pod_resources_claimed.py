"""What claims gave to containers, out of kubelet's answer in both forms."""

import pytest

from bursar.core.devices.register import DynamicDevice
from bursar.wire.pod_resources import v1_pb2 as v1
from bursar.wire.pod_resources.claimed import decode_claimed, decode_claimed_json
from bursar.wire.pod_resources.json_form import encode_pods_json


def an_answer() -> bytes:
    claim = v1.DynamicResource(
        claim_name="mine",
        claim_resources=[
            v1.ClaimResource(driver_name="d", pool_name="p", device_name=name) for name in "xy"
        ],
    )
    container = v1.ContainerResources(name="main", dynamic_resources=[claim])
    pod = v1.PodResources(
        name="a", namespace="ns", containers=[v1.ContainerResources(name="side"), container]
    )
    return v1.ListPodResourcesResponse(pod_resources=[pod]).SerializeToString()


def test_every_device_of_a_claim_is_read_in_both_forms():
    expected = tuple(
        DynamicDevice(namespace="ns", pod="a", container="main", driver="d", pool="p", device=name)
        for name in "xy"
    )

    assert decode_claimed(an_answer()) == expected
    assert decode_claimed_json(encode_pods_json(an_answer()).encode()) == expected


def test_what_is_no_answer_is_refused():
    with pytest.raises(ValueError, match="not an answer"):
        decode_claimed(b"\xff")
    for text in (b"[", b'{"podResources": 5}', b"\xff"):
        with pytest.raises(ValueError, match=r"."):
            decode_claimed_json(text)
