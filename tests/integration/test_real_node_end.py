"""`make cluster NODE=real`: what this machine shows of the node, and that all of it goes."""

from pathlib import Path
from typing import Any

import pytest

from real_node import RealNodeError
from real_node.init import SYSCTLS
from real_node.network import NodeNetwork
from real_node.node import NAME
from support.nodes.traces import (
    NO_TESTS,
    NodeTraces,
    command_lines,
    link_names,
    made_cluster,
    run_as_nobody,
    run_test_without_commands,
)
from support.until import until_sync

NODE_ONLY = ("/var/lib/kubelet", "/run/containerd", "/run/netns", "/run/sysctl-")
"""Where a real node mounts things, which is never seen from outside."""
NETWORK_SYSCTLS = ("net/ipv4/ip_forward", "net/netfilter/nf_conntrack_max")


@pytest.mark.usefixtures("real_node")
def test_make_cluster_with_a_real_node_leaves_nothing_behind(tmp_path):
    sysctls = machine_sysctls()
    with made_cluster("real", tmp_path / "said") as kubeconfig:
        traces = NodeTraces(kubeconfig)
        running = traces.seen()
        namespaces = namespaces_of(traces.folder)
        sysctls_meanwhile = machine_sysctls()

    assert all(running[what] for what in ("links", "routes", "cgroups", "processes"))
    assert len(namespaces) == 5
    assert traces.seen() == {what: [] for what in running}
    assert machine_sysctls() == sysctls_meanwhile == sysctls
    until_sync(lambda: not namespaces & machine_namespaces(), "the namespaces are gone")


@pytest.mark.usefixtures("real_node")
def test_mounts_of_the_node_are_not_seen_outside():
    mounts = Path("/proc/self/mountinfo").read_text()

    assert not [path for path in NODE_ONLY if path in mounts]


def test_the_node_cannot_write_to_this_machines_files_and_settings(real_node):
    written = "/etc/written-by-the-node", "/opt/written-by-the-node", "/proc/sys/vm/swappiness"
    for path in written:
        with pytest.raises(RealNodeError, match="Read-only file system"):
            real_node.run("sh", "-c", f"echo 1 > {path}")
    for name, wanted in SYSCTLS.items():
        assert real_node.run("cat", f"/proc/sys/{name}").stdout.strip() == wanted


@pytest.mark.usefixtures("real_node")
def test_networks_of_two_nodes_differ_and_leftovers_of_a_number_are_removed():
    first, second = NodeNetwork.claim(), NodeNetwork.claim()
    assert first.number != second.number
    assert first.pod_range != second.pod_range
    second.release()
    # As if the process had been killed: the number is free again, and the bridge is still there.
    first._held.close()
    assert f"bursar{first.number}" in link_names()

    third = NodeNetwork.claim()
    assert third.number == first.number
    third.release()
    assert f"bursar{first.number}" not in link_names()


@pytest.mark.integration
def test_without_root_make_cluster_says_so_in_one_line():
    done = run_as_nobody("real")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "cluster: a real node takes root\n"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("in_ci", "code", "told"),
    [
        ("", NO_TESTS, "1 tests left out: a real node takes "),
        ("true", 1, "no real node: a real node takes "),
    ],
)
def test_where_there_can_be_no_node_its_tests_are_left_out_and_fail_in_ci(
    tmp_path, in_ci, code, told
):
    one = f"{__file__}::{test_mounts_of_the_node_are_not_seen_outside.__name__}"
    done = run_test_without_commands(one, tmp_path, in_ci)

    assert done.returncode == code, done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith(told)]


def machine_sysctls() -> dict[str, Any]:
    names = [name for name in (*SYSCTLS, *NETWORK_SYSCTLS) if Path("/proc/sys", name).exists()]
    return {name: Path("/proc/sys", name).read_text() for name in names}


def namespaces_of(folder: Path) -> set[str]:
    """The namespaces of the node's kubelet that are not ours."""
    [kubelet] = [path for path, line in command_lines() if f"{folder / NAME}/kubelet.json" in line]
    kinds = ("mnt", "net", "pid", "ipc", "uts")
    return {str((kubelet / "ns" / kind).readlink()) for kind in kinds} - own_namespaces()


def own_namespaces() -> set[str]:
    return {str(path.readlink()) for path in Path("/proc/self/ns").iterdir()}


def machine_namespaces() -> set[str]:
    """All namespaces that a process of this machine is in."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/ns/*"):
        try:
            found.add(str(path.readlink()))
        except OSError:
            continue
    return found
