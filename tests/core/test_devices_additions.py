"""What is added to kubelet's responses, and which of two pods with one name is used."""

import pytest

from bursar.core.devices.additions import additions, allocatable_entries
from bursar.core.devices.allocation import (
    Additions,
    Allocation,
    Entry,
    Holdings,
    ReportedContainer,
    ReportedPod,
    bare_id,
)
from bursar.core.devices.claim import Claim, Claims
from bursar.core.devices.compat import compat_additions
from bursar.core.devices.inventory import Device, Function, Inventory
from bursar.core.devices.pod import live_pods
from bursar.core.devices.source import KOORDINATOR, KindRule, Source
from support.device_notation import gpu_pod

GPU = "nvidia.com/gpu"
RDMA = "koordinator.sh/rdma"
SOURCES = {
    "koordinator": KOORDINATOR,
    "other": Source(name="other", annotation="a", kinds={"nic": KindRule(resource="a/nic")}),
}


def an_allocation(device="GPU-0", resource=GPU, **fields) -> Allocation:
    kind = "gpu" if resource == GPU else "rdma"
    defaults = {"source": "koordinator", "container": "main", "kind": kind}
    return Allocation(device=device, resource=resource, **{**defaults, **fields})


def some_holdings(*allocations, **fields) -> Holdings:
    return Holdings(namespace="default", name="web", allocations=allocations, **fields)


def a_report(**entries) -> ReportedPod:
    return ReportedPod(
        namespace="default",
        name="web",
        containers=tuple(
            ReportedContainer(name=name, entries=tuple(lines)) for name, lines in entries.items()
        ),
    )


def a_line(device, resource=GPU, numa=None) -> Entry:
    return Entry(resource=resource, devices=(device,), numa=numa)


# ------------------------------------------------------------------ about pods


def test_each_device_has_a_line_of_its_own_in_the_order_of_names():
    holdings = some_holdings(
        an_allocation("GPU-1", numa=1),
        an_allocation("GPU-0", numa=0),
        an_allocation("0000:1f:00.2", RDMA),
    )

    assert additions(holdings, a_report(main=[])) == Additions(
        entries={
            "main": (a_line("0000:1f:00.2", RDMA), a_line("GPU-0", numa=0), a_line("GPU-1", numa=1))
        }
    )


def test_devices_go_to_their_containers():
    holdings = some_holdings(an_allocation(container="b"), an_allocation("GPU-1", container="a"))

    assert additions(holdings, a_report(a=[], b=[])).entries == {
        "a": (a_line("GPU-1"),),
        "b": (a_line("GPU-0"),),
    }


def test_a_container_that_is_not_listed_leaves_its_devices_to_the_first_app_container():
    holdings = some_holdings(an_allocation(container="proxy"), sidecars=("proxy", "log"))

    assert list(additions(holdings, a_report(main=[], b=[])).entries) == ["main"]
    assert list(additions(holdings, a_report(log=[], main=[])).entries) == ["main"]
    assert list(additions(holdings, a_report(log=[])).entries) == ["log"]


@pytest.mark.parametrize(
    ("holdings", "reported"),
    [
        (some_holdings(), a_report(main=[])),
        (some_holdings(an_allocation()), a_report()),
        (some_holdings(an_allocation(), has_ended=True), a_report(main=[])),
        (some_holdings(an_allocation()), a_report(other=[a_line("GPU-0")])),
        (some_holdings(an_allocation()), a_report(main=[a_line("GPU-0::2")])),
        (some_holdings(an_allocation(ordinal=1)), a_report(main=[a_line("GPU-0")])),
    ],
    ids=["nothing held", "no containers", "ended", "told", "told as a share", "share told whole"],
)
def test_there_may_be_nothing_to_add(holdings, reported):
    assert additions(holdings, reported) is None


def test_the_same_id_under_another_name_is_another_thing():
    reported = a_report(main=[a_line("GPU-0", "nvidia.com/gpu.shared")])

    assert additions(some_holdings(an_allocation()), reported).entries == {
        "main": (a_line("GPU-0"),)
    }


def test_a_device_held_twice_is_told_once():
    holdings = some_holdings(an_allocation(), an_allocation(container="b"))

    assert additions(holdings, a_report(main=[], b=[])).entries == {"main": (a_line("GPU-0"),)}


@pytest.mark.parametrize(
    ("device", "bare"),
    [
        ("GPU-0", "GPU-0"),
        ("GPU-0::12", "GPU-0"),
        ("GPU-0::x", "GPU-0::x"),
        ("::1", "::1"),
        ("0000:1f:00.0", "0000:1f:00.0"),
    ],
)
def test_only_a_number_is_taken_from_an_id(device, bare):
    assert bare_id(device) == bare


# ------------------------------------------------------------------ what can be allocated

