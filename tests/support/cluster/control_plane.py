"""A real control plane for the length of a test run or of a module."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from assets import AssetError
from certificates import Pair
from controlplane import ControlPlane, chosen_version, minor_version
from program import ProgramError
from support.until import until_sync

MUTATING_POLICIES = (36, "MutatingAdmissionPolicy v1")
RESIZE = (33, "pods/resize")
"""Features of which tests are skipped on older servers: the first minor version, and the name."""


def needs_kubernetes(feature: tuple[int, str]) -> pytest.MarkDecorator:
    """Skip a test of a feature that the version of BURSAR_KUBERNETES does not have."""
    minor, name = feature
    reason = f"Kubernetes before 1.{minor} has no {name}"
    return pytest.mark.skipif(minor_version(chosen_version()) < minor, reason=reason)


@contextmanager
def started_control_plane(
    *,
    nodes: int = 0,
    is_bare: bool = False,
    webhook_clients: Mapping[str, Pair] | None = None,
    version: str | None = None,
    features: Sequence[str] = (),
) -> Iterator[ControlPlane]:
    """A bare one is etcd and the API server, without controllers, scheduler and nodes.

    Without a `version`: the one that BURSAR_KUBERNETES names, or the usual one.
    """
    try:
        plane = ControlPlane(webhook_clients=webhook_clients, version=version, features=features)
        plane.start(nodes=nodes, parts=[plane.etcd, plane.apiserver] if is_bare else None)
    except (AssetError, ProgramError) as error:
        pytest.fail(f"no control plane: {error}", pytrace=False)
    yield plane
    plane.stop()


def wait_for_account(plane: ControlPlane, namespace: str = "default") -> None:
    """The API server refuses pods of a namespace that does not have its service account yet."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    until_sync(lambda: plane.request("GET", path)[0] == 200, "the namespace has its account")
