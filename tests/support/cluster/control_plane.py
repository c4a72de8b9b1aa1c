"""A real control plane for the length of a test run or of a module."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from assets import AssetError
from certificates import Pair
from controlplane import ControlPlane
from program import ProgramError


@contextmanager
def started_control_plane(
    *,
    nodes: int = 0,
    is_bare: bool = False,
    webhook_clients: Mapping[str, Pair] | None = None,
) -> Iterator[ControlPlane]:
    """A bare one is etcd and the API server, without controllers, scheduler and nodes."""
    try:
        plane = ControlPlane(webhook_clients=webhook_clients)
        plane.start(nodes=nodes, parts=[plane.etcd, plane.apiserver] if is_bare else None)
    except (AssetError, ProgramError) as error:
        pytest.fail(f"no control plane: {error}", pytrace=False)
    yield plane
    plane.stop()
