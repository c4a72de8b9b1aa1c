"""What quotas charge for devices: requests in every form, allocations, and forged annotations."""

import json
import tracemalloc
from dataclasses import replace

import pytest

from bursar.core.counting.counters import Counters
from bursar.core.counting.device_settings import DeviceCounting, charged_name
from bursar.core.counting.devices import DeviceCounter
from bursar.core.devices.source import KOORDINATOR, Delimiters, KindRule, Layout, Shape, Source
from bursar.wire.devices.facts import DEVICES_MAX, TEXT_LENGTH_MAX, derive_devices
from bursar.wire.model.pod_row import PodRowDecoder
from support.builders.manifests import pod_manifest
from support.builders.pods import texts

HAMI = Source(
    name="hami",
    annotation="hami.io/vgpu-devices-allocated",
    layout=Layout(
        shape=Shape.DELIMITED,
        kind="gpu",
        delimiters=Delimiters(order=("device", "vendor", "", "nvidia.com/gpucores")),
    ),
    kinds={
        "gpu": KindRule(
            resource="nvidia.com/gpu",
            asked_by=("nvidia.com/gpu",),
            percent=("nvidia.com/gpucores",),
            charged_as="gpus/hami",
        )
    },
)
ALLOCATED = KOORDINATOR.annotation


def a_counter(*sources):
    chosen = sources or (KOORDINATOR,)
    return DeviceCounter(DeviceCounting(sources=chosen), derive_devices(chosen))


def a_row(requests="", *, counter=None, **annotations):
    raw = pod_manifest("a/web", requests=requests, metadata={"annotations": annotations})
    counters = Counters((counter or a_counter(),))
    return PodRowDecoder(counters.derive_facts).decode(json.dumps(raw).encode())


def charged(requests="", *, counter=None, **annotations) -> dict[str, str]:
    """The devices, without the names that begin with `requests.`, which must be the same."""
    counter = counter or a_counter()
    answer = counter.count(a_row(requests, counter=counter, **annotations))
    if answer is None:
        return {}
    assert answer.is_addition
    amounts = texts(answer.amounts)
    bare = {name: each for name, each in amounts.items() if not name.startswith("requests.")}
    assert amounts == {**bare, **{f"requests.{name}": each for name, each in bare.items()}}
    return bare


def gpus(*shares: int, **more) -> str:
    """What Koordinator writes for GPUs of which the pod got this percent."""
    listed = [
        {
            "minor": number,
            "resources": {
                "koordinator.sh/gpu-core": str(share),
                "koordinator.sh/gpu-memory": "8Gi",
                "koordinator.sh/gpu-memory-ratio": str(share),
            },
        }
        for number, share in enumerate(shares)
    ]
    return json.dumps({"gpu": listed, **more})


# ------------------------------------------------------------------ requests


@pytest.mark.parametrize(
    ("requests", "amounts"),
    [
        ("nvidia.com/gpu=2", {"gpu/koordinator": "2"}),
        ("koordinator.sh/gpu=200", {"gpu/koordinator": "2"}),
        ("koordinator.sh/gpu=50", {"gpu/koordinator": "500m"}),
        (
            "koordinator.sh/gpu-core=30 koordinator.sh/gpu-memory-ratio=50",
            {"gpu/koordinator": "500m"},
        ),
        ("koordinator.sh/gpu-memory=8Gi", {"gpu/koordinator": "1"}),
        ("koordinator.sh/gpu-core=250 koordinator.sh/gpu-memory=8Gi", {"gpu/koordinator": "2500m"}),
        ("nvidia.com/gpu=8 koordinator.sh/gpu-core=1", {"gpu/koordinator": "8"}),
        ("huawei.com/npu-core=4", {"gpu/koordinator": "1"}),
        ("huawei.com/Ascend910=4", {"gpu/koordinator": "4"}),
        (
            "koordinator.sh/rdma=1 nvidia.com/gpu=1",
            {"gpu/koordinator": "1", "rdma/koordinator": "10m"},
        ),
        ("cpu=4 example.com/dongle=1", {}),
        ("nvidia.com/gpu=0", {}),
    ],
)
def test_a_pod_that_has_no_devices_yet_costs_what_it_requests(requests, amounts):
    assert charged(requests) == amounts


def test_other_pods_cost_nothing_more_and_hold_no_facts():
    counter = a_counter()
    row = a_row("cpu=1", counter=counter, **{"example.com/other": "1"})

    assert counter.count(row) is None
    assert row.facts is None


# ------------------------------------------------------------------ allocations


def test_an_allocation_raises_the_charge_and_never_lowers_it():
    half = "koordinator.sh/gpu=50"

    assert charged(half, **{ALLOCATED: gpus(50)}) == {"gpu/koordinator": "500m"}
    assert charged(half, **{ALLOCATED: gpus(80, 80)}) == {"gpu/koordinator": "1600m"}
    for forged in (gpus(1), gpus(0), gpus(), "{}", "null", "", "[", "{}" * 40_000):
        assert charged(half, **{ALLOCATED: forged}) == {"gpu/koordinator": "500m"}


