"""Fixtures that several integration tests share; a module may have its own of the same name."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from assets import ensure
from controlplane import ControlPlane
from real_node.node import RealNode
from support.cluster.real_node import RealPods, real_pods
from support.devices.kubelet_server import KubeletServer, kubelet_server
from support.devices.socket_clients import PodResourcesClient, podresources_client
from support.install.installed_bursar import InstalledBursar, built_image
from support.metrics.prometheus import Promtool
from support.quota.controller_processes import Administrator, administering, own_cluster
from support.quota.installed_aaq import Place, System, a_system


@pytest.fixture(scope="session")
def quota_cluster() -> Iterator[ControlPlane]:
    """A second control plane, for tests that run `bursar controller` on the whole of a cluster.

    It has Bursar's kinds and roles. Whoever installs more removes it again.
    """
    yield from own_cluster()


@pytest.fixture
def promtool(tmp_path: Path) -> Promtool:
    """Prometheus' own rule engine."""
    return Promtool(ensure("promtool"), tmp_path)


@pytest.fixture(scope="session")
def image(real_node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image that `make image` builds, as an archive. The real node has it."""
    archive = built_image(tmp_path_factory.mktemp("image"))
    real_node.import_image(archive)
    return archive


@pytest.fixture(scope="module")
def behind_webhook(real_node, image) -> Iterator[InstalledBursar]:  # noqa: ARG001 - it runs there
    """Bursar on the real node, where the webhook gates pods."""
    parts = ("crds", "rbac", "controller", "webhook", "webhooks")
    installed = InstalledBursar(real_node, parts)
    installed.apply()
    try:
        installed.wait_ready()
        installed.wait_gating()
        yield installed
    finally:
        installed.remove()


@pytest.fixture(scope="module")
def system(control_plane, tmp_path_factory, request) -> Iterator[System]:
    """A test can ask for further options of the controller, by an indirect parameter."""
    options = getattr(request, "param", ())
    with a_system(control_plane, tmp_path_factory.mktemp("system"), *options) as system:
        yield system


@pytest.fixture
def place(system) -> Iterator[Place]:
    with system.namespace() as place:
        yield place


@pytest.fixture
async def kubelet() -> AsyncIterator[KubeletServer]:
    async with kubelet_server() as server:
        yield server


@pytest.fixture
async def client() -> AsyncIterator[PodResourcesClient]:
    async with podresources_client() as running:
        yield running


@pytest.fixture
def pods(real_node) -> Iterator[RealPods]:
    with real_pods(real_node) as pods:
        yield pods


@pytest.fixture
async def people(control_plane) -> AsyncIterator[Administrator]:
    async with administering(control_plane) as found:
        yield found
