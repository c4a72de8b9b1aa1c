"""Kubelet's List response as JSON, as grpcurl prints it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.devices.allocation import Entry, ReportedContainer, ReportedPod
from bursar.core.devices.rows import ClaimDevice
from bursar.wire.devices.pod_resources import v1_pb2 as v1
from bursar.wire.devices.pod_resources.listing import (
    BYTES_MAX,
    decode_listing,
    decode_listing_json,
    listing_as_json,
)

# As grpcurl prints it; empty fields are left out.
PRINTED = """{
  "podResources": [
    {
      "name": "train-0",
      "namespace": "ml",
      "containers": [
        {
          "name": "main",
          "devices": [
            {"resourceName": "nvidia.com/gpu", "deviceIds": ["GPU-1"],
             "topology": {"nodes": [{"ID": "1"}]}},
            {"resourceName": "vendor.example/nic", "deviceIds": ["a", "b"],
             "topology": {"nodes": [{}]}},
            {"resourceName": "vendor.example/fuse", "deviceIds": ["f"]}
          ],
          "cpuIds": ["1", "2"],
          "memory": [{"memoryType": "memory", "size": "1073741824"}]
        }
      ]
    }
  ]
}"""
PODS = (
    ReportedPod(
        namespace="ml",
        name="train-0",
        containers=(
            ReportedContainer(
                name="main",
                entries=(
                    Entry(resource="nvidia.com/gpu", devices=("GPU-1",), numa=1),
                    Entry(resource="vendor.example/nic", devices=("a", "b"), numa=0),
                    Entry(resource="vendor.example/fuse", devices=("f",)),
                ),
            ),
        ),
    ),
)


def test_what_grpcurl_prints_is_read():
    assert decode_listing_json(PRINTED.encode()).pods == PODS


def test_names_may_be_those_of_the_protocol_and_numbers_plain():
    text = PRINTED.replace("podResources", "pod_resources").replace("resourceName", "resource_name")
    text = text.replace("deviceIds", "device_ids").replace('"ID": "1"', '"ID": 1')

    assert decode_listing_json(text.encode()).pods == PODS


def test_fields_nobody_knows_are_passed_over():
    text = PRINTED.replace('"cpuIds"', '"later": {"a": [1]}, "cpuIds"')

    assert decode_listing_json(text.encode()).pods == PODS


def test_answer_without_pods_is_read():
    assert decode_listing_json(b"{}").pods == ()
    assert decode_listing_json(b' {"podResources": null} ').pods == ()


def test_answer_of_the_socket_is_written_as_it_is_read():
    answer = v1.ListPodResourcesResponse()
    pod = answer.pod_resources.add(name="train-0", namespace="ml")
    main = pod.containers.add(name="main", cpu_ids=[1, 2])
    main.devices.add(resource_name="nvidia.com/gpu", device_ids=["GPU-1"]).topology.nodes.add(ID=1)
    main.devices.add(resource_name="vendor.example/nic", device_ids=["a", "b"]).topology.nodes.add()
    main.devices.add(resource_name="vendor.example/fuse", device_ids=["f"])
    main.memory.add(memory_type="memory", size=2**30)
    body = answer.SerializeToString()

    assert json.loads(listing_as_json(body)) == json.loads(PRINTED)
    assert decode_listing(body).pods == PODS
    assert decode_listing_json(listing_as_json(body).encode()).pods == PODS


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"x",
        b"[]",
        b"[1]",
        b"1",
        b"null",
        b'"x"',
        b'{"items": []}',
        b"{} x",
        b'{"podResources": {}}',
        b'{"podResources": [null]}',
        b'{"podResources": [1]}',
        b'{"podResources": [{"name": 1}]}',
        b'{"podResources": [{"name": "a\nb"}]}',
        b'{"podResources": [{"containers": [{"cpuIds": ["x"]}]}]}',
        b'{"podResources": [{"containers": [{"cpuIds": [%s]}]}]}' % (b"9" * 5000),
        b"\xff",
        b"[" * 100_000,
        b'{"podResources":' * 50_000,
    ],
    ids=lambda text: repr(text[:40]),
)
def test_what_is_no_answer_is_refused_in_one_safe_line(text):
    with pytest.raises(ValueError, match=r"^not ") as refused:
        decode_listing_json(text)
    assert str(refused.value).isprintable()


def test_a_file_that_is_too_long_is_refused():
    with pytest.raises(ValueError, match=r"^longer than "):
        decode_listing_json(b" " * (BYTES_MAX + 1))


def test_every_device_of_a_claim_is_read_in_both_forms():
    answer = v1.ListPodResourcesResponse()
    pod = answer.pod_resources.add(name="a", namespace="ns")
    pod.containers.add(name="side")
    claim = pod.containers.add(name="main").dynamic_resources.add(claim_name="mine")
    for name in "xy":
        claim.claim_resources.add(driver_name="d", pool_name="p", device_name=name)
    body = answer.SerializeToString()
    expected = tuple(
        ClaimDevice(namespace="ns", pod="a", container="main", driver="d", pool="p", device=name)
        for name in "xy"
    )

    assert decode_listing(body).claimed == expected
    assert decode_listing_json(listing_as_json(body).encode()).claimed == expected


def test_bytes_that_are_no_answer_are_refused():
    for read in (decode_listing, listing_as_json):
        with pytest.raises(ValueError, match=r"^not an answer"):
            read(b"\x0a")


TREES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["podResources", "name", "containers", "devices", "deviceIds", "ID"]),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=10,
)


@given(TREES.map(json.dumps))
def test_any_json_is_read_or_refused(text):
    try:
        pods = decode_listing_json(text.encode()).pods
    except ValueError:
        return
    assert isinstance(pods, tuple)
