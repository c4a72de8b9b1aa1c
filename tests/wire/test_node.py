"""Nodes from the API's words to the core's."""

from datetime import UTC, datetime

from bursar.core.model import node as core
from bursar.core.model.quantity import Quantity
from bursar.wire.model.node import decode_node
from support.builders.random_objects import as_node

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def test_an_empty_node_is_all_defaults():
    assert as_node({}) == decode_node(b"{}") == core.Node(name="")
    assert as_node({"metadata": None, "spec": None, "status": {"nodeInfo": None}}) == as_node({})


def test_every_field_arrives():
    node = as_node(
        {
            "metadata": {
                "name": "n1",
                "labels": {"a": "b"},
                "annotations": {"c": "d"},
                "creationTimestamp": "2026-01-02T12:00:00Z",
            },
            "spec": {
                "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}, {}],
                "unschedulable": True,
                "podCIDR": "10.0.0.0/24",
                "podCIDRs": ["10.0.0.0/24"],
                "providerID": "x://1",
            },
            "status": {
                "capacity": {"cpu": "4"},
                "allocatable": {"cpu": 3.5},
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "lastHeartbeatTime": "2026-01-02T12:00:00Z",
                        "lastTransitionTime": "2026-01-02T12:00:00Z",
                    }
                ],
                "addresses": [{"type": "Hostname", "address": "n1"}, {}],
                "nodeInfo": {
                    "machineID": "m",
                    "systemUUID": "s",
                    "bootID": "b",
                    "kernelVersion": "6.1",
                    "osImage": "os",
                    "operatingSystem": "linux",
                    "architecture": "amd64",
                    "containerRuntimeVersion": "c",
                    "kubeletVersion": "v1.36.4",
                    "kubeProxyVersion": "v1.36.4",
                    "swap": {"capacity": 1024},
                },
            },
        }
    )

    assert node == core.Node(
        name="n1",
        labels={"a": "b"},
        annotations={"c": "d"},
        created_at=NOON,
        taints=(core.Taint(key="k", value="v", effect="NoSchedule"), core.Taint(key="")),
        unschedulable=True,
        pod_cidr="10.0.0.0/24",
        pod_cidrs=("10.0.0.0/24",),
        provider_id="x://1",
        capacity={"cpu": Quantity.parse("4")},
        allocatable={"cpu": Quantity.parse("3500m")},
        conditions=(
            core.NodeCondition(type="Ready", status="True", heartbeat_at=NOON, transition_at=NOON),
        ),
        addresses=(
            core.NodeAddress(type="Hostname", address="n1"),
            core.NodeAddress(type="", address=""),
        ),
        info=core.SystemInfo(
            machine_id="m",
            system_uuid="s",
            boot_id="b",
            kernel_version="6.1",
            os_image="os",
            operating_system="linux",
            architecture="amd64",
            container_runtime_version="c",
            kubelet_version="v1.36.4",
            kube_proxy_version="v1.36.4",
            swap_capacity=1024,
        ),
    )


def test_without_allocatable_a_node_offers_its_capacity():
    assert as_node({"status": {"capacity": {"cpu": "4"}}}).allocatable == {
        "cpu": Quantity.parse("4")
    }
    assert as_node({"status": {"capacity": {"cpu": "4"}, "allocatable": {}}}).allocatable == {}
