"""Rows of `bursar devices`: which pod holds which device, and where sources disagree."""

from dataclasses import replace

import pytest

from bursar.core.devices.allocation import (
    Allocation,
    Entry,
    Holdings,
    Problem,
    ProblemKind,
    ReportedContainer,
    ReportedPod,
    SourceReport,
)
from bursar.core.devices.conflicts import claimed_twice
from bursar.core.devices.inventory import Device, Function, Inventory
from bursar.core.devices.pod import DevicePod, StatusDevice
from bursar.core.devices.rows import ClaimDevice, DeviceRow, NodeFacts, device_rows
from bursar.core.devices.source import KOORDINATOR, KindRule, Source

GPU, RDMA = "nvidia.com/gpu", "koordinator.sh/rdma"
OTHER = Source(name="other", annotation="a", kinds={"gpu": KindRule(resource="a/gpu")})
SOURCES = {"koordinator": KOORDINATOR, "other": OTHER}


def holds(pod, *devices, share=100, resource=GPU, parent="", **fields) -> Holdings:
    return Holdings(
        namespace="default",
        name=pod,
        allocations=tuple(
            Allocation(
                source="koordinator",
                container="main",
                kind="gpu",
                resource=resource,
                device=device,
                share=share,
                parent=parent,
            )
            for device in devices
        ),
        **fields,
    )


def reports(pod, *devices, container="main", numa=None, resource=GPU) -> ReportedPod:
    lines = tuple(Entry(resource=resource, devices=(device,), numa=numa) for device in devices)
    named = ReportedContainer(name=container, entries=lines)
    return ReportedPod(namespace="default", name=pod, containers=(named,))


# ------------------------------------------------------------------ held by several


def troubled(*holdings, reported=()):
    return sorted(name for _, name in claimed_twice(holdings, reported))


def test_a_whole_device_held_by_two_is_a_problem_of_both():
    assert claimed_twice([holds("b", "GPU-0"), holds("a", "GPU-0", share=20)]) == {
        ("default", "a"): (
            Problem(
                kind=ProblemKind.CLAIMED_TWICE,
                source="koordinator",
                text="nvidia.com/gpu 'GPU-0' is also held by default/b (100 %)",
            ),
        ),
        ("default", "b"): (
            Problem(
                kind=ProblemKind.CLAIMED_TWICE,
                source="koordinator",
                text="nvidia.com/gpu 'GPU-0' is also held by default/a (20 %)",
            ),
        ),
    }


def test_tenants_are_told_no_names_of_other_namespaces():
    def told(*holdings):
        return {
            f"{namespace}/{name}": (problem.text_for_tenants, problem.text)
            for (namespace, name), (problem,) in claimed_twice(holdings).items()
        }

    spy, payroll = (
        replace(holds(name, "GPU-1"), namespace=space)
        for name, space in (("spy", "evil"), ("payroll-db-7", "secret"))
    )
    friend = replace(spy, name="friend")
    held = "nvidia.com/gpu 'GPU-1' is also held by "

    assert told(spy, payroll) == {
        "evil/spy": (f"{held}a pod of another namespace", f"{held}secret/payroll-db-7 (100 %)"),
        "secret/payroll-db-7": (f"{held}a pod of another namespace", f"{held}evil/spy (100 %)"),
    }
    assert [each for each, _ in told(spy, friend, payroll).values()] == [
        f"{held}evil/spy (100 %) and a pod of another namespace",
        f"{held}evil/friend (100 %) and a pod of another namespace",
        f"{held}pods of other namespaces",
    ]


def test_many_devices_are_one_problem_of_each_source():
    told = [reports("a", "GPU-9"), reports("b", "GPU-9")]
    gpus = [f"GPU-{number}" for number in range(3)]
    problems = claimed_twice([holds("a", *gpus), holds("b", *gpus)], told)

    assert [(each.source, each.text) for each in problems["default", "a"]] == [
        (
            "koordinator",
            "nvidia.com/gpu 'GPU-0' is also held by default/b (100 %); and 2 more devices",
        ),
        ("kubelet", "nvidia.com/gpu 'GPU-9' is also held by default/b (100 %)"),
    ]


def test_shares_may_add_up_to_the_whole_and_no_further():
    assert troubled(holds("a", "GPU-0", share=50), holds("b", "GPU-0", share=50)) == []
    assert troubled(holds("a", "GPU-0", share=50), holds("b", "GPU-0", share=51)) == ["a", "b"]


