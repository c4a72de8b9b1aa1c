"""`make cluster NODE=vm`: that all of it goes, and what it says where there can be none."""

import pytest

from real_node import vm
from support.nodes.traces import (
    NO_TESTS,
    NodeTraces,
    made_cluster,
    run_as_nobody,
    run_test_without_commands,
)


@pytest.mark.usefixtures("vm_support")
def test_make_cluster_with_a_virtual_machine_leaves_nothing_behind(tmp_path):
    with made_cluster("vm", tmp_path / "said") as kubeconfig:
        traces = NodeTraces(kubeconfig)
        running = traces.seen()

    assert all(running[what] for what in ("links", "routes", "processes", "files"))
    assert [line for line in running["processes"] if "qemu-system-x86_64" in line]
    assert (running["cgroups"], running["mounts"]) == ([], [])
    assert traces.seen() == {what: [] for what in running}


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
    one = f"{__file__}::{test_make_cluster_with_a_virtual_machine_leaves_nothing_behind.__name__}"
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
