"""A cluster whose workloads, scheduler and nodes are simulated, and short ways to act on it."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from bursar.adapters.memory.plugins.limits import cluster_with_limits
from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.memory.simulation.cluster import Cluster
from bursar.adapters.memory.simulation.pod_lifecycle import Pace
from bursar.adapters.memory.simulation.simulation import Simulation
from bursar.app.cluster.kinds import DEPLOYMENTS, JOBS, NAMESPACES, PODS
from bursar.app.cluster.ports import Key, Patch, PatchKind, Query, Resource
from support.builders.manifests import node_manifest, pod_manifest

Raw = dict[str, Any]
Pause = Callable[[float], Awaitable[None]]


def container(**requests: str) -> Raw:
    return {"name": "app", "image": "example.com/app", "resources": {"requests": requests}}


def template(
    labels: dict[str, str], *, annotations: dict[str, str] | None = None, **spec: Any
) -> Raw:
    return {
        "metadata": {"labels": labels, "annotations": annotations or {}},
        "spec": {"containers": [container(cpu="100m")], **spec},
    }


def workload(resource: Resource, name: str, spec: Raw, **pod: Any) -> Raw:
    """A workload whose pods carry its name as a label."""
    labels = {"app": name}
    selector = {} if resource == JOBS else {"selector": {"matchLabels": labels}}
    if resource == JOBS:
        pod = {"restartPolicy": "Never", **pod}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": {**selector, "template": template(labels, **pod), **spec},
    }


def node(name: str, *, labels: dict[str, str] | None = None, **room: str) -> Raw:
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110", **room}
    metadata = {"labels": {"bursar.io/simulated": "true", **(labels or {})}}
    return node_manifest(name, "", metadata=metadata, capacity=amounts, allocatable=amounts)


def pod(name: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> Raw:
    spec = {"containers": [container(cpu="100m")], **spec}
    return pod_manifest(name, metadata={"annotations": annotations or {}}, **spec)


@dataclass
class World:
    cluster: Cluster
    pause: Pause
    """Lets seconds pass, on whichever clock the simulation runs."""
    namespace: str = "story"

    async def create(self, resource: Resource, *bodies: Raw) -> None:
        for body in bodies:
            namespace = self.namespace if resource.is_namespaced else ""
            await self.cluster.create(resource, body, namespace=namespace)

    def key(self, resource: Resource, name: str) -> Key:
        return Key(self.namespace if resource.is_namespaced else "", name)

    async def patch(
        self, resource: Resource, name: str, change: Raw, *, subresource: str = ""
    ) -> None:
        await self.cluster.patch(
            resource,
            self.key(resource, name),
            Patch(kind=PatchKind.MERGE, body=change),
            subresource=subresource,
        )

    async def scale(self, name: str, replicas: int, resource: Resource = DEPLOYMENTS) -> None:
        await self.patch(resource, name, {"spec": {"replicas": replicas}})

    async def delete(self, resource: Resource, name: str) -> None:
        await self.cluster.delete(resource, self.key(resource, name))

    async def get(self, resource: Resource, name: str) -> Raw:
        return json.loads(await self.cluster.get(resource, self.key(resource, name)))

    async def all(self, resource: Resource) -> list[Raw]:
        query = Query(namespace=self.namespace) if resource.is_namespaced else Query()
        page = await self.cluster.list(resource, query)
        return sorted((json.loads(item) for item in page.items), key=name_of)

    async def pods(self, app: str = "") -> list[Raw]:
        found = await self.all(PODS)
        return [raw for raw in found if not app or raw["metadata"]["labels"].get("app") == app]

    async def phases(self, app: str = "") -> list[str]:
        return sorted(raw.get("status", {}).get("phase", "Pending") for raw in await self.pods(app))

    async def status(self, resource: Resource, name: str) -> Raw:
        return (await self.get(resource, name)).get("status", {})

    async def eventually(self, fact: Callable[[], Awaitable[Any]], expected: Any) -> None:
        """Let time pass until the fact is as expected; fail with what it is instead."""
        for _ in range(1200):
            if await fact() == expected:
                return
            await self.pause(0.1)
        found = await fact()
        assert found == expected, f"it is {found!r}, not {expected!r}"

    async def condition(self, name: str, kind: str) -> Raw:
        status = await self.status(PODS, name)
        found = [held for held in status.get("conditions", []) if held["type"] == kind]
        return found[0] if found else {}


def name_of(raw: Raw) -> str:
    return raw["metadata"]["name"]


def node_of(raw: Raw) -> str:
    return raw["spec"].get("nodeName", "")


@asynccontextmanager
async def embedded_world(*, seed: int = 1, pace: Pace | None = None) -> AsyncIterator[World]:
    """A live embedded cluster in virtual time, in which no part may fail."""
    faults: list[str] = []
    clock = VirtualClock()
    cluster = cluster_with_limits(clock, source=Random(seed))  # noqa: S311 - names, not secrets
    world = World(cluster, clock.advance)
    await cluster.create(NAMESPACES, {"metadata": {"name": world.namespace}})
    simulation = Simulation(
        cluster,
        clock,
        pace=pace,
        report=lambda part, error: faults.append(f"{part}: {error!r}"),
    )
    async with simulation:
        yield world
    assert faults == []
