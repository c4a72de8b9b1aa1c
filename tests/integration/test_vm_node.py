"""The node in a virtual machine: real containers, and cgroup v2 on every machine.

Starting it takes minutes of computing, so all tests share one. `vm_node` checks that nothing of it
is left. `make cluster NODE=vm` differs from `make cluster NODE=real`, whose end has a test of its
own, in the class of the node alone.
"""

from collections.abc import Iterator

import pytest

from real_node import vm
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
from support.nodes.traces import NO_TESTS, run_as_nobody, run_test_without_commands

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


@pytest.mark.integration
def test_without_root_make_cluster_says_so_in_one_line():
    done = run_as_nobody("vm")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "cluster: a node in a virtual machine takes root\n"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("in_ci", "code", "told"),
    [
        ("", NO_TESTS, "1 tests left out: a node in a virtual machine takes "),
        ("true", 1, "no real node: a node in a virtual machine takes "),
    ],
)
def test_where_there_can_be_no_node_its_tests_are_left_out_and_fail_in_ci(
    tmp_path, in_ci, code, told
):
    one = f"{__file__}::{test_this_machine_reaches_pods_and_services.__name__}"
    done = run_test_without_commands(one, tmp_path, in_ci)

    assert done.returncode == code, done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith(told)]


def test_a_machine_of_another_architecture_is_told_so_in_one_line():
    told = vm.missing(architecture="aarch64")

    assert told == "a node in a virtual machine takes an x86_64 machine, and this one is aarch64"


@pytest.mark.usefixtures("vm_support")
def test_a_machine_without_tap_devices_is_told_so_in_one_line(tmp_path):
    told = vm.missing(tun=tmp_path / "tun")

    assert told is not None
    assert told.startswith("a node in a virtual machine takes a tap device, and ")
    assert "\n" not in told