def test_devices_that_come_with_others_are_charged():
    joint = {"rdma": [{"minor": 0, "resources": {"koordinator.sh/rdma": "1"}}, {"minor": 1}]}

    assert charged("nvidia.com/gpu=1", **{ALLOCATED: gpus(100, **joint)}) == {
        "gpu/koordinator": "1",
        "rdma/koordinator": "1010m",
    }


def test_an_allocation_without_a_request_is_charged_to_whoever_wrote_it():
    assert charged("cpu=1", **{ALLOCATED: gpus(100)}) == {"gpu/koordinator": "1"}
    assert charged("cpu=1", **{ALLOCATED: gpus(0)}) == {}
    absurd = json.dumps({"gpu": [{"resources": {"koordinator.sh/gpu-core": "9E"}}]})
    assert charged("cpu=1", **{ALLOCATED: absurd}) == {"gpu/koordinator": "1"}


def test_unknown_kinds_and_unreadable_pods_are_left_out():
    assert charged("cpu=1", **{ALLOCATED: '{"toaster": [{"minor": 0}]}'}) == {}
    derive = derive_devices((KOORDINATOR,))
    assert derive(f'{{"metadata": {{"annotations": {{"{ALLOCATED}": []}}}}}}'.encode()) is None
    assert derive(f'{{"spec": "{ALLOCATED}"}}'.encode()) is None
    assert derive(f'{{"metadata": {{}}, "{ALLOCATED}": 1}}'.encode()) is None


def test_an_annotation_that_takes_long_to_read_counts_as_none():
    half = "koordinator.sh/gpu=50"
    for text in (gpus(100) + " " * TEXT_LENGTH_MAX, gpus(*[100] * (DEVICES_MAX + 1))):
        assert charged(half, **{ALLOCATED: text}) == {"gpu/koordinator": "500m"}
    most = json.dumps({"gpu": [{}] * DEVICES_MAX})
    assert charged(half, **{ALLOCATED: most}) == {"gpu/koordinator": str(DEVICES_MAX)}


def test_an_annotation_that_is_too_long_is_not_remembered():
    """A tenant could fill the memory of the controller with pods that are gone."""
    counter = a_counter()
    length, pods = 16 * TEXT_LENGTH_MAX, 20
    tracemalloc.start()
    try:
        for number in range(pods):
            a_row("cpu=1", counter=counter, **{ALLOCATED: f"{number:{length}}"})
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 2 * length


def test_the_reason_tells_where_the_amount_was_found():
    counter = a_counter()
    rdma = {"rdma": [{"minor": 0}]}
    row = a_row("nvidia.com/gpu=1", counter=counter, **{ALLOCATED: gpus(100, **rdma)})

    assert counter.count(row).reason == (
        "gpu/koordinator: 1 requested, rdma/koordinator: 1 allocated"
    )


# ------------------------------------------------------------------ other sources


def test_percent_of_each_device_costs_the_devices_that_are_requested():
    counter = a_counter(HAMI)
    annotation = "GPU-1,NVIDIA,3000,30:GPU-2,NVIDIA,3000,30:;"
    asked = "nvidia.com/gpu=2 nvidia.com/gpucores=30"

    assert charged(asked, counter=counter) == {"gpus/hami": "2"}
    allocated = {HAMI.annotation: annotation}
    assert charged(asked, counter=counter, **allocated) == {"gpus/hami": "2"}
    assert charged("cpu=1", counter=counter, **allocated) == {"gpus/hami": "600m"}


def test_kinds_that_are_charged_under_one_name_add_up():
    shared = {
        kind: replace(KOORDINATOR.kinds[kind], charged_as="cards/all") for kind in ("gpu", "fpga")
    }
    counter = a_counter(replace(KOORDINATOR, kinds=shared))

    assert charged("nvidia.com/gpu=2 koordinator.sh/fpga=100", counter=counter) == {
        "cards/all": "3"
    }


def test_names_that_a_quota_can_list():
    counter = a_counter(KOORDINATOR, HAMI)

    for name in ("gpu/koordinator", "requests.rdma/koordinator", "gpus/hami"):
        assert counter.may_charge(name)
    assert not counter.may_charge("gpu/hami")
    assert not counter.may_charge("requests.nvidia.com/gpu")


def test_a_kind_without_a_name_for_quotas_is_refused():
    odd = replace(HAMI, kinds={"v_GPU": KindRule(resource="example.com/gpu")})
    with pytest.raises(ValueError, match="no quota can list 'v_gpu/hami'; set chargedAs"):
        DeviceCounting(sources=(odd,))
    named = replace(HAMI, kinds={"GPU": KindRule(resource="example.com/gpu")})
    assert charged_name(named, "GPU") == "gpu/hami"
