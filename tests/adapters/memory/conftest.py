"""Comparison of the embedded cluster with an API server that has no controllers beside it."""

from collections.abc import Iterator

import pytest

from controlplane import ControlPlane
from support.cluster.control_plane import started_control_plane


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    with started_control_plane(is_bare=True) as plane:
        yield plane
