"""Capacity and allocatable of a node: the worked example, thresholds, and what is refused."""

import pytest

from bursar.core.model.allocatable import (
    DEFAULT_EVICTION_HARD,
    KubeletConfigError,
    Machine,
    Threshold,
    allocatable,
    eviction_settings,
    kubepods_limits,
    machine_capacity,
    parse_reservation,
    parse_thresholds,
    reservation,
    startup_error,
)
from bursar.core.model.quantity import Quantity
from support.pod_notation import listed, parsed, texts

MI = 1 << 20
GI = 1 << 30

MACHINE = Machine(cores=4, memory_bytes=8 * GI, hugepages={2 * MI: 512}, ephemeral_bytes=100 * GI)


def test_capacity_is_what_the_machine_has():
    assert texts(machine_capacity(MACHINE)) == listed(
        "cpu=4 memory=8Gi pods=110 hugepages-2Mi=1Gi ephemeral-storage=100Gi"
    )


def test_pods_per_core_lowers_the_number_of_pods_but_never_raises_it():
    for per_core, pods in ((0, "110"), (10, "40"), (50, "110"), (-1, "110")):
        machine = Machine(cores=4, memory_bytes=GI, pods_per_core=per_core)
        assert texts(machine_capacity(machine)) == {"cpu": "4", "memory": "1Gi", "pods": pods}


def test_the_worked_example():
    capacity = machine_capacity(MACHINE)
    kube, system = parsed("memory=512Mi"), parsed("memory=256Mi cpu=500m")
    left = allocatable(
        capacity,
        kube_reserved=kube,
        system_reserved=system,
        eviction_hard=parse_thresholds(DEFAULT_EVICTION_HARD),
    )
    limits = kubepods_limits(capacity, kube_reserved=kube, system_reserved=system)

    assert texts(left) == listed(
        f"cpu=3500m memory=6300Mi pods=110 hugepages-2Mi=1Gi"
        f" ephemeral-storage={100 * GI - 10737418400}"
    )
    assert texts(limits) == listed(
        "cpu=3500m memory=7424Mi pods=110 hugepages-2Mi=1Gi ephemeral-storage=100Gi"
    )


def test_nothing_reserved_leaves_the_capacity_as_it_is_written():
    capacity = parsed("cpu=4 memory=1500Mi pods=10")
    assert allocatable(capacity) == capacity
    assert texts(allocatable(capacity)) == texts(capacity)
    assert texts(kubepods_limits(capacity)) == texts(capacity)


def test_what_is_left_is_never_less_than_nothing():
    capacity = parsed("cpu=1 memory=1Gi hugepages-1Gi=2Gi")
    left = allocatable(capacity, kube_reserved=parsed("cpu=2"))
    assert texts(left) == listed("cpu=0 memory=0 hugepages-1Gi=2Gi")
    limits = kubepods_limits(capacity, system_reserved=parsed("cpu=2"))
    assert texts(limits) == listed("cpu=0 memory=1Gi hugepages-1Gi=2Gi")


def test_hugepages_make_memory_appear_even_on_a_node_that_reports_none():
    assert texts(allocatable(parsed("hugepages-2Mi=2Mi"))) == listed("hugepages-2Mi=2Mi memory=0")


def test_a_reservation_of_what_the_node_lacks_is_ignored():
    kept = reservation(parsed("cpu=1"), kube_reserved=parsed("cpu=100m pid=1000 memory=1Gi"))
    assert texts(kept) == {"cpu": "100m"}


def test_healthy_devices_replace_what_capacity_says():
    left = allocatable(parsed("nvidia.com/gpu=8"), devices=parsed("nvidia.com/gpu=7"))
    assert texts(left) == {"nvidia.com/gpu": "7"}


def test_an_extended_resource_goes_with_its_capacity_and_others_stay():
    before = parsed("example.com/foo=3 hugepages-2Mi=4Mi cpu=9")
    left = allocatable(parsed("cpu=1"), before=before)
    assert texts(left) == listed("cpu=1 hugepages-2Mi=4Mi")


# ------------------------------------------------------------------ thresholds


def test_ten_percent_is_what_float32_makes_of_it():
    threshold = parse_thresholds({"memory.available": "10%"})["memory.available"]
    assert str(threshold.amount(Quantity.parse("100Gi"))) == "10737418400"


@pytest.mark.parametrize(
    ("text", "amount"),
    [("100Mi", "100Mi"), ("5%", "51"), ("0.5%", "5"), (".5e1%", "51"), ("5.%%", "51")]
    + [("100.0%", "1Ki"), ("+0%", "0"), ("1e-999999999%", "0"), ("50E0%", "512"), ("1", "1")],
)
def test_thresholds_are_amounts_or_parts(text: str, amount: str):
    thresholds = parse_thresholds({"nodefs.available": text})
    assert str(thresholds["nodefs.available"].amount(Quantity.parse("1Ki"))) == amount


