"""A client of the real API server, and a namespace for it."""

import uuid
from collections.abc import AsyncIterator

import pytest

from bursar.adapters.kube.client import KubeClient
from bursar.app.cluster.kinds import NAMESPACES
from bursar.app.cluster.ports import Key
from support.cluster.access import a_client, access_of


@pytest.fixture
async def client(control_plane) -> AsyncIterator[KubeClient]:
    async with a_client(access_of(control_plane)) as client:
        yield client


@pytest.fixture
async def namespace(client) -> AsyncIterator[str]:
    name = f"client-{uuid.uuid4().hex[:12]}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    yield name
    await client.delete(NAMESPACES, Key("", name))
