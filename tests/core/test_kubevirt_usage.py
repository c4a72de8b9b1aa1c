"""What launcher pods of VMs cost: AAQ's virt-launcher calculator, row by row, and beyond it."""

import pytest

from bursar.core.kubevirt.launchers import Role
from bursar.core.kubevirt.mode import VmiMode
from bursar.core.kubevirt.overhead import memory_overhead
from bursar.core.kubevirt.usage import PodUse, launcher_usage
from bursar.core.kubevirt.vmi import CpuTopology, Guest, KubeVirtSettings, Vmi
from bursar.core.model.quantity import Quantity
from support.builders.pods import listed, parsed, texts

EIGHT = CpuTopology(cores=2, sockets=2, threads=2)
NATIVE = parsed("pods=1 count/pods=1 requests.cpu=1 memory=3Gi requests.memory=3Gi")
USE = PodUse(whole=NATIVE, compute=NATIVE)
MI = 2**20
BASE = (25 + 100 + 25 + 40 + 30 + 8 + 8 + 32) * MI
"""The overhead of a guest without memory, with one vCPU and graphics."""


def a_vmi(guest=None, **fields):
    return Vmi(namespace="team", name="db", uid="vmi-1", guest=guest or Guest(), **fields)


def used(mode, role, vmi, pod=USE, source=USE, settings=None):
    return texts(launcher_usage(mode, role, vmi, pod, source=source, settings=settings))


def virtual(cpu, memory, pods="1"):
    prefixes = ("", "requests.", "limits.")
    return (
        {"pods": pods, "count/pods": pods}
        | {f"{each}cpu": cpu for each in prefixes}
        | {f"{each}memory": memory for each in prefixes}
    )


# ------------------------------------------------------------------ VmiPodUsage


def test_the_pod_of_a_vm_costs_what_any_pod_costs():
    assert used(VmiMode.POD_USAGE, Role.SOURCE, a_vmi()) == texts(NATIVE)


def test_a_target_like_its_source_costs_nothing():
    assert set(used(VmiMode.POD_USAGE, Role.TARGET, a_vmi()).values()) == {"0"}


@pytest.mark.parametrize("mode", list(VmiMode)[:4], ids=lambda mode: mode.value)
def test_a_leftover_costs_what_it_requests_more_than_the_source(mode):
    larger = PodUse(whole=parsed("pods=1 requests.cpu=96 memory=3Gi"), compute=NATIVE)

    assert used(mode, Role.LEFTOVER, a_vmi()) == {}
    assert used(mode, Role.LEFTOVER, a_vmi(), larger) == {"requests.cpu": "95"}


@pytest.mark.parametrize("mode", [VmiMode.POD_USAGE, VmiMode.GUEST_EFFECTIVE])
def test_9_1_10_a_target_that_grew_costs_the_growth(mode):
    grown = parsed("pods=1 count/pods=1 requests.cpu=4 memory=5Gi requests.memory=5Gi")
    target = PodUse(whole=grown, compute=grown)

    usage = used(mode, Role.TARGET, a_vmi(), target)
    assert usage == listed("pods=0 count/pods=0 requests.cpu=3 memory=2Gi requests.memory=2Gi")


# ------------------------------------------------------------------ virtual resources


@pytest.mark.parametrize(
    ("guest", "expected"),
    [
        (Guest(limits=parsed("cpu=2 memory=2Gi")), virtual("2", "2Gi")),
        (Guest(requests=parsed("cpu=2 memory=2Gi")), virtual("2", "2Gi")),
        (
            Guest(requests=parsed("cpu=2 memory=2Gi"), limits=parsed("cpu=3 memory=3Gi")),
            virtual("2", "2Gi"),
        ),
        (
            Guest(requests=parsed("cpu=2 memory=2Gi"), memory=Quantity.parse("5Gi"), cpu=EIGHT),
            virtual("8", "5Gi"),
        ),
        (Guest(), virtual("0", "0")),
        (Guest(requests=parsed("cpu=2"), cpu=CpuTopology()), virtual("0", "0")),
    ],
    ids=["limits", "requests", "both", "guest", "nothing stated", "empty topology"],
)
def test_later_statements_about_the_guest_win(guest, expected):
    assert used(VmiMode.VIRTUAL, Role.SOURCE, a_vmi(guest)) == expected


@pytest.mark.parametrize(
    ("mode", "name"), [(VmiMode.VIRTUAL, "cpu"), (VmiMode.DEDICATED, "cpu/vmi")]
)
def test_12_7a_vcpus_are_printed_in_powers_of_two(mode, name):
    guest = Guest(cpu=CpuTopology(cores=1024, sockets=2))

    assert used(mode, Role.SOURCE, a_vmi(guest))[name] == "2Ki"


SMALL = Guest(memory=Quantity.parse("2Gi"), cpu=CpuTopology(cores=1))
LARGE = Guest(memory=Quantity.parse("5Gi"), cpu=EIGHT)


@pytest.mark.parametrize(
    ("role", "spec", "status", "expected"),
    [
        (Role.SOURCE, SMALL, LARGE, virtual("8", "5Gi")),
        (Role.TARGET, LARGE, SMALL, virtual("7", "3Gi", pods="0")),
        (Role.TARGET, SMALL, LARGE, virtual("0", "0", pods="0")),
        (Role.SOURCE, Guest(memory=Quantity.parse("2Gi")), LARGE, virtual("8", "5Gi")),
    ],
    ids=["source", "larger target", "smaller target", "after the migration"],
)
def test_a_hotplug_is_paid_for_at_the_target(role, spec, status, expected):
    vmi = a_vmi(spec, requested_memory=status.memory, current_cpu=status.cpu)

    assert used(VmiMode.VIRTUAL, role, vmi) == expected


