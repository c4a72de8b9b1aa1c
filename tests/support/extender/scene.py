"""An extender on the embedded cluster, in virtual time, with a cluster that can fail."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any, Self

from bursar.adapters.files.crds import crd_documents
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import CRDS, NAMESPACES, PODS
from bursar.app.cluster.ports import Key, WatchEvent
from bursar.app.cluster.time_limit import end
from bursar.app.extender.extender import Extender, ExtenderSettings
from bursar.app.extender.kinds import CLUSTER_RESOURCES
from bursar.core.quota.ledger import PodKey
from bursar.wire.extender import BindRequest
from support.builders.manifests import namespace_manifest
from support.extender.processes import cluster_resource, licensed_pod
from support.virtual_time import MachineClock

HOME = "aaq"
SPACE = "wing"
LICENCE = "example.com/licence"
DEFINITION = next(
    each for each in crd_documents() if each["metadata"]["name"] == "clusterresources.bursar.io"
)


class FailingCluster(MemoryCluster):
    """The embedded cluster; `before_bind` and `after_bind` may raise or wait."""

    before_bind: Callable[[], Any] | None = None
    after_bind: Callable[[], Any] | None = None

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.watch_goes_on = asyncio.Event()
        self.watch_goes_on.set()

    async def watch(self, *arguments: Any, **more: Any) -> AsyncIterator[WatchEvent]:
        async with contextlib.aclosing(super().watch(*arguments, **more)) as events:
            async for event in events:
                await self.watch_goes_on.wait()
                yield event

    async def bind(self, *arguments: Any, **more: Any) -> None:
        if self.before_bind is not None:
            await self.before_bind()
        await super().bind(*arguments, **more)
        if self.after_bind is not None:
            await self.after_bind()


class ExtenderScene:
    def __init__(self) -> None:
        self.clock = MachineClock()
        self.cluster = FailingCluster(self.clock, source=Random(1))  # noqa: S311 - a seed
        self.extenders: list[Extender] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self.cluster.create(CRDS, DEFINITION)
        for name in (HOME, SPACE):
            await self.cluster.create(NAMESPACES, namespace_manifest(name))
        return self

    async def __aexit__(self, *_: object) -> None:
        await end(*self._tasks)

    def start(self, **settings: Any) -> Extender:
        number = len(self.extenders)
        extender = Extender(
            self.cluster,
            self.clock,
            Random(number),  # noqa: S311 - a seed
            settings=ExtenderSettings(namespace=HOME, identity=f"e-{number}", **settings),
        )
        self.extenders.append(extender)
        self._tasks.append(asyncio.create_task(extender.run()))
        return extender

    async def stop(self, number: int = 0) -> None:
        await end(self._tasks[number])

    async def leading(self, **settings: Any) -> Extender:
        extender = self.start(**settings)
        await self.synced(extender)
        return extender

    async def synced(self, extender: Extender) -> None:
        while extender.term is None or not extender.term.is_synced:
            await self.clock.sleep(0.1)

    async def pool(self, capacity: int = 1, name: str = "pool", **spec: Any) -> None:
        body = cluster_resource(name, LICENCE, capacity, **spec)
        await self.cluster.create(CLUSTER_RESOURCES, body)
        await self.clock.sleep(0.1)

    async def pod(self, name: str, amount: int = 1, **spec: Any) -> bytes:
        body = licensed_pod(f"{SPACE}/{name}", LICENCE, amount, **spec)
        stored = await self.cluster.create(PODS, body, namespace=SPACE)
        await self.clock.sleep(0.1)
        return stored

    async def delete(self, name: str) -> None:
        await self.cluster.delete(PODS, Key(SPACE, name), grace_seconds=0)
        await self.clock.sleep(0.1)

    async def node_of(self, name: str) -> str:
        stored = json.loads(await self.cluster.get(PODS, Key(SPACE, name)))
        return stored["spec"].get("nodeName", "")

    async def status(self, name: str = "pool") -> dict[str, Any]:
        stored = json.loads(await self.cluster.get(CLUSTER_RESOURCES, Key("", name)))
        return stored.get("status", {})


def bind_request(pod: bytes) -> BindRequest:
    metadata = json.loads(pod)["metadata"]
    return BindRequest(
        pod=PodKey(metadata["namespace"], metadata["name"]), uid=metadata["uid"], node="node-0"
    )
