"""One suite, two clusters: what the embedded cluster does is what the API server does.

Every test that asks for `cluster` or `stage` runs on both. What a real server teaches goes in
here first. The real one is reached through a relay, so that watches can be cut.
"""

import asyncio
import contextlib
import json
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from bursar.adapters.memory.plugins.limits import cluster_with_limits
from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.app.cluster.kinds import NAMESPACES, SERVICE_ACCOUNTS
from bursar.app.cluster.ports import EVERYTHING, Key, NotFoundError, Query, Resource, WatchEvent
from support import virtual_time
from support.cluster.access import a_client, access_of
from support.faults.embedded_cluster import memory_world
from support.faults.informer_faults import Stage
from support.faults.real_cluster import compact_etcd, kube_world
from support.faults.relay import Relay, dial_port
from support.until import PATIENCE_SECONDS, until

BOTH = ("cluster", "stage")
"""Fixtures that come once for each cluster."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for fixture in BOTH:
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, ["memory", "kube"], indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Only the half on a real server needs one, which parametrisation alone does not show."""
    for item in items:
        if isinstance(item, pytest.Function) and _is_kube(item):
            item.fixturenames = [*item.fixturenames, "control_plane"]


def _is_kube(item: pytest.Function) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and any(callspec.params.get(each) == "kube" for each in BOTH)


@dataclass
class Cluster:
    """A cluster under test: its ports, and what can be done to it from outside."""

    port: Any
    cut_watches: Callable[[], Awaitable[None]]
    compact: Callable[[], Awaitable[None]]
    is_real: bool

    async def namespace(self, *, for_pods: bool = False) -> str:
        """A fresh namespace, if need be with what the server wants before pods."""
        name = f"contract-{uuid.uuid4().hex[:10]}"
        await self.port.create(NAMESPACES, {"metadata": {"name": name}})
        if for_pods and self.is_real:
            account = Key(name, "default")
            await until(lambda: self.exists(SERVICE_ACCOUNTS, account), f"{account} is there")
        return name

    async def read(self, resource: Resource, key: Key) -> dict[str, Any]:
        return json.loads(await self.port.get(resource, key))

    async def exists(self, resource: Resource, key: Key) -> bool:
        try:
            await self.port.get(resource, key)
        except NotFoundError:
            return False
        return True

    async def is_gone(self, resource: Resource, key: Key) -> bool:
        return not await self.exists(resource, key)

    async def events(
        self,
        resource: Resource,
        query: Query = EVERYTHING,
        *,
        count: int,
        resource_version: str = "",
        send_initial: bool = False,
    ) -> list[WatchEvent]:
        """The first so many events of a watch, bookmarks left out unless they end the start."""
        found: list[WatchEvent] = []
        stream = self.port.watch(
            resource, query, resource_version=resource_version, send_initial=send_initial
        )
        async with asyncio.timeout(PATIENCE_SECONDS), contextlib.aclosing(stream) as events:
            async for event in events:
                if event.kind.value != "BOOKMARK" or event.ends_initial:
                    found.append(event)
                if len(found) == count:
                    break
        return found


@pytest.fixture
async def cluster(request) -> AsyncIterator[Cluster]:
    making = _memory() if request.param == "memory" else _kube(request)
    async with making as made:
        yield made


@pytest.fixture
def stage(request) -> Stage:
    """Where an informer is put to the test; on the embedded cluster, time is virtual."""
    if request.param == "memory":
        return Stage(memory_world, virtual_time.run)
    plane = request.getfixturevalue("control_plane")
    return Stage(lambda: kube_world(plane), asyncio.run)


@contextlib.asynccontextmanager
async def _memory() -> AsyncIterator[Cluster]:
    memory = cluster_with_limits(VirtualClock(), source=random.Random(1))  # noqa: S311

    async def cut_watches() -> None:
        memory.cut_watches()

    async def compact() -> None:
        memory.compact()

    yield Cluster(port=memory, cut_watches=cut_watches, compact=compact, is_real=False)


@contextlib.asynccontextmanager
async def _kube(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    plane = request.getfixturevalue("control_plane")

    async def compact() -> None:
        """Forget the past for good: the API server keeps some of it that etcd forgot."""
        # Not in another thread: the program would die with it.
        compact_etcd(plane.etcd_port)
        plane.apiserver.kill()
        plane.apiserver.restart()

    async with Relay(dial_port(plane.api_port)).running() as relay:

        async def cut_watches() -> None:
            relay.cut()
            await asyncio.sleep(0)

        through = replace(access_of(plane), server=f"https://127.0.0.1:{relay.port}")
        async with a_client(through) as client:
            yield Cluster(port=client, cut_watches=cut_watches, compact=compact, is_real=True)
