"""A pod's cgroups: what is written for each QoS class, into which files, and where."""

from dataclasses import replace

import pytest

from bursar.core.model.cgroup.pod import (
    CgroupValues,
    ContainerCgroup,
    ContainerKind,
    PodCgroup,
    pod_cgroup,
    pod_values,
)
from bursar.core.model.defaulting import with_defaults
from bursar.core.model.pod import Container, Pod
from bursar.core.model.qos import QosClass
from support.builders.pods import Slot, a_pod, init, main, resources, sidecar

MI = 1 << 20
GI = 1 << 30
SMALL = "cpu=100m memory=100Mi"
LARGE = "cpu=200m memory=200Mi"


def numbers(values: CgroupValues) -> tuple[int | None, ...]:
    return (
        values.cpu_shares,
        values.cpu_quota_us,
        values.cpu_period_us,
        values.memory_limit,
    )


def only(cgroup: PodCgroup) -> ContainerCgroup:
    assert len(cgroup.containers) == 1
    return cgroup.containers[0]


# ------------------------------------------------------------------ the pod's own cgroup

PODS = {
    "BestEffort gets the least and no limit": (a_pod(main()), (2, None, None, None)),
    "BestEffort by an empty list of its own": (
        a_pod(main(SMALL, LARGE), resources=resources()),
        (2, None, None, None),
    ),
    "Burstable without any limit": (a_pod(main(SMALL)), (102, None, None, None)),
    "Burstable with all limits": (
        a_pod(main(SMALL, LARGE)),
        (102, 20_000, 100_000, 200 * MI),
    ),
    "Burstable, one container without limits": (
        a_pod(main(SMALL, LARGE), main(SMALL)),
        (204, None, None, None),
    ),
    "Burstable, one container without a memory limit": (
        a_pod(main(SMALL, LARGE), main(SMALL, "cpu=200m")),
        (204, 40_000, 100_000, None),
    ),
    "Burstable, an init container without limits": (
        a_pod(main(SMALL, LARGE), init()),
        (102, None, None, None),
    ),
    "Burstable, a sidecar with limits": (
        a_pod(main(SMALL, LARGE), sidecar(SMALL, LARGE)),
        (204, 40_000, 100_000, 400 * MI),
    ),
    "Guaranteed": (a_pod(main(SMALL, SMALL)), (102, 10_000, 100_000, 100 * MI)),
    "Guaranteed with overhead": (
        a_pod(main(SMALL, SMALL), overhead=SMALL),
        (204, 20_000, 100_000, 200 * MI),
    ),
    "the pod's own limits bind containers that have none": (
        a_pod(main(), main(), resources=resources(SMALL, LARGE)),
        (102, 20_000, 100_000, 200 * MI),
    ),
    "the pod's own limit on one resource only": (
        a_pod(main(), main(), resources=resources(SMALL, "memory=200Mi")),
        (102, None, None, 200 * MI),
    ),
    "a limit of less than a hundredth of a cpu": (
        a_pod(main("cpu=1m", "cpu=1m")),
        (2, 1000, 100_000, None),
    ),
}


@pytest.mark.parametrize(("pod", "expected"), PODS.values(), ids=PODS)
def test_the_cgroup_of_a_pod(pod: Pod, expected: tuple[int | None, ...]):
    assert numbers(pod_values(with_defaults(pod))) == expected


def test_a_pod_may_use_the_hugepages_it_requests_and_no_others():
    amounts = SMALL + " hugepages-2Mi=4Mi hugepages-512Mi=512Mi"
    values = pod_values(a_pod(main(amounts, amounts)))
    assert values.hugetlb == {"2MB": 4 * MI, "1GB": 0, "512MB": 512 * MI}


def test_a_page_size_between_the_units_is_not_written():
    values = pod_values(a_pod(main("hugepages-3069Mi=1 cpu=1")))
    assert values.hugetlb == {"2MB": 0, "1GB": 0}


# ------------------------------------------------------------------ containers

CONTAINERS = {
    "request and limit": (main("cpu=1", "cpu=2 memory=128Mi"), (1024, 200_000, 128 * MI)),
    "no memory": (main("cpu=2", "cpu=8 memory=0"), (2048, 800_000, None)),
    "no cpu request": (main("", "cpu=2"), (2048, 200_000, None)),
    "a cpu request of zero": (main("cpu=0", "cpu=2"), (2, 200_000, None)),
    "nothing": (main(), (2, None, None)),
}


@pytest.mark.parametrize(("slot", "expected"), CONTAINERS.values(), ids=CONTAINERS)
def test_the_cgroup_of_a_container(slot: Slot, expected: tuple[int | None, ...]):
    pod = a_pod(slot)
    shares, quota, memory = expected
    assert numbers(only(pod_cgroup(pod)).values) == (shares, quota, 100_000, memory)


