"""The real controller on an embedded cluster, furnished and questioned in a few words.

For the rows of AAQ's own unit tests: what AAQ asserts of its queues and locks, they assert
of the cluster afterwards.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from bursar.adapters.memory.manifests import load_manifests
from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import EVENTS, NAMESPACES, PODS
from bursar.app.cluster.ports import Key, NotFoundError, Patch, PatchKind, Query, Resource
from bursar.app.controller.controller import Controller, ControllerSettings
from bursar.app.controller.sources import term_sources
from bursar.app.counting.feeds import Counting
from bursar.app.quota.kinds import APPLICATION_QUOTAS, CLUSTER_QUOTAS
from bursar.app.quota.sources import EVERY_KIND
from bursar.core.quota.quota import GATE, QuotaKind
from bursar.core.quota.targeting import GATING_LABEL, Targeting
from support.builders.manifests import DEFINITIONS, pod_manifest
from support.builders.pods import listed

Raw = dict[str, Any]
HOME = "aaq"
TEAM = "team"
MOMENT_S = 2
"""Long enough for everything to have been noticed and done."""
CLASSES = ("high", "low")


class AaqScene:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        source = random.Random(5)  # noqa: S311 - repeatable
        self.cluster = MemoryCluster(self.clock, source=source)
        self.writer: Any = self.cluster
        """What controllers write to."""
        self.watched: Any = self.cluster
        """What controllers list and watch."""

    async def furnish(self) -> None:
        await load_manifests(self.cluster, DEFINITIONS)
        await self.cluster.create(NAMESPACES, {"metadata": {"name": HOME}})
        for name in (TEAM, "other"):
            await self.namespace(name)
        for name in CLASSES:
            await self._put("scheduling.k8s.io/v1", "PriorityClass", name, value=10)

    async def namespace(self, name: str) -> None:
        """A namespace whose pods are held back."""
        metadata = {"name": name, "labels": {GATING_LABEL: ""}}
        await self.cluster.create(NAMESPACES, {"metadata": metadata})

    async def _put(self, api_version: str, kind: str, name: str, **fields: Any) -> None:
        metadata = {"name": name, **fields.pop("metadata", {})}
        body = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}
        await load_manifests(self.cluster, [body])

    async def quota(
        self, hard: str, name: str = "q", status: Raw | None = None, **spec: Any
    ) -> None:
        """A quota of the team, if wanted with what somebody wrote into its status before us."""
        kind = APPLICATION_QUOTAS
        await self._put(
            *(kind.api_version, kind.kind, name),
            metadata={"namespace": TEAM},
            spec={"hard": listed(hard), **spec},
            status=status or {},
        )

    async def limit(self, **hard: str) -> None:
        """Change limits of the team's quota."""
        patch = Patch(kind=PatchKind.MERGE, body={"spec": {"hard": hard}})
        await self.cluster.patch(APPLICATION_QUOTAS, Key(TEAM, "q"), patch)

    async def cluster_quota(self, hard: str, name: str = "wide") -> None:
        """A quota over every namespace."""
        kind = CLUSTER_QUOTAS
        spec = {"quota": {"hard": listed(hard)}, "selector": {}}
        await self._put(kind.api_version, kind.kind, name, spec=spec)

    async def pod(
        self,
        name: str,
        requests: str = "",
        *,
        gates: tuple[str, ...] = (),
        phase: str = "Pending",
        namespace: str = TEAM,
        **spec: Any,
    ) -> None:
        where = f"{namespace}/{name}"
        body = pod_manifest(where, *gates, requests=requests, phase=phase, **spec)
        await load_manifests(self.cluster, [body])

    async def gated_pod(self, name: str, requests: str = "", **more: Any) -> None:
        await self.pod(name, requests, gates=(GATE,), **more)

    async def end_pod(self, name: str, *, namespace: str = TEAM) -> None:
        await self.cluster.delete(PODS, Key(namespace, name), grace_seconds=0)

    # ------------------------------------------------------------------ the controller

    @asynccontextmanager
    async def started(
        self,
        identity: str = "one",
        kinds: Sequence[QuotaKind] = EVERY_KIND,
        *,
        open_counting: Callable[[], Counting] = lambda: Counting.of(()),
        **settings: Any,
    ) -> AsyncIterator[Any]:
        """A controller that begins; `synced` has the times at which it was synced."""
        luck = random.Random(identity)  # noqa: S311 - repeatable
        targeting = Targeting(own_namespace=HOME)
        synced: list[Any] = []
        controller: Any = Controller(
            self.writer,
            self.clock,
            luck,
            settings=ControllerSettings(namespace=HOME, identity=identity, **settings),
            open_sources=lambda: term_sources(
                self.watched, self.clock, luck, targeting, kinds, counting=open_counting()
            ),
            on_synced=lambda: synced.append(self.clock.now()),
        )
        controller.synced = synced
        working = controller.working = asyncio.create_task(controller.run())
        try:
            yield controller
        finally:
            working.cancel()
            while not working.done():
                await self.clock.advance(1)
            assert working.cancelled()

    @asynccontextmanager
    async def at_work(self, identity: str = "one") -> AsyncIterator[Any]:
        """A controller that has done all there is to do."""
        async with self.started(identity) as controller:
            # A successor waits out what its predecessor may have sent.
            await self.moment(controller.settings.timing.stop_seconds + MOMENT_S)
            yield controller

    async def moment(self, seconds: float = MOMENT_S) -> None:
        await self.clock.advance(seconds)

    # ------------------------------------------------------------------ what became of it

    async def read(self, resource: Resource, name: str, namespace: str = TEAM) -> Raw:
        found: Raw = json.loads(await self.cluster.get(resource, Key(namespace, name)))
        return found

    async def exists(self, resource: Resource, name: str, namespace: str = TEAM) -> bool:
        try:
            await self.read(resource, name, namespace)
        except NotFoundError:
            return False
        return True

    async def names(self, resource: Resource) -> list[str]:
        page = await self.cluster.list(resource, Query())
        return sorted(json.loads(body)["metadata"]["name"] for body in page.items)

    async def released(self) -> list[str]:
        """Names of pods past the gate, in all namespaces."""
        page = await self.cluster.list(PODS, Query())
        pods = [json.loads(body) for body in page.items]
        free = [pod for pod in pods if not pod["spec"].get("schedulingGates")]
        return sorted(pod["metadata"]["name"] for pod in free)

    async def gates(self, name: str, namespace: str = TEAM) -> list[str]:
        pod = await self.read(PODS, name, namespace)
        return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]

    async def version(self, resource: Resource, name: str) -> str:
        """What tells whether an object was written."""
        version: str = (await self.read(resource, name))["metadata"]["resourceVersion"]
        return version

    async def notes(self) -> dict[str, str]:
        """What events say, by the pod they are about."""
        page = await self.cluster.list(EVENTS, Query())
        events = [json.loads(body) for body in page.items]
        return {event["regarding"]["name"]: event["note"] for event in events}

    async def status(self, name: str = "q") -> Raw:
        """The amounts of a quota's status."""
        status = (await self.read(APPLICATION_QUOTAS, name)).get("status", {})
        return {key: status[key] for key in ("hard", "used") if key in status}

    async def used(self, name: str = "q") -> dict[str, str]:
        used: dict[str, str] = (await self.status(name))["used"]
        return used
