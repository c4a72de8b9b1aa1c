"""Capacity kept on an embedded cluster, in virtual time; what people and others do to it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from random import Random
from typing import Any

from bursar.adapters.memory.store import MemoryCluster
from bursar.app.capacity.controller import CapacityController
from bursar.app.capacity.events import CapacityEvent, CapacityReason
from bursar.app.capacity.sources import CapacityPlaces
from bursar.app.capacity.watched_sources import capacity_sources
from bursar.app.cluster.kinds import CONFIG_MAPS, NAMESPACES, NODES, PODS
from bursar.app.cluster.observe_kinds import observe_pod_rows
from bursar.app.cluster.ports import AlreadyExistsError, Key, Patch, PatchKind
from bursar.app.cluster.reconcile import ReconcileContext
from bursar.core.peerpods.capacity import MARK_ANNOTATION
from support.quota.books_of_a_cluster import Line
from support.virtual_time import MachineClock, in_virtual_time

FOO = "example.com/foo"
HOME = "bursar"
PEERPODS = "confidential-containers-system"
KATA = {"katacontainers.io/kata-runtime": "true"}
BARE = {"cpu": "8", "pods": "110"}


class Scene:
    def __init__(self) -> None:
        self.clock = MachineClock()
        self.cluster = MemoryCluster(self.clock, source=Random(1))  # noqa: S311 - a seed
        self.line = Line(self.cluster, self.clock)
        self.events: list[CapacityEvent] = []
        self.is_leader = True
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        random = Random(7)  # noqa: S311 - a seed
        self.pods = observe_pod_rows(self.cluster, self.clock, random)
        places = CapacityPlaces(namespace=HOME)
        sources = capacity_sources(self.cluster, self.clock, random, places=places, pods=self.pods)
        self.capacity = CapacityController(
            context=ReconcileContext(
                writer=self.line,
                clock=self.clock,
                random=random,
                may_write=lambda: self.is_leader,
            ),
            sources=sources,
            record=self.events.append,
        )
        jobs = (self.pods.run(), self.capacity.run())
        self._tasks = [asyncio.create_task(job) for job in jobs]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        assert all(task.cancelled() for task in self._tasks)

    async def calm(self, seconds: float = 5) -> None:
        await asyncio.sleep(seconds)
        assert self.capacity.reconciler.reconciler.is_idle

    # ------------------------------------------------------------------ what people do

    async def node(self, name: str, amounts: dict[str, str] | None = None, **labels: str) -> None:
        offered = {**BARE, **(amounts or {})}
        body = {
            "metadata": {"name": name, "labels": labels},
            "status": {"capacity": offered, "allocatable": offered},
        }
        await self.cluster.create(NODES, body)

    async def annotate(self, node: str, **annotations: str | None) -> None:
        await self.change(node, {"metadata": {"annotations": annotations}})

    async def change(self, node: str, body: dict[str, Any]) -> None:
        patch = Patch(kind=PatchKind.MERGE, body=body)
        await self.cluster.patch(NODES, Key("", node), patch, subresource="status")

    async def offer(self, node: str, amount: str | None, resource: str = FOO) -> None:
        """Write an amount as anybody might."""
        amounts = {resource: amount}
        await self.change(node, {"status": {"capacity": amounts, "allocatable": amounts}})

    async def declare(self, **declarations: str | None) -> None:
        await self._configure(HOME, "bursar-capacity", declarations)

    async def limit(self, text: str | None) -> None:
        await self._configure(PEERPODS, "peer-pods-cm", {"PEERPODS_LIMIT_PER_NODE": text})

    async def _configure(self, namespace: str, name: str, data: dict[str, str | None]) -> None:
        document = {"metadata": {"name": name}, "data": {}}
        with contextlib.suppress(AlreadyExistsError):
            await self.cluster.create(CONFIG_MAPS, document, namespace=namespace)
        patch = Patch(kind=PatchKind.MERGE, body={"data": data})
        await self.cluster.patch(CONFIG_MAPS, Key(namespace, name), patch)

    async def pod(self, name: str, node: str, amount: int = 1) -> None:
        amounts = {FOO: str(amount)}
        container = {
            "name": "c",
            "image": "i",
            "resources": {"requests": amounts, "limits": amounts},
        }
        body = {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [container]}}
        await self.cluster.create(PODS, body, namespace=HOME)

    async def end_pod(self, name: str) -> None:
        await self.cluster.delete(PODS, Key(HOME, name), grace_seconds=0)

    async def read(self, node: str) -> dict[str, Any]:
        return json.loads(await self.cluster.get(NODES, Key("", node)))

    async def offered(self, node: str, resource: str = FOO) -> str | None:
        """What a node offers; that pods may use just as much is checked, too."""
        status = (await self.read(node))["status"]
        shown = status["capacity"].get(resource)
        assert status["allocatable"].get(resource) == shown
        return shown

    async def marked(self, node: str) -> dict[str, int]:
        metadata = (await self.read(node))["metadata"]
        return json.loads(metadata.get("annotations", {}).get(MARK_ANNOTATION, "{}"))

    def reasons(self) -> list[CapacityReason]:
        return [event.reason for event in self.events]


@contextlib.asynccontextmanager
async def _a_scene() -> AsyncIterator[Scene]:
    scene = Scene()
    for name in (HOME, PEERPODS):
        await scene.cluster.create(NAMESPACES, {"metadata": {"name": name}})
    try:
        yield scene
    finally:
        await scene.stop()


@contextlib.asynccontextmanager
async def _a_scene_with_five() -> AsyncIterator[Scene]:
    async with _a_scene() as scene:
        await scene.node("a")
        await scene.declare(licences=FIVE)
        await scene.start()
        await scene.calm()
        yield scene


FIVE = f"resource: {FOO}\namount: 5\n"

on_scene = in_virtual_time(on=_a_scene)
"""Play a test on a scene, in virtual time. The test starts the controller."""

on_scene_with_five = in_virtual_time(on=_a_scene_with_five)
"""Play a test on a scene whose controller runs and has put FIVE on node `a`."""