def test_parts_of_unknown_size_alone_are_not_too_much():
    parts = [holds(name, "GPU-0", share=0) for name in ("a", "b")]

    assert troubled(*parts) == []
    assert troubled(*parts, holds("c", "GPU-0", share=90)) == []
    assert troubled(*parts, holds("c", "GPU-0")) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "device",
    [
        "GPU-8c25ea37-2909-6e62-b7bf-e2fcadebea8d",
        "MIG-8c25ea37-2909-6e62-b7bf-e2fcadebea8d",
        "MIG-GPU-8c25ea37-2909-6e62-b7bf-e2fcadebea8d/1/0",
        "0000:1f:00.2",
        "00000000:3b:00.0",
    ],
)
def test_an_id_that_nothing_else_can_have_is_compared_across_resources(device):
    given = holds("a", device, resource=RDMA)
    told = reports("b", device.upper() if ":" in device else device, resource="intel.com/sriov")

    (problem,) = claimed_twice([given], [told])["default", "a"]

    assert problem.text == (
        f"koordinator.sh/rdma '{device}' is also held by default/b (100 % as intel.com/sriov)"
    )


@pytest.mark.parametrize("device", ["0", "nvidia0", "GPU-0", "1f:00", "0000:1f:00.9"])
def test_an_id_that_is_one_resources_own_is_not(device):
    assert troubled(holds("a", device), reported=[reports("b", device, resource="b/gpu")]) == []


def test_one_pod_and_pods_that_have_ended_are_no_problem():
    assert troubled(holds("a", "GPU-0", "GPU-1"), holds("b", "GPU-0", has_ended=True)) == []


def test_what_kubelet_gave_is_held_whole_unless_its_id_says_otherwise():
    assert troubled(holds("a", "GPU-0", share=10), reported=[reports("b", "GPU-0")]) == ["a", "b"]
    assert troubled(holds("a", "GPU-0", share=10), reported=[reports("b", "GPU-0::1")]) == []


def test_the_share_of_an_annotation_counts_for_a_pod_that_kubelet_reports_too():
    shares = holds("a", "GPU-0", share=50), holds("b", "GPU-0", share=50)

    assert troubled(*shares, reported=[reports("a", "GPU-0"), reports("b", "GPU-0")]) == []


def test_a_function_stands_in_the_way_of_whoever_has_the_device_whole():
    functions = [
        holds(name, f"vf-{name}", parent="pf", resource=RDMA) for name in ("a", "b", "c", "d", "e")
    ]

    assert troubled(*functions) == []
    problems = claimed_twice([*functions, holds("z", "pf", resource=RDMA)])
    (problem,) = problems["default", "z"]
    assert problem.text == (
        "koordinator.sh/rdma 'pf' is also held by default/a (a part), default/b (a part), "
        "default/c (a part) and 2 more"
    )


# ------------------------------------------------------------------ the register


def rows(**facts) -> tuple[DeviceRow, ...]:
    return device_rows(NodeFacts(node="node-1", **facts), SOURCES)


def disagreements(**facts):
    return {(row.pod, row.device): row.disagreements for row in rows(**facts)}


def test_everybody_who_names_a_device_is_a_source_of_its_row():
    pod = DevicePod(
        namespace="default",
        name="a",
        status_devices=(StatusDevice(container="main", resource=GPU, device="GPU-0"),),
    )

    assert rows(
        holdings=(holds("a", "GPU-0", share=50),),
        reported=(reports("a", "GPU-0::1", numa=1),),
        pods=(pod,),
    ) == (
        DeviceRow(
            node="node-1",
            namespace="default",
            pod="a",
            container="main",
            resource=GPU,
            device="GPU-0",
            numa=1,
            share=50,
            sources=("kubelet", "status", "koordinator"),
            disagreements=(),
        ),
    )


def test_rows_are_in_order_of_names():
    first = rows(holdings=(holds("b", "GPU-1", "GPU-0"), holds("a", "GPU-2")))

    assert [(row.pod, row.device) for row in first] == [
        ("a", "GPU-2"),
        ("b", "GPU-0"),
        ("b", "GPU-1"),
    ]


def test_dynamic_devices_are_named_by_pool():
    dynamic = ClaimDevice(
        namespace="default", pod="a", driver="gpu.nvidia.com", pool="node-1", device="gpu-0"
    )
    (row,) = rows(dynamic=(dynamic,))

    assert (row.resource, row.device, row.share, row.numa, row.sources) == (
        "gpu.nvidia.com",
        "node-1/gpu-0",
        100,
        None,
        ("dra",),
    )


def test_two_sources_that_name_different_devices_of_a_resource_disagree():
    assert disagreements(
        holdings=(holds("a", "GPU-0"),),
        reported=(reports("a", "GPU-5", "GPU-4", "GPU-3", "GPU-2", "GPU-2"),),
    ) == {
        ("a", "GPU-0"): ("kubelet says 'GPU-2', 'GPU-3', 'GPU-4' and 1 more",),
        **{("a", f"GPU-{each}"): ("koordinator says 'GPU-0'",) for each in (2, 3, 4, 5)},
    }


def test_two_sources_that_name_different_containers_disagree():
    found = rows(
        holdings=(holds("a", "GPU-0"),),
        reported=(reports("a", "GPU-0", "GPU-0", container="proxy"),),
    )

    assert [(row.container, row.disagreements) for row in found] == [
        ("proxy", ("koordinator says container 'main'",))
    ]


