"""Each scenario of AAQ's `virt-launcher-usage-calc_test.go`, by its number in our table.

Pods, VMs and migrations are manifests here, so that decoding and counting are tested together.
"""

import pytest

from bursar.core.counting.counter import Pending
from bursar.core.kubevirt.mode import VmiMode
from support.builders.pods import listed
from support.builders.vms import a_kubevirt, a_launcher, a_migration, a_vmi
from support.counting.vm_scene import VmScene

SOURCE = a_launcher("old", "", node="n1")
TARGET = a_launcher("new", "", node="n2", migration="move", created=2)
ONE_POD = listed("pods=1 count/pods=1")


def pod_usage(*manifests):
    scene = VmScene(VmiMode.POD_USAGE)
    scene.see(*manifests)
    return scene


# ------------------------------------------------------------------ recognition, VmiPodUsage


def test_u_vmi_01_a_pod_without_an_owner_is_not_counted_here():
    pod = a_launcher("web")
    del pod["metadata"]["ownerReferences"]

    assert pod_usage(a_vmi(), pod).count("web") is None


def test_u_vmi_02_the_launcher_of_an_unknown_vm_waits():
    """AAQ counts it natively, and so charges it wrongly until its cache has the VM."""
    assert pod_usage(SOURCE).count("old") == Pending(
        "VirtualMachineInstance db with uid vmi-of-db does not exist (yet)"
    )


def test_u_vmi_03_a_pod_of_a_vm_that_is_not_a_launcher_is_not_counted_here():
    pod = a_launcher("disk")
    pod["metadata"]["labels"]["kubevirt.io"] = "hotplug-disk"

    assert pod_usage(a_vmi(), pod).count("disk") is None


def test_u_vmi_04_a_single_launcher_costs_what_its_pod_costs():
    assert pod_usage(a_vmi(node="n1"), SOURCE).cost("old") == ONE_POD


def test_u_vmi_05_the_source_costs_the_same_during_a_migration():
    scene = pod_usage(a_vmi(node="n1"), a_migration(), SOURCE, TARGET)

    assert scene.cost("old") == ONE_POD


def test_u_vmi_06_a_target_like_its_source_costs_nothing():
    scene = pod_usage(a_vmi(node="n1"), a_migration(), SOURCE, TARGET)

    assert scene.cost("new") == listed("pods=0 count/pods=0")


def test_u_vmi_07_a_pod_that_a_migration_left_over_costs_nothing():
    """AAQ charges nothing for any pod with this label and owner, so that a tenant can forge it."""
    forged = a_launcher("forged", "cpu=96", node="n3")
    scene = pod_usage(a_vmi(node="n1"), a_migration(phase="Failed"), SOURCE, TARGET, forged)

    assert scene.cost("new") == {}
    assert scene.count("forged") is None


# ------------------------------------------------------------------ VirtualResources

EIGHT = {"cores": 2, "sockets": 2, "threads": 2}
TWO = {"cpu": "2", "memory": "2Gi"}
FIVE = {"guest": "5Gi"}


def virtual(cpu, memory, pods="1"):
    amounts = {"cpu": cpu, "memory": memory}
    prefixed = {f"{p}{n}": v for p in ("", "requests.", "limits.") for n, v in amounts.items()}
    return {"pods": pods, "count/pods": pods, **prefixed}


def a_vm_with(domain, **status):
    vmi = a_vmi(node="n1", **status)
    vmi["spec"]["domain"] = domain
    return vmi


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        pytest.param({"resources": {"limits": TWO}}, virtual("2", "2Gi"), id="U-VMI-08"),
        pytest.param({"resources": {"requests": TWO}}, virtual("2", "2Gi"), id="U-VMI-09"),
        pytest.param(
            {"resources": {"requests": TWO, "limits": {"cpu": "4", "memory": "4Gi"}}},
            virtual("2", "2Gi"),
            id="U-VMI-10",
        ),
        pytest.param(
            {"resources": {"requests": TWO, "limits": TWO}, "memory": FIVE, "cpu": EIGHT},
            virtual("8", "5Gi"),
            id="U-VMI-11",
        ),
    ],
)
def test_what_is_stated_closest_to_the_guest_counts(domain, expected):
    scene = VmScene(VmiMode.VIRTUAL)
    scene.see(a_vm_with(domain), SOURCE)

    assert scene.cost("old") == expected


SMALL = {"cpu": {"cores": 1}, "memory": {"guest": "2Gi"}}
LARGE = {"cpu": EIGHT, "memory": FIVE}


def status_of(domain):
    requested = {"guestRequested": domain["memory"]["guest"], "guestCurrent": "2Gi"}
    return {"memory": requested, "currentCPUTopology": domain["cpu"]}


@pytest.mark.parametrize(
    ("pod", "spec", "status", "expected"),
    [
        pytest.param("old", SMALL, LARGE, virtual("8", "5Gi"), id="U-VMI-12"),
        pytest.param("new", LARGE, SMALL, virtual("7", "3Gi", pods="0"), id="U-VMI-13"),
        pytest.param("new", SMALL, LARGE, virtual("0", "0", pods="0"), id="U-VMI-14"),
        pytest.param("old", LARGE, LARGE, virtual("8", "5Gi"), id="U-VMI-15"),
    ],
)
def test_a_hotplug_is_paid_for_at_the_target(pod, spec, status, expected):
    scene = VmScene(VmiMode.VIRTUAL)
    scene.see(a_vm_with(spec, **status_of(status)), a_migration(), SOURCE, TARGET)

    assert scene.cost(pod) == expected


# ------------------------------------------------------------------ the other modes


def test_u_vmi_16_a_vm_in_dedicated_mode_costs_six_names():
    scene = VmScene(VmiMode.DEDICATED)
    scene.see(a_vm_with(LARGE), SOURCE)

    assert scene.cost("old") == listed(
        "instances/vmi=1 requests.instances/vmi=1 cpu/vmi=8 requests.cpu/vmi=8"
        " memory/vmi=5Gi requests.memory/vmi=5Gi"
    )


def test_u_vmi_17_only_the_compute_container_counts_in_guest_effective_mode():
    pod = a_launcher("old", "cpu=2 memory=2Gi", node="n1")
    pod["spec"]["containers"].append(
        {"name": "hook", "resources": {"requests": listed("cpu=1 memory=1Gi")}}
    )
    scene = VmScene(VmiMode.GUEST_EFFECTIVE)
    scene.see(a_vmi(node="n1"), pod)

    assert scene.cost("old") == listed(
        "pods=1 count/pods=1 cpu=2 requests.cpu=2 memory=2Gi requests.memory=2Gi"
    )
    assert scene.reason("old") == "VM db: container compute"
    scene.see(a_kubevirt())
    assert scene.reason("old") == "VM db: container compute without 292Mi of memory overhead"
    # 25 + 100 + 25 + 40 + 30 Mi for processes, 4 x 8 Mi for vCPUs, 8 Mi for I/O, 32 Mi for video.
    assert scene.cost("old")["requests.memory"] == "1756Mi"