def test_a_container_without_limits_gets_those_of_the_pod():
    pod = a_pod(main(), main("", SMALL), resources=resources("", LARGE))
    assert [numbers(each.values) for each in pod_cgroup(pod).containers] == [
        (204, 20_000, 100_000, 200 * MI),
        (102, 10_000, 100_000, 100 * MI),
    ]


def test_a_containers_hugepages_override_the_pods_and_are_cut_to_the_nodes_sizes():
    own = "hugepages-1Gi=1Gi hugepages-64Ki=64Ki hugepages-xyz=1"
    pod = a_pod(main("", own), resources=resources("", "hugepages-2Mi=4Mi hugepages-1Gi=2Gi"))
    assert only(pod_cgroup(pod)).values.hugetlb == {"2MB": 4 * MI, "1GB": GI}


def test_containers_are_listed_in_the_order_they_start():
    debugger = Container(name="debugger")
    pod = replace(
        a_pod(main("cpu=1"), init("cpu=1"), sidecar("memory=1Gi")),
        ephemeral_containers=(debugger,),
    )
    cgroup = pod_cgroup(pod, 4 * GI)
    assert [(c.name, c.kind, c.oom_score_adj) for c in cgroup.containers] == [
        ("i0", ContainerKind.INIT, 999),
        ("i1", ContainerKind.SIDECAR, 750),
        ("c0", ContainerKind.CONTAINER, 999),
        ("debugger", ContainerKind.EPHEMERAL, 999),
    ]


def test_old_and_new_runtimes_weigh_a_container_differently_and_the_kubelet_stays_linear():
    cgroup = pod_cgroup(a_pod(main("cpu=1")))
    assert cgroup.values.cpu_weight == 39
    assert only(cgroup).values.cpu_weight == 100
    assert only(cgroup).older_cpu_weight == 39


# ------------------------------------------------------------------ files


def test_the_files_of_a_limited_container():
    pod = a_pod(main("cpu=500m memory=64Mi", "cpu=1500m memory=128Mi"))
    container = only(pod_cgroup(pod))
    assert container.v1_files() == {
        "cpu.shares": "512",
        "cpu.cfs_quota_us": "150000",
        "cpu.cfs_period_us": "100000",
        "memory.limit_in_bytes": "134217728",
        "memory.memsw.limit_in_bytes": "134217728",
        "hugetlb.2MB.limit_in_bytes": "0",
        "hugetlb.1GB.limit_in_bytes": "0",
    }
    assert container.v2_files() == {
        "cpu.weight": "59",
        "cpu.max": "150000 100000",
        "memory.max": "134217728",
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "hugetlb.2MB.max": "0",
        "hugetlb.1GB.max": "0",
    }


def test_the_files_of_an_unlimited_pod_and_container():
    cgroup = pod_cgroup(a_pod(main()))
    assert cgroup.values.v1_files() == {
        "cpu.shares": "2",
        "cpu.cfs_quota_us": None,
        "cpu.cfs_period_us": None,
        "memory.limit_in_bytes": None,
        "hugetlb.2MB.limit_in_bytes": "0",
        "hugetlb.1GB.limit_in_bytes": "0",
    }
    assert cgroup.values.v2_files() == {
        "cpu.weight": "1",
        "cpu.max": "max 100000",
        "memory.max": "max",
        "hugetlb.2MB.max": "0",
        "hugetlb.1GB.max": "0",
    }
    assert only(cgroup).v1_files()["memory.memsw.limit_in_bytes"] is None


# ------------------------------------------------------------------ names

NAMES = {
    "Guaranteed": ("/kubepods/pod1234-abcd", "/kubepods.slice/kubepods-pod1234_abcd.slice"),
    "Burstable": (
        "/kubepods/burstable/pod1234-abcd",
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1234_abcd.slice",
    ),
    "BestEffort": (
        "/kubepods/besteffort/pod1234-abcd",
        "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1234_abcd.slice",
    ),
}


@pytest.mark.parametrize(("qos", "paths"), NAMES.items(), ids=NAMES)
def test_the_path_names_the_class_and_the_uid(qos: str, paths: tuple[str, str]):
    cgroup = pod_cgroup(a_pod(main(), uid="1234-abcd", reported_qos=qos))
    assert cgroup.qos is QosClass(qos)
    assert (cgroup.cgroupfs_path, cgroup.systemd_path) == paths


def test_a_mirror_pod_leads_to_the_cgroup_of_the_static_pod_it_mirrors():
    pod = a_pod(main(), uid="of-the-mirror", annotations={"kubernetes.io/config.mirror": "abc"})
    assert pod_cgroup(pod).cgroupfs_path == "/kubepods/besteffort/podabc"


@pytest.mark.parametrize("uid", ["", "a_b", "a/b"])
def test_there_is_no_path_without_a_usable_uid(uid: str):
    cgroup = pod_cgroup(a_pod(main(), uid=uid))
    assert cgroup.name is None
    assert cgroup.cgroupfs_path is None
    assert cgroup.systemd_path is None