def test_a_device_held_by_two_is_said_in_both_rows():
    assert disagreements(holdings=(holds("a", "GPU-0"), holds("b", "GPU-0"))) == {
        ("a", "GPU-0"): ("also held by default/b (100 %)",),
        ("b", "GPU-0"): ("also held by default/a (100 %)",),
    }


def states(pod, *devices, resource=GPU, **fields) -> DevicePod:
    stated = tuple(
        StatusDevice(container="main", resource=resource, device=each) for each in devices
    )
    return DevicePod(namespace="default", name=pod, status_devices=stated, **fields)


def test_what_the_status_says_is_held_as_well():
    assert disagreements(
        pods=(states("a", "GPU-0"), states("b", "GPU-0")), holdings=(holds("c", "GPU-0"),)
    ) == {
        ("a", "GPU-0"): ("also held by default/b (100 %), default/c (100 %)",),
        ("b", "GPU-0"): ("also held by default/a (100 %), default/c (100 %)",),
        ("c", "GPU-0"): ("also held by default/a (100 %), default/b (100 %)",),
    }


def test_shares_claims_and_ended_pods_of_the_status_are_in_nobodys_way():
    holdings = (holds("c", "GPU-0", share=50),)

    for pod in (states("a", "GPU-0::1"), states("a", "GPU-0", is_terminal=True)):
        assert disagreements(pods=(pod,), holdings=holdings)["c", "GPU-0"] == ()
    sharing = [states(name, "d/p/gpu-0", resource="claim:gpu/one") for name in ("a", "b")]
    assert set(disagreements(pods=tuple(sharing)).values()) == {()}


def test_a_device_under_two_names_is_said_in_both_rows():
    vf = "0000:1f:00.2"

    assert disagreements(
        holdings=(holds("a", vf, resource=RDMA),),
        reported=(reports("b", vf, resource="intel.com/sriov"),),
    ) == {
        ("a", vf): ("also held by default/b (100 % as intel.com/sriov)",),
        ("b", vf): ("also held by default/a (100 % as koordinator.sh/rdma)",),
    }


def test_all_annotations_that_name_a_device_are_its_sources():
    def said(*reports):
        held = holds("a", "GPU-0", share=max(share for *_, share in reports))
        (allocation,) = held.allocations
        told = tuple(SourceReport(*each) for each in reports)
        (row,) = rows(holdings=(replace(held, allocations=(replace(allocation, reports=told),)),))
        return row.sources, row.share, row.disagreements

    sources = ("koordinator", "hami")
    assert said(("koordinator", "main", 50), ("hami", "main", 50)) == (sources, 50, ())
    assert said(("koordinator", "main", 50), ("hami", "main", 0)) == (sources, 50, ())
    assert said(("koordinator", "main", 30), ("hami", "log", 50)) == (
        sources,
        50,
        ("hami says container 'log'", "koordinator says 30 %, hami 50 %"),
    )


def test_whoever_has_a_part_is_told_who_has_the_whole():
    assert disagreements(holdings=(holds("a", "MIG-1", parent="GPU-0"), holds("b", "GPU-0"))) == {
        ("a", "MIG-1"): ("'GPU-0', of which it is a part, is also held by default/b (100 %)",),
        ("b", "GPU-0"): ("also held by default/a (a part)",),
    }


def test_a_pod_that_has_ended_contests_nothing():
    ended = DevicePod(namespace="default", name="b", is_terminal=True)

    assert disagreements(
        pods=(ended,), holdings=(holds("a", "GPU-0"),), reported=(reports("b", "GPU-0"),)
    ) == {("a", "GPU-0"): (), ("b", "GPU-0"): ("the pod has ended",)}
    assert disagreements(holdings=(holds("a", "GPU-0", has_ended=True), holds("b", "GPU-0"))) == {
        ("a", "GPU-0"): ("the pod has ended",),
        ("b", "GPU-0"): (),
    }


def test_the_inventory_is_compared_where_it_has_such_devices():
    inventory = Inventory(
        (
            Device(kind="gpu", minor=0, id="GPU-0"),
            Device(kind="gpu", minor=1, id="GPU-1", is_healthy=False),
            Device(kind="gpu", minor=2, id="GPU-3", is_healthy=False),
            Device(kind="rdma", minor=0, id="pf", functions=(Function(address="vf"),)),
            Device(kind="tpu", minor=0, id="nobody's"),
        )
    )

    assert disagreements(
        inventory=inventory,
        holdings=(
            holds("a", "GPU-0", "GPU-1", "GPU-2"),
            holds("b", "vf", resource=RDMA),
            holds("c", "MIG-1", parent="GPU-3"),
            holds("d", "1", resource="koordinator.sh/fpga"),
        ),
    ) == {
        ("a", "GPU-0"): (),
        ("a", "GPU-1"): ("not healthy",),
        ("a", "GPU-2"): ("not in the inventory",),
        ("b", "vf"): (),
        ("c", "MIG-1"): ("not healthy",),
        ("d", "1"): (),
    }
