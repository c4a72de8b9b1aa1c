"""What needs a Go toolchain: marked, left out with one line where there is none, required in CI."""

import os
import shutil
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from controlplane import ControlPlane
from support.cluster.control_plane import started_control_plane

IN_CI = os.environ.get("CI") == "true"
NODES = 3
NEEDS_GO = {"oracle": "oracle", "control_plane": "integration"}
"""Fixtures whose programs are built from Go modules, and the mark of the tests that use them."""

ABSENCE: list[str] = []

# Machines are noisy: how long an example takes says nothing about whether it is right.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    built = []
    for item in items:
        for fixture, mark in NEEDS_GO.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(mark)
        if any(item.get_closest_marker(mark) for mark in NEEDS_GO.values()):
            built.append(item)
    if built and shutil.which("go") is None and not IN_CI:
        ABSENCE.append(f"{len(built)} tests left out: no Go toolchain (`go` is not on PATH)")
        config.hook.pytest_deselected(items=built)
        items[:] = [item for item in items if item not in built]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in ABSENCE:
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """One real control plane for the whole run. A test that hurts a part puts it right again."""
    with started_control_plane(nodes=NODES) as plane:
        yield plane