def test_dedicated_names_are_six():
    assert used(VmiMode.DEDICATED, Role.SOURCE, a_vmi(LARGE)) == listed(
        "instances/vmi=1 requests.instances/vmi=1 cpu/vmi=8 requests.cpu/vmi=8"
        " memory/vmi=5Gi requests.memory/vmi=5Gi"
    )


def test_the_target_of_a_dedicated_vm_costs_its_growth():
    vmi = a_vmi(LARGE, requested_memory=Quantity.parse("2Gi"), current_cpu=CpuTopology(cores=1))

    assert used(VmiMode.DEDICATED, Role.TARGET, vmi) == listed(
        "instances/vmi=0 requests.instances/vmi=0 cpu/vmi=7 requests.cpu/vmi=7"
        " memory/vmi=3Gi requests.memory/vmi=3Gi"
    )


# ------------------------------------------------------------------ the guest's share of a pod


def test_only_the_compute_container_counts():
    compute = parsed("pods=1 count/pods=1 requests.cpu=2 requests.memory=2Gi")
    pod = PodUse(whole=parsed("requests.cpu=9"), compute=compute)

    usage = used(VmiMode.GUEST_EFFECTIVE, Role.SOURCE, a_vmi(), pod, pod)
    assert usage == texts(compute)


def test_the_overhead_is_taken_from_requests_and_limits_of_memory():
    use = parsed("memory=3Gi requests.memory=3Gi limits.memory=1Mi requests.cpu=1")
    pod = PodUse(whole=use, compute=use)

    usage = used(
        VmiMode.GUEST_EFFECTIVE, Role.SOURCE, a_vmi(), pod, pod, settings=KubeVirtSettings()
    )
    assert Quantity.parse(usage.pop("requests.memory")) == Quantity.of(3 * 2**30 - BASE)
    assert usage == listed("memory=3Gi limits.memory=0 requests.cpu=1")


@pytest.mark.parametrize(
    ("guest", "expected"),
    [
        (Guest(), BASE),
        (Guest(requests=parsed("memory=1Gi")), BASE + 1_073_742_000 // 512),
        (Guest(requests=parsed("cpu=1500m")), BASE + 8 * MI),
        (Guest(requests=parsed("cpu=4"), limits=parsed("cpu=2")), BASE + 8 * MI),
        (Guest(cpu=EIGHT), BASE + 7 * 8 * MI),
        (Guest(cpu=CpuTopology(), requests=parsed("cpu=4")), BASE),
        (Guest(has_graphics=False), BASE - 32 * MI),
        (Guest(architecture="arm64"), BASE + 128 * MI),
        (Guest(has_vfio=True), BASE + 1024 * MI),
        (Guest(has_downward_metrics=True), BASE + MI),
        (Guest(exec_probes=1), BASE + 110 * MI),
        (Guest(exec_probes=2), BASE + 120 * MI),
        (Guest(has_encrypted_memory=True), BASE + 256 * MI),
        (Guest(has_tpm=True), BASE + 53 * MI),
        (Guest(cpu=CpuTopology(cores=1), has_dedicated_cpus=True), BASE + 100 * MI),
    ],
    ids=lambda value: "" if isinstance(value, Guest) else str(value),
)
def test_the_overhead_is_kubevirts_estimate(guest, expected):
    assert memory_overhead(guest, KubeVirtSettings()) == expected


@pytest.mark.parametrize(
    ("requests", "limits", "is_guaranteed"),
    [
        ("cpu=1", "cpu=1 memory=1Gi", True),
        ("cpu=1 memory=1Gi", "cpu=1 memory=1Gi", True),
        ("cpu=1 memory=1Gi", "cpu=1 memory=2Gi", False),
        ("memory=1Gi", "memory=1Gi", False),
        ("cpu=1 memory=1Gi", "cpu=2 memory=1Gi", False),
        ("cpu=1", "cpu=1", False),
    ],
)
def test_guaranteed_qos_adds_to_the_overhead(requests, limits, is_guaranteed):
    guest = Guest(requests=parsed(requests), limits=parsed(limits), cpu=CpuTopology(cores=1))
    plain = Guest(requests=guest.requests, cpu=CpuTopology(cores=1))
    added = memory_overhead(guest, KubeVirtSettings()) - memory_overhead(plain, KubeVirtSettings())

    assert added == (100 * MI if is_guaranteed else 0)


@pytest.mark.parametrize(
    ("ratio", "added"),
    [
        *(("", 0), ("1.0", 0), ("2", 281_019_000), ("1.1", 28_101_000)),
        *(("1e1", 2_529_171_000), ("0.5", -140_509_000), ("two", 0), ("0x2", 0)),
    ],
)
def test_a_ratio_of_the_kubevirt_object_scales_the_overhead(ratio, added):
    assert memory_overhead(Guest(), KubeVirtSettings(overhead_ratio=ratio)) == BASE + added


def test_the_ratio_is_a_float64_as_in_kubevirt():
    """Exactly, 306185 kB x 0.2 would be 61237 kB; in float64 it is a little less."""
    guest = Guest(cpu=CpuTopology(cores=4))

    scaled = memory_overhead(guest, KubeVirtSettings(overhead_ratio="1.2"))
    assert scaled - memory_overhead(guest, KubeVirtSettings()) == 61_236_000


def test_each_network_plugin_of_the_vm_adds_its_memory_once():
    guest = Guest(binding_plugins=("passt", "passt", "unknown", "slirp"))
    settings = KubeVirtSettings(plugin_memory=parsed("passt=500Mi slirp=1Mi other=9Gi"))

    assert memory_overhead(guest, settings) == BASE + 501 * MI
