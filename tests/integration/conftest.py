"""A second control plane, for tests that run `bursar controller` on the whole of a cluster."""

from collections.abc import Iterator

import pytest

from controlplane import ControlPlane
from support.quota.controller_processes import own_cluster


@pytest.fixture(scope="session")
def quota_cluster() -> Iterator[ControlPlane]:
    """A cluster with Bursar's kinds and roles. Whoever installs more removes it again."""
    yield from own_cluster()
