"""Koordinator's own tests of its proxy, and the weaknesses of that proxy.

The first part has the names of its tests, in both modes. The second has one test for each known
weakness that is a matter of rules, showing what is answered instead.
"""

from dataclasses import dataclass
from functools import partial

import pytest

from bursar.core.devices.additions import additions, allocatable_entries
from bursar.core.devices.allocation import (
    Additions,
    Entry,
    ProblemKind,
    ReportedContainer,
    ReportedPod,
)
from bursar.core.devices.claim import Claim, Claims
from bursar.core.devices.compat import compat_additions
from bursar.core.devices.inventory import Device, Function, Inventory
from bursar.core.devices.pod import DeviceContainer, DevicePod, live_pods
from bursar.core.devices.resolve import Rules, Trust, holdings_by_pod, resolve
from bursar.core.devices.source import KOORDINATOR
from support import device_notation
from support.device_notation import a_container

SOURCES = {"koordinator": KOORDINATOR}
GPU, RDMA = "nvidia.com/gpu", "koordinator.sh/rdma"
UUID = "GPU-8c25ea37-2909-6e62-b7bf-e2fcadebea8d"
OTHER_UUID = "GPU-befd76c3-8a36-7b8a-179c-eae75aa7d9f2"
PF, VF = "0000:01:00.0", "0000:01:00.2"
A_GPU = Claim(kind="gpu", minor=0, device=UUID, amounts={"koordinator.sh/gpu-core": 100})
A_VF = Claim(kind="rdma", minor=0, device=PF, functions=(VF,), is_extended=True)
ASKS_TWO = a_container(gpu=2)
a_pod = partial(device_notation.gpu_pod, containers=(a_container(gpu=1, rdma=1, fpga=100),))


def a_report(*containers: str, name: str = "web", entries: tuple[Entry, ...] = ()) -> ReportedPod:
    first, *rest = containers or ("main",)
    return ReportedPod(
        namespace="default",
        name=name,
        containers=(
            ReportedContainer(name=first, entries=entries),
            *(ReportedContainer(name=each) for each in rest),
        ),
    )


def a_line(resource: str, *devices: str, numa: int | None = None) -> Entry:
    return Entry(resource=resource, devices=devices, numa=numa)


def filled(pods: list[DevicePod], reported: ReportedPod, inventory: Inventory | None = None):
    """The lines that are added, by container."""
    holdings = holdings_by_pod(pods, SOURCES, inventory, Rules(needs_inventory=False)).get(
        reported.key
    )
    added = additions(holdings, reported) if holdings is not None else None
    return {} if added is None else added.entries


def filled_compat(pods: list[DevicePod], reported: ReportedPod) -> Additions | None:
    pod = live_pods(pods).get(reported.key)
    return compat_additions(pod.claims[0], reported) if pod and pod.claims else None


# ------------------------------------------------------------------ Koordinator fill


@dataclass(frozen=True)
class Fill:
    id: str
    pods: list[DevicePod]
    reported: ReportedPod
    entries: tuple[Entry, ...]


FILLS = [
    Fill(
        "GPU id plus RDMA with VF: two entries, rdma first, VF address used",
        [a_pod(A_GPU, A_VF)],
        a_report(),
        (a_line(RDMA, VF), a_line(GPU, UUID)),
    ),
    Fill(
        "two pods, only the annotated one filled: the one",
        [a_pod(A_GPU), a_pod(name="bare")],
        a_report(),
        (a_line(GPU, UUID),),
    ),
    Fill(
        "two pods, only the annotated one filled: the other",
        [a_pod(A_GPU), a_pod(name="bare")],
        a_report(name="bare"),
        (),
    ),
    Fill(
        "GPU with id only: nvidia.com/gpu",
        [a_pod(Claim(kind="gpu", device=UUID))],
        a_report(),
        (a_line(GPU, UUID),),
    ),
    Fill("response pod absent from pod list: unchanged", [a_pod(A_GPU)], a_report(name="x"), ()),
    Fill("unrelated annotation key with bad JSON: unchanged", [a_pod()], a_report(), ()),
]


@pytest.mark.parametrize("case", FILLS, ids=lambda case: case.id)
def test_koordinator_fill(case):
    added = filled_compat(case.pods, case.reported)

    assert filled(case.pods, case.reported) == ({"main": case.entries} if case.entries else {})
    if not case.entries:
        assert added is None
    else:
        assert added is not None
        assert added.sorts
        assert sorted(added.entries["main"], key=lambda each: each.resource) == list(case.entries)


def test_an_annotation_that_really_is_bad_leaves_the_pod_unchanged():
    bad = a_pod(claims=(Claims(source="koordinator", problem="not JSON"),))

    assert filled([bad], a_report()) == {}
    assert filled_compat([bad], a_report()) is None


# ------------------------------------------------------------------ weaknesses


def test_weakness_2_nobody_gets_what_they_did_not_ask_for_or_what_is_not_there():
    spoof = a_pod(A_GPU, containers=(DeviceContainer(name="main"),))
    elsewhere = Inventory((Device(kind="gpu", minor=0, id=OTHER_UUID),))

    greedy = a_pod(A_GPU, Claim(kind="gpu", device=OTHER_UUID))

    assert filled([spoof], a_report()) == {}
    assert filled([a_pod(A_GPU)], a_report(), elsewhere) == {}
    assert filled([greedy], a_report()) == {"main": (a_line(GPU, UUID),)}


