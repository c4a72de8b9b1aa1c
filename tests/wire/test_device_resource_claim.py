"""ResourceClaims: each device for each pod that the claim is reserved for."""

import json

import pytest

from bursar.core.devices.rows import ClaimDevice
from bursar.wire.devices.resource_claim import DEVICES_MAX, decode_resource_claim

CLAIM = {
    "metadata": {"name": "net", "namespace": "ml"},
    "status": {
        "allocation": {
            "devices": {
                "results": [
                    {"request": "nic", "driver": "dra.example", "pool": "n1", "device": "nic-0"},
                    {"request": "nic", "driver": "dra.example", "pool": "n1", "device": "nic-1"},
                ]
            }
        },
        "reservedFor": [
            {"resource": "pods", "name": "a", "uid": "1"},
            {"resource": "podgroups", "apiGroup": "scheduling.k8s.io", "name": "g", "uid": "2"},
            {"resource": "pods", "name": "b", "uid": "3"},
        ],
    },
}


def test_every_pod_has_every_device_of_the_claim():
    assert decode_resource_claim(json.dumps(CLAIM).encode()) == tuple(
        ClaimDevice(namespace="ml", pod=pod, driver="dra.example", pool="n1", device=device)
        for pod in ("a", "b")
        for device in ("nic-0", "nic-1")
    )


@pytest.mark.parametrize(
    "status",
    [
        None,
        {},
        {"allocation": None, "reservedFor": [{"resource": "pods", "name": "a"}]},
        {"allocation": {"devices": None}},
        {"allocation": CLAIM["status"]["allocation"], "reservedFor": None},
    ],
)
def test_claim_that_is_not_allocated_or_not_in_use_gives_nothing(status):
    assert decode_resource_claim(json.dumps({"status": status}).encode()) == ()


def test_claim_beyond_what_the_api_allows_is_refused():
    count = DEVICES_MAX // 32 + 1
    status = {
        "allocation": {"devices": {"results": [{}] * 32}},
        "reservedFor": [{"resource": "pods"}] * count,
    }

    with pytest.raises(ValueError, match=r"^more than"):
        decode_resource_claim(json.dumps({"status": status}).encode())
    with pytest.raises(ValueError, match=r"^status\.reservedFor: a list is expected"):
        decode_resource_claim(b'{"status":{"reservedFor":7}}')
