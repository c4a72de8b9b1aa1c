"""Pods that are created all the time while something else happens to the cluster."""

import asyncio
import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kube.transport import Limits
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import ClusterError, Key, NotFoundError, Query
from support.builders.manifests import pod_manifest
from support.cluster.access import a_client, access_of
from support.install.installed_bursar import Tenant, is_gated
from support.until import PATIENCE_SECONDS, until, until_sync

PODS_PER_SECOND = 10
"""Of a test. At 50 a second, webhooks of a busy machine do not always answer within 5 s;
`benchmarks/installed_load.py` measures that rate."""
CLIENTS = 50
DELETION_SECONDS = 1.0
"""Between two lists of the pods that can be deleted."""
DELETIONS_MAX = 100
"""Pods that are deleted between two lists."""
NOWHERE = {"example.com/no-node-has": "this"}
"""A node selector. A pod with it stays Pending, so that no container costs anything."""
NO_SCHEDULER = "no-scheduler"
"""The scheduler of the pods of a load. None has this name, so that they cost no scheduler work."""
ONCE = Limits(in_flight_max=CLIENTS, attempts_max=1)
"""A refused creation is not repeated, so that it is noticed."""


@dataclass
class PodLoad:
    """The pods of a load: which the API server has created, and which it has refused."""

    tenant: Tenant
    pods_per_second: int = PODS_PER_SECOND
    """The rate to reach. The load is slower if the API server is."""
    dry_run_every: int = 0
    """Each n-th creation is a dry run, which calls webhooks but stores nothing; 0: none is."""
    created: dict[str, float] = field(default_factory=dict)
    """By name: the time of the event loop at which the API server had stored the pod."""
    dry_runs: int = 0
    """Dry runs that the API server has accepted."""
    ungated: list[str] = field(default_factory=list)
    """Pods that were created without a gate."""
    refused: list[str] = field(default_factory=list)
    """The words of the API server."""
    released: set[str] = field(default_factory=set)
    """Pods that `delete_released` has seen without their gate."""
    release_seconds_max: float = 0
    """Longest time from the creation of a pod until it was seen without its gate."""
    is_over: bool = False

    async def until_more(self, number: int) -> None:
        """Wait until so many further creations were attempted."""
        wanted = self.attempts + number
        await until(lambda: self.attempts >= wanted, lambda: (wanted, self))

    @property
    def attempts(self) -> int:
        return len(self.created) + self.dry_runs + len(self.refused)

    @property
    def unreleased(self) -> set[str]:
        """Pods that were created and that `delete_released` has not seen released."""
        return set(self.created) - self.released

    # ------------------------------------------------------------------ creation

    async def create_all(self, client: KubeClient, numbers: "count[int]", start: float) -> None:
        """Create pods until the load is over, each at its time after the start."""
        loop = asyncio.get_running_loop()
        while not self.is_over:
            number = next(numbers)
            due = start + number / self.pods_per_second
            await asyncio.sleep(max(0, due - loop.time()))
            await self._create_one(client, number)

    async def _create_one(self, client: KubeClient, number: int) -> None:
        name, namespace = f"load-{number}", self.tenant.name
        is_dry_run = bool(self.dry_run_every) and number % self.dry_run_every == 0
        pod = pod_manifest(f"{namespace}/{name}", requests="cpu=1m", schedulerName=NO_SCHEDULER)
        try:
            answer = await client.create(PODS, pod, namespace=namespace, is_dry_run=is_dry_run)
        except ClusterError as error:
            self.refused.append(f"{name}: {error}")
            return
        if is_dry_run:
            self.dry_runs += 1
        else:
            self.created[name] = asyncio.get_running_loop().time()
        if not is_gated(json.loads(answer)):
            self.ungated.append(name)

    # ------------------------------------------------------------------ deletion

    async def delete_released(self, client: KubeClient) -> None:
        """Delete pods that have lost their gate, until the load is over and none is left.

        A pod that is still gated long after the end of the load stays.
        """
        loop = asyncio.get_running_loop()
        patient_until = math.inf
        while not self.is_over or (self.unreleased and loop.time() < patient_until):
            if self.is_over:
                patient_until = min(patient_until, loop.time() + PATIENCE_SECONDS)
            page = await client.list(PODS, Query(namespace=self.tenant.name))
            pods = [json.loads(each) for each in page.items]
            free = {each["metadata"]["name"] for each in pods if not is_gated(each)}
            self._see_released(free & self.unreleased, loop.time())
            # The rest is deleted after the next list, which must not be late.
            some = sorted(free & self.released)[:DELETIONS_MAX]
            await asyncio.gather(*(self._delete(client, name) for name in some))
            await asyncio.sleep(DELETION_SECONDS)

    def _see_released(self, names: set[str], now: float) -> None:
        self.released |= names
        waited = (now - self.created[name] for name in names)
        self.release_seconds_max = max(self.release_seconds_max, *waited, 0)

    async def _delete(self, client: KubeClient, name: str) -> None:
        try:
            await client.delete(PODS, Key(self.tenant.name, name), grace_seconds=0)
        except NotFoundError:
            # The answer to an earlier attempt was lost.
            return
        except ClusterError as error:
            self.refused.append(f"deletion of {name}: {error}")


@asynccontextmanager
async def pod_load(
    tenant: Tenant,
    *,
    pods_per_second: int = PODS_PER_SECOND,
    dry_run_every: int = 0,
    is_deleting: bool = False,
) -> AsyncIterator[PodLoad]:
    """Create pods of one millicore in the tenant's namespace until the block ends.

    With `is_deleting`, pods are deleted after their release, so that a long load stays small.
    """
    load = PodLoad(tenant, pods_per_second, dry_run_every)
    numbers, start = count(), asyncio.get_running_loop().time()
    access = access_of(tenant.installed.node.plane)
    async with (
        a_client(access, limits=ONCE) as client,
        a_client(access) as patient,
        asyncio.TaskGroup() as tasks,
    ):
        for _ in range(CLIENTS):
            tasks.create_task(load.create_all(client, numbers, start))
        if is_deleting:
            tasks.create_task(load.delete_released(patient))
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