def test_weakness_6_what_is_allocated_is_allocatable():
    inventory = Inventory(
        (
            Device(kind="gpu", minor=0, id=UUID),
            Device(kind="rdma", minor=0, id=PF, functions=(Function(address=VF),)),
        )
    )
    whole = a_pod(Claim(kind="rdma", device=PF), name="whole")
    holdings = holdings_by_pod(
        [a_pod(A_GPU, A_VF), whole], SOURCES, inventory, Rules(needs_inventory=False)
    ).values()
    lines = allocatable_entries(inventory, SOURCES, holdings, ())

    held = {(each.resource, each.device) for pod in holdings for each in pod.allocations}
    assert held <= {(line.resource, line.devices[0]) for line in lines}


def test_weakness_8_a_template_does_not_make_the_device_disappear():
    template = Claim(kind="gpu", device=UUID, is_extended=True, template="vir04")

    assert filled([a_pod(template)], a_report()) == {"main": (a_line(GPU, UUID),)}


def test_weakness_9_no_name_is_ever_empty():
    claims = Claim(kind="fpga", device="1"), Claim(kind="tpu", device="2")
    holdings = resolve(a_pod(*claims), SOURCES, None, Rules(needs_inventory=False, trust=Trust.ANY))

    assert [each.resource for each in holdings.allocations] == ["koordinator.sh/fpga"]
    assert [each.kind for each in holdings.problems] == [ProblemKind.UNKNOWN_KIND]


def test_weakness_10_not_every_accelerator_is_made_by_nvidia():
    card = "185011D4-21104518-A0C4ED94-14CC040A-56102003"
    inventory = Inventory((Device(kind="gpu", minor=0, id=card, vendor="huawei"),))
    pods = [a_pod(Claim(kind="gpu", device=card))]

    assert filled(pods, a_report(), inventory) == {"main": (a_line("huawei.com/Ascend910", card),)}
    assert filled(pods, a_report()) == {"main": (a_line("koordinator.sh/gpu", card),)}


def test_weakness_11_the_container_that_asks_gets_it():
    quiet, asking = DeviceContainer(name="quiet"), DeviceContainer(name="asking", asks={GPU: 1})
    pod = a_pod(A_GPU, sidecars=(DeviceContainer(name="proxy"),), containers=(quiet, asking))

    assert list(filled([pod], a_report("proxy", "quiet", "asking"))) == ["asking"]


def test_weakness_12_an_empty_id_is_looked_up_by_number_or_left_out():
    old = a_pod(Claim(kind="gpu", minor=1))
    inventory = Inventory((Device(kind="gpu", minor=1, id=UUID),))

    assert filled([old], a_report(), inventory) == {"main": (a_line(GPU, UUID),)}
    assert filled([old], a_report()) == {}


def test_weakness_13_what_kubelet_gave_is_not_told_twice():
    both = a_pod(A_GPU, Claim(kind="gpu", device=OTHER_UUID), containers=(ASKS_TWO,))

    assert filled([both], a_report(entries=(a_line(GPU, UUID),))) == {
        "main": (a_line(GPU, OTHER_UUID),)
    }


def test_weakness_14_shares_of_one_device_can_be_told_apart():
    half = Claim(kind="gpu", device=UUID, amounts={"koordinator.sh/gpu-memory-ratio": 50})
    found = holdings_by_pod(
        [a_pod(half, name=name) for name in ("b", "a")],
        SOURCES,
        None,
        Rules(needs_inventory=False, numbers_shares=True),
    )

    assert {
        name: additions(found["default", name], a_report(name=name)).entries["main"]
        for name in ("a", "b")
    } == {"a": (a_line(GPU, f"{UUID}::0"),), "b": (a_line(GPU, f"{UUID}::1"),)}


def test_weakness_15_each_device_has_a_line_of_its_own_with_its_numa_node():
    inventory = Inventory(
        (
            Device(kind="gpu", minor=0, id=UUID, numa=0),
            Device(kind="gpu", minor=1, id=OTHER_UUID, numa=1),
        )
    )
    both = a_pod(A_GPU, Claim(kind="gpu", device=OTHER_UUID), containers=(ASKS_TWO,))

    assert filled([both], a_report(), inventory) == {
        "main": (a_line(GPU, UUID, numa=0), a_line(GPU, OTHER_UUID, numa=1))
    }


def test_weakness_16_of_two_pods_with_one_name_the_live_one_counts():
    old = a_pod(A_GPU, uid="1", is_terminal=True)
    new = a_pod(Claim(kind="gpu", device=OTHER_UUID), uid="2")

    for pods in ([old, new], [new, old]):
        assert filled(pods, a_report()) == {"main": (a_line(GPU, OTHER_UUID),)}


def test_weakness_17_a_partition_is_a_device_with_a_parent():
    inventory = Inventory((Device(kind="gpu", minor=0, id=UUID, numa=0, vendor="nvidia"),))
    part = a_pod(Claim(kind="gpu", minor=0, device="MIG-1"))
    (allocation,) = resolve(part, SOURCES, inventory, Rules(needs_inventory=False)).allocations

    assert (allocation.device, allocation.parent) == ("MIG-1", UUID)
    assert filled([part], a_report(), inventory) == {"main": (a_line(GPU, "MIG-1", numa=0),)}