PF, VF = "0000:1f:00.0", "0000:1f:00.2"
NIC = Device(kind="rdma", minor=0, id=PF, numa=1, functions=(Function(address=VF),))
CARD = Device(kind="gpu", minor=0, id="GPU-0", numa=0, vendor="nvidia")


def allocatable(*devices, held=(), already=()):
    return allocatable_entries(Inventory(devices), SOURCES, held, already)


def test_healthy_devices_are_allocatable():
    sick = Device(kind="gpu", minor=1, id="GPU-1", is_healthy=False)

    assert allocatable(NIC, sick, CARD) == (a_line(VF, RDMA, 1), a_line("GPU-0", numa=0))


@pytest.mark.parametrize(
    "device",
    [Device(kind="gpu", minor=0, id=""), Device(kind="tpu", minor=0, id="1")]
    + [Device(kind="nic", minor=0, id="of a source that has no inventory")],
)
def test_what_has_no_id_or_no_name_is_not_allocatable(device):
    assert allocatable(device) == ()


@pytest.mark.parametrize("told", ["GPU-0", "GPU-0::1"])
def test_what_kubelet_lists_is_not_listed_again(told):
    assert allocatable(CARD, already=[a_line(told)]) == ()


def test_a_device_with_functions_is_allocatable_itself_while_it_is_held():
    whole = an_allocation(PF, RDMA)

    assert [each.devices for each in allocatable(NIC, held=[some_holdings(whole)])] == [
        (PF,),
        (VF,),
    ]
    assert [
        each.devices for each in allocatable(NIC, held=[some_holdings(whole, has_ended=True)])
    ] == [(VF,)]


def test_a_device_in_partitions_is_allocatable_by_those_that_are_held():
    part = an_allocation("MIG-1", parent="GPU-0")

    assert allocatable(CARD, held=[some_holdings(part)]) == (a_line("MIG-1", numa=0),)


def test_a_held_function_is_listed_once():
    function = an_allocation(VF, RDMA, parent=PF)

    assert allocatable(NIC, NIC, held=[some_holdings(function)]) == (a_line(VF, RDMA, 1),)


# ------------------------------------------------------------------ as Koordinator does


def compat(*claims, reported=None, **fields):
    report = a_report(sidecar=[a_line("1", "z/z")], main=[]) if reported is None else reported
    return compat_additions(Claims(source="koordinator", claims=claims, **fields), report)


def test_all_devices_of_a_kind_are_one_line_of_the_first_container():
    claims = Claim(kind="gpu", device="GPU-1"), Claim(kind="gpu", device=""), Claim(kind="gpu")

    assert compat(*claims) == Additions(
        entries={"sidecar": (Entry(resource=GPU, devices=("GPU-1", "", "")),)}, sorts=True
    )


def test_an_extension_hides_the_id_even_if_it_names_no_functions():
    template = Claim(kind="gpu", device="1", is_extended=True, template="vir04")
    function = Claim(kind="rdma", device=PF, is_extended=True, functions=(VF,))

    assert compat(template, function).entries["sidecar"] == (
        Entry(resource=GPU, devices=()),
        Entry(resource=RDMA, devices=(VF,)),
    )


def test_a_kind_it_does_not_know_has_no_name():
    assert compat(Claim(kind="fpga", device="1"), Claim(kind="tpu", device="2")).entries == {
        "sidecar": (Entry(resource="", devices=("1",)), Entry(resource="", devices=("2",)))
    }


def test_an_empty_list_is_a_line_without_devices_and_an_empty_object_only_sorts():
    assert compat(kinds=("gpu",)).entries == {"sidecar": (Entry(resource=GPU, devices=()),)}
    assert compat() == Additions(entries={"sidecar": ()}, sorts=True)


def test_what_cannot_be_read_and_pods_without_containers_are_left_alone():
    assert compat(problem="not JSON") is None
    assert compat(Claim(kind="gpu"), reported=a_report()) is None


# ------------------------------------------------------------------ which pod


@pytest.mark.parametrize(
    ("worse", "better"),
    [
        (gpu_pod(uid="9", created="2", is_terminal=True), gpu_pod(uid="1", is_terminating=True)),
        (gpu_pod(uid="9", created="2", is_terminating=True), gpu_pod(uid="1", created="1")),
        (gpu_pod(uid="9", created="1"), gpu_pod(uid="1", created="2")),
        (gpu_pod(uid="1"), gpu_pod(uid="2")),
    ],
    ids=["ended", "leaving", "older", "lower uid"],
)
def test_of_pods_with_one_name_the_live_one_is_meant(worse, better):
    key = "default", "web"

    assert live_pods([worse, better]) == live_pods([better, worse]) == {key: better}
    assert live_pods([worse]) == {key: worse}
