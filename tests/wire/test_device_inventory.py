"""Koordinator's Device object: entries that cannot be decoded are left out and reported."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.devices.inventory import Device, Function, Inventory
from bursar.wire.devices.inventory import (
    DEVICES_MAX,
    FUNCTIONS_MAX,
    DeviceObject,
    decode_device_object,
    decode_inventory,
)

GPU = {
    "type": "gpu",
    "id": "GPU-8c25ea37",
    "minor": 0,
    "moduleID": 3,
    "health": True,
    "labels": {
        "node.koordinator.sh/gpu-vendor": "nvidia",
        "node.koordinator.sh/gpu-model": "A100",
        "other": None,
    },
    "resources": {"koordinator.sh/gpu-memory": "80Gi", "koordinator.sh/gpu-core": 100},
    "topology": {"socketID": 0, "nodeID": 1, "pcieID": "p", "busID": "0000:08:00.0"},
    "conditions": [{"type": "Healthy"}],
}
NIC = {
    "type": "rdma",
    "id": "0000:1f:00.0",
    "minor": 1,
    "health": False,
    "topology": {"nodeID": -1},
    "vfGroups": [
        {"labels": {"a": "b"}, "vfs": [{"minor": -1, "busID": "0000:1f:00.2"}, {"minor": 3}]},
        {"vfs": [{"minor": 4, "busID": "0000:1f:00.3"}]},
        {"vfs": None},
    ],
}


def read(*devices: object) -> DeviceObject:
    body = {"metadata": {"name": "node-1"}, "spec": {"devices": devices}}
    return decode_device_object(json.dumps(body).encode())


def test_every_field_that_matters_is_read():
    assert read(GPU, NIC) == DeviceObject(
        node="node-1",
        inventory=Inventory(
            (
                Device(
                    kind="gpu",
                    minor=0,
                    id="GPU-8c25ea37",
                    numa=1,
                    address="0000:08:00.0",
                    vendor="nvidia",
                    model="A100",
                    amounts={
                        "koordinator.sh/gpu-memory": 80 * 2**30,
                        "koordinator.sh/gpu-core": 100,
                    },
                ),
                Device(
                    kind="rdma",
                    minor=1,
                    id="0000:1f:00.0",
                    is_healthy=False,
                    functions=(
                        Function(address="0000:1f:00.2"),
                        Function(address="0000:1f:00.3", minor=4),
                    ),
                ),
            )
        ),
    )


def test_device_that_is_not_said_to_be_healthy_is_not():
    (device,) = read({"type": "gpu", "minor": 0}).inventory.devices

    assert not device.is_healthy


def test_device_without_a_number_is_known_by_its_id():
    (device,) = read({"type": "gpu", "id": "a"}).inventory.devices

    assert (device.id, device.minor) == ("a", -1)


def test_numa_node_zero_is_known():
    (device,) = read({"type": "gpu", "id": "a", "topology": {"nodeID": 0}}).inventory.devices

    assert device.numa == 0


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (None, "spec.devices[1]: "),
        (7, "spec.devices[1]: "),
        ({}, "spec.devices[1]: no type"),
        ({"type": "gpu"}, "spec.devices[1]: neither an id nor a minor"),
        ({"type": "gpu", "minor": "0"}, "spec.devices[1]: minor: a whole number is expected"),
        ({"type": "gpu", "id": "a\n"}, 'spec.devices[1].id: "a\\n" has other than printable'),
        ({"type": "gpu", "minor": 0, "topology": {"nodeID": 0.5}}, "spec.devices[1]: topology"),
        ({"type": "gpu", "minor": 0, "resources": {"a/b": "x"}}, "spec.devices[1].resources: "),
        (
            {
                "type": "r",
                "minor": 0,
                "vfGroups": [{"vfs": [{"busID": "a"}] * (FUNCTIONS_MAX + 1)}],
            },
            "spec.devices[1].vfGroups: more than",
        ),
    ],
)
def test_entry_that_cannot_be_read_is_told_and_the_others_count(entry, problem):
    found = read(GPU, entry, NIC)

    assert [each.kind for each in found.inventory.devices] == ["gpu", "rdma"]
    assert len(found.problems) == 1
    assert found.problems[0].startswith(problem)
    assert found.problems[0].isprintable()


def test_second_device_of_a_number_is_told():
    found = read(GPU, {**GPU, "id": "other"})

    assert found.problems == ("spec.devices[1]: there is a gpu with minor 0 already",)
    assert found.inventory.by_minor["gpu", 0].id == "GPU-8c25ea37"


def test_node_full_of_devices_is_read_whole():
    found = read(*[{"type": "gpu", "minor": n, "id": f"GPU-{n}"} for n in range(250 * 10)])

    assert len(found.inventory.by_id) == 2500
    assert found.problems == ()


def test_endless_object_is_cut():
    found = read(*[{"type": "gpu", "minor": number} for number in range(DEVICES_MAX + 1)])

    assert len(found.inventory.devices) == DEVICES_MAX
    assert found.problems == (f"more than {DEVICES_MAX} devices; those beyond are left out",)


@pytest.mark.parametrize("body", [b"{}", b'{"spec":null}', b'{"spec":{"devices":null}}'])
def test_node_may_have_no_devices(body):
    assert decode_inventory(body) == Inventory()


@pytest.mark.parametrize("body", [b"", b"[]", b'{"spec":{"devices":{}}}', b"[" * 100_000])
def test_what_is_no_object_is_refused(body):
    with pytest.raises(ValueError, match=r"."):
        decode_inventory(body)


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4), st.just([{}]))
ENTRIES = st.dictionaries(st.sampled_from([*GPU, "vfGroups"]), VALUES, max_size=6)


@given(st.lists(st.one_of(VALUES, ENTRIES), max_size=4))
def test_no_entry_makes_another_unreadable(entries):
    found = read(*entries, GPU)

    assert found.inventory.devices[-1].id == "GPU-8c25ea37"
    assert all(line.isprintable() for line in found.problems)
