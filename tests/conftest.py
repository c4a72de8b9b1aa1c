"""What needs a Go toolchain: marked, left out with one line where there is none, required in CI."""

import gc
import os
import shutil
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from controlplane import ControlPlane
from real_node import node, vm
from real_node.node import RealNode
from real_node.vm import VirtualNode
from support.cluster.control_plane import started_control_plane
from support.cluster.real_node import require, started_node
from support.nodes.traces import NodeTraces

IN_CI = os.environ.get("CI") == "true"
NODES = 3
NODES_MISSING = {"real_node": node.missing, "vm_support": vm.missing}
"""Fixtures of nodes with real containers, and what says why this machine cannot have one."""
NEEDS_GO = {
    "oracle": "oracle",
    **dict.fromkeys(("control_plane", "quota_cluster", "promtool"), "integration"),
    **dict.fromkeys(NODES_MISSING, "integration"),
}
"""Fixtures whose programs are built from Go modules, and the mark of the tests that use them."""

ABSENCE: list[str] = []

# Machines are noisy: how long an example takes says nothing about whether it is right. `make test`
# has the same examples in every run. `make check` takes the profile `quick`: fewer examples, except
# for tests that say themselves how many. `make explore` draws new ones.
settings.register_profile(
    "fixed", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("quick", settings.get_profile("fixed"), max_examples=30)
settings.register_profile("explore", settings.get_profile("fixed"), derandomize=False)
settings.load_profile("fixed")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from traversing thousands of tests, and all modules, for ever."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    built = []
    for item in items:
        for fixture, mark in NEEDS_GO.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(mark)
        if any(item.get_closest_marker(mark) for mark in NEEDS_GO.values()):
            built.append(item)
    if built and shutil.which("go") is None and not IN_CI:
        _leave_out(config, items, built, "no Go toolchain (`go` is not on PATH)")
    for fixture, missing in NODES_MISSING.items():
        on_node = [item for item in items if fixture in getattr(item, "fixturenames", ())]
        for item in on_node:
            item.add_marker(pytest.mark.xdist_group(fixture))
        lacking = missing() if on_node and not IN_CI else None
        if lacking:
            _leave_out(config, items, on_node, lacking)


def _leave_out(
    config: pytest.Config, items: list[pytest.Item], left_out: list[pytest.Item], reason: str
) -> None:
    ABSENCE.append(f"{len(left_out)} tests left out: {reason}")
    config.hook.pytest_deselected(items=left_out)
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in ABSENCE:
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """One real control plane for the whole run. A test that hurts a part puts it right again."""
    with started_control_plane(nodes=NODES) as plane:
        yield plane


@pytest.fixture(scope="session")
def real_node() -> Iterator[RealNode]:
    """One node with real containers for the whole run, on a control plane of its own."""
    require(node.missing)
    with started_node(RealNode) as started:
        yield started


@pytest.fixture(scope="session")
def vm_support() -> None:
    """This machine can have a node in a virtual machine."""
    require(vm.missing)


@pytest.fixture(scope="module")
def vm_node(vm_support) -> Iterator[VirtualNode]:  # noqa: ARG001 - it only fails
    """A node in a virtual machine, on a control plane of its own. At its end, all of it is gone.

    It takes a core as long as it runs, so it ends with the module, and few modules should use it.
    """
    with started_node(VirtualNode) as started:
        traces = NodeTraces(started.plane.kubeconfig)
        yield started
        running = traces.seen()
    assert all(running[what] for what in ("links", "routes", "processes", "files"))
    assert [line for line in running["processes"] if "qemu-system-x86_64" in line]
    assert (running["cgroups"], running["mounts"]) == ([], [])
    assert traces.seen() == {what: [] for what in running}
