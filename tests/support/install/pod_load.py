"""Pods that are created one after the other while something else happens to the cluster."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kube.transport import Limits
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import ClusterError
from support.builders.manifests import pod_manifest
from support.cluster.access import a_client, access_of
from support.install.installed_bursar import Tenant, is_gated
from support.until import until, until_sync

PODS_PER_SECOND_MAX = 50
CLIENTS = 10
NOWHERE = {"example.com/no-node-has": "this"}
"""A node selector. A pod with it stays Pending, so that no container costs anything."""
ONCE = Limits(in_flight_max=CLIENTS, attempts_max=1)
"""A refused creation is not repeated, so that it is noticed."""


@dataclass
class PodLoad:
    """The pods of a load: which the API server has created, and which it has refused."""

    tenant: Tenant
    created: list[str] = field(default_factory=list)
    ungated: list[str] = field(default_factory=list)
    """Pods that were created without a gate."""
    refused: list[str] = field(default_factory=list)
    """The words of the API server."""
    is_over: bool = False

    async def until_more(self, number: int) -> None:
        """Wait until so many further creations were attempted."""
        wanted = self._attempts + number
        await until(lambda: self._attempts >= wanted, lambda: (wanted, self))

    @property
    def _attempts(self) -> int:
        return len(self.created) + len(self.refused)

    async def create_all(self, client: KubeClient, numbers: "count[int]") -> None:
        """Create pods until the load is over, at this client's part of the rate at most."""
        loop = asyncio.get_running_loop()
        while not self.is_over:
            due = loop.time() + CLIENTS / PODS_PER_SECOND_MAX
            await self._create_one(client, f"load-{next(numbers)}")
            await asyncio.sleep(max(0, due - loop.time()))

    async def _create_one(self, client: KubeClient, name: str) -> None:
        where = f"{self.tenant.name}/{name}"
        pod = pod_manifest(where, requests="cpu=1m", nodeSelector=NOWHERE)
        try:
            stored = json.loads(await client.create(PODS, pod, namespace=self.tenant.name))
        except ClusterError as error:
            self.refused.append(f"{name}: {error}")
            return
        self.created.append(name)
        if not is_gated(stored):
            self.ungated.append(name)


@asynccontextmanager
async def pod_load(tenant: Tenant) -> AsyncIterator[PodLoad]:
    """Create pods of one millicore in the tenant's namespace until the block ends."""
    load, numbers = PodLoad(tenant), count()
    access = access_of(tenant.installed.node.plane)
    async with a_client(access, limits=ONCE) as client, asyncio.TaskGroup() as tasks:
        for _ in range(CLIENTS):
            tasks.create_task(load.create_all(client, numbers))
        try:
            yield load
        finally:
            # Requests in flight are finished: the outcome of a cancelled one is unknown.
            load.is_over = True


def assert_none_lost(load: PodLoad) -> None:
    """No pod was refused, none is missing, and the quota counts all when all are released."""
    assert not load.refused, "\n".join([f"of {len(load.created)} pods", *load.refused])
    assert not load.ungated, load.ungated
    tenant = load.tenant
    names = {each["metadata"]["name"] for each in tenant.pods()}
    assert set(load.created) <= names
    until_sync(lambda: not tenant.gated(), tenant.gated)
    until_sync(lambda: tenant.used().get("pods") == str(len(names)), tenant.used)