def test_no_percentage_and_all_of_it_switch_a_signal_off():
    assert parse_thresholds({"memory.available": "0%", "nodefs.available": "100%"}) == {}


THRESHOLD_REFUSALS = {
    "cpu.available=1": "unsupported eviction signal cpu.available",
    "memory.available=-5%": "eviction percentage threshold memory.available must be >= 0%: -5%",
    "memory.available=101%": "eviction percentage threshold memory.available must be <= 100%: 101%",
    "memory.available=x%": 'strconv.ParseFloat: parsing "x": invalid syntax',
    "memory.available=%": 'strconv.ParseFloat: parsing "": invalid syntax',
    "memory.available=1e39%": 'strconv.ParseFloat: parsing "1e39": value out of range',
    "memory.available=1e99999%": 'strconv.ParseFloat: parsing "1e99999": value out of range',
    "memory.available=0": "eviction threshold memory.available must be positive: 0",
    "memory.available=-1Gi": "eviction threshold memory.available must be positive: -1Gi",
    "memory.available=much": (
        "quantities must match the regular expression"
        " '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    ),
}


@pytest.mark.parametrize(("setting", "message"), THRESHOLD_REFUSALS.items(), ids=THRESHOLD_REFUSALS)
def test_a_threshold_the_kubelet_refuses(setting: str, message: str):
    with pytest.raises(KubeletConfigError) as refusal:
        parse_thresholds(listed(setting))
    assert str(refusal.value) == message


def test_an_endless_percentage_is_refused():
    with pytest.raises(KubeletConfigError, match="invalid syntax"):
        parse_thresholds({"memory.available": "1" * 2000 + "%"})


def test_naming_one_threshold_drops_the_defaults_of_the_others():
    mine = {"memory.available": "1Gi"}
    assert eviction_settings(None) == DEFAULT_EVICTION_HARD
    assert eviction_settings({}) == {}
    assert eviction_settings(mine) == mine
    assert eviction_settings(mine, merge_defaults=True) == {**DEFAULT_EVICTION_HARD, **mine}


def test_a_threshold_on_something_other_than_memory_and_the_root_disk_reserves_nothing():
    thresholds = {"imagefs.available": Threshold(quantity=Quantity.parse("1Gi"))}
    assert reservation(parsed("memory=8Gi ephemeral-storage=8Gi"), eviction_hard=thresholds) == {}


# ------------------------------------------------------------------ reservations


def test_reservations_are_read():
    reserved = parse_reservation({"cpu": "100m", "memory": "1Gi", "pid": "4100"})
    assert texts(reserved) == listed("cpu=100m memory=1Gi pid=4100")
    assert parse_reservation({}) == {}


RESERVATION_REFUSALS = {
    "pods=10": 'cannot reserve "pods" resource',
    "cpu=-1": 'resource quantity for "cpu" cannot be negative: -1',
    "memory=much": 'failed to parse quantity "much" for "memory" resource: quantities must match'
    " the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
}


@pytest.mark.parametrize(
    ("setting", "message"), RESERVATION_REFUSALS.items(), ids=RESERVATION_REFUSALS
)
def test_a_reservation_the_kubelet_refuses(setting: str, message: str):
    with pytest.raises(KubeletConfigError) as refusal:
        parse_reservation(listed(setting))
    assert str(refusal.value) == message


def test_a_kubelet_that_reserves_too_much_says_so_and_does_not_start():
    capacity = machine_capacity(Machine(cores=2, memory_bytes=8 * GI))
    reserved = reservation(capacity, kube_reserved=parsed("cpu=2500m memory=9Gi"))
    assert startup_error(capacity, reserved) == (
        "invalid Node Allocatable configuration."
        ' Resource "cpu" has a reservation of {{2500 -3} {<nil>}  DecimalSI}'
        " but capacity of {{2000 -3} {<nil>}  DecimalSI}. Expected capacity >= reservation."
        ' Resource "memory" has a reservation of {{9663676416 0} {<nil>}  BinarySI}'
        " but capacity of {{8589934592 0} {<nil>}  BinarySI}. Expected capacity >= reservation."
    )


def test_amounts_that_upstream_prints_as_an_address_are_shown_as_amounts():
    capacity = parsed("memory=1Gi")
    error = startup_error(capacity, parsed("memory=1.5Gi"))
    assert error is not None
    assert "a reservation of {1536Mi} but capacity of {{1073741824 0}" in error


def test_a_kubelet_that_reserves_everything_starts():
    capacity = parsed("cpu=2")
    assert startup_error(capacity, reservation(capacity, kube_reserved=parsed("cpu=2"))) is None
