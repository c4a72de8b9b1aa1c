"""The node in a virtual machine: real containers, and cgroup v2 on every machine."""

from collections.abc import Iterator

import pytest

from support.cluster.real_node import RealPods
from support.nodes.container_checks import (
    EVICTED,
    check_eviction,
    check_oom_kill,
    check_resize,
    check_service,
    check_values,
    checked_pods,
)

PATIENCE_SECONDS = 900
"""The machine computes in software, and gets a fraction of a core while other tests run."""


SHAPES = ("guaranteed", "burstable", "besteffort", "burstable-as-a-whole")
"""Each container takes the machine a long time to start. Without those that differ only in what
the kubelet computes, which `test_real_node.py` checks."""


@pytest.fixture(scope="module")
def checked(vm_node) -> Iterator[RealPods]:
    with checked_pods(vm_node, PATIENCE_SECONDS, shapes=SHAPES) as pods:
        yield pods


@pytest.mark.parametrize("name", SHAPES)
def test_cgroup_v2_has_the_values_that_bursar_describes(checked, name):
    check_values(checked, name)


def test_cgroup_v2_has_the_described_values_after_a_resize_in_place(checked):
    check_resize(checked)


def test_a_container_above_its_memory_limit_is_killed(checked):
    check_oom_kill(checked)


@pytest.mark.parametrize("name", EVICTED)
def test_a_pod_above_a_limit_of_local_storage_is_evicted(checked, name):
    check_eviction(checked, name)


def test_this_machine_reaches_pods_and_services(checked):
    check_service(checked)
