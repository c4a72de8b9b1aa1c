"""Books fed from an embedded cluster in virtual time, and those who write what they say.

Everything is real but the time and the way to the cluster, which can fail. `calm` lets
as much time pass as it takes until nobody has anything left to do.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from random import Random
from typing import Any

from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.informer.changes import Deleted, Synced, Upserted
from bursar.app.cluster.kinds import CRDS, NAMESPACES, PODS
from bursar.app.cluster.observe_kinds import observe_namespaces, observe_pod_rows
from bursar.app.cluster.ports import (
    EVERYTHING,
    ClusterError,
    Key,
    Patch,
    PatchKind,
    Query,
    Resource,
    UnavailableError,
    WatchEvent,
)
from bursar.app.cluster.reconcile import ReconcileContext
from bursar.app.quota.applied import AppliedWriter
from bursar.app.quota.kinds import APPLICATION_QUOTAS, CLUSTER_QUOTAS
from bursar.app.quota.managed.cluster_resource_quotas import ClusterResourceQuotas
from bursar.app.quota.managed.names import owner_key
from bursar.app.quota.managed.writer import ManagedWriter
from bursar.app.quota.sources import observe_applied_quotas, observe_quotas
from bursar.app.quota.status import StatusWriter
from bursar.core.quota.books import Books
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.coverage import Namespace
from bursar.core.quota.quota import QUOTA_KINDS, QuotaKey, QuotaKind
from support.builders.manifests import DEFINITIONS
from support.faults import line
from support.virtual_time import MachineClock, in_virtual_time

Raw = dict[str, Any]
WRITE_SECONDS = 0.01


class View:
    """The way we look at the cluster. Kinds can be held back, so that we know only their past."""

    def __init__(self, cluster: MemoryCluster, clock: MachineClock) -> None:
        self.list, self._watch, self._clock = cluster.list, cluster.watch, clock
        self.held: set[Resource] = set()

    async def watch(
        self, resource: Resource, query: Query = EVERYTHING, **options: Any
    ) -> AsyncIterator[WatchEvent]:
        async with aclosing(self._watch(resource, query, **options)) as events:
            async for event in events:
                while resource in self.held:
                    await self._clock.sleep(0.1)
                yield event


class Line(line.Line):
    """The way our writes take: each takes a moment, and may meet trouble."""

    def __init__(self, cluster: MemoryCluster, clock: MachineClock) -> None:
        super().__init__(cluster)
        self._clock = clock
        self.trouble: Callable[[], ClusterError | None] = lambda: None
        self.loses_answers = False
        self.is_silent = False
        """No answer will ever come."""
        self.writes: list[tuple[str, Resource, Key]] = []
        self.in_flight = self.in_flight_most = 0

    async def pass_on(self, request: line.Request) -> Any:
        self.in_flight += 1
        self.in_flight_most = max(self.in_flight, self.in_flight_most)
        try:
            await self._clock.sleep(1e9 if self.is_silent else WRITE_SECONDS)
            error = self.trouble()
            if error is not None:
                raise error
            self.writes.append((request.verb, request.resource, request.key))
            try:
                answer = await request.send()
            finally:
                await self._clock.sleep(WRITE_SECONDS)
            if self.loses_answers:
                raise UnavailableError("the connection broke")
            return answer
        finally:
            self.in_flight -= 1


class Scene:
    def __init__(self) -> None:
        self.clock = MachineClock()
        self.random = Random(7)  # noqa: S311 - a seed, so that a failure can be repeated
        self.cluster = MemoryCluster(self.clock, source=Random(1))  # noqa: S311 - likewise
        self.view = View(self.cluster, self.clock)
        self.line = Line(self.cluster, self.clock)
        self.books = Books(NativeCounter().count)
        self.may_write = True
        self._synced = 0

    async def start(self) -> None:
        """Follow the cluster from here on. Before it, the cluster can be furnished."""
        cluster, clock, random = self.view, self.clock, self.random
        self.quotas = {kind: observe_quotas(cluster, clock, random, kind) for kind in QUOTA_KINDS}
        self.cluster_managed = ClusterResourceQuotas(
            cluster,
            clock,
            random,
            on_change=lambda seen: self._feed_quota(seen, True),
            on_delete=lambda seen: self._feed_quota(seen, False),
            on_state=self._recheck,
        )
        self.namespaces = observe_namespaces(cluster, clock, random)
        self.copies = observe_applied_quotas(cluster, clock, random)
        self.pods = observe_pod_rows(cluster, clock, random)
        self._appoint_writers()
        feeds = {
            self.namespaces: self._feed_namespace,
            self.pods: self._feed_pod,
            self.copies: self._feed_copy,
            **dict.fromkeys(self.quotas.values(), self._feed_quota),
        }
        self._feed_count = len(feeds)
        jobs = [
            *(self._feed(informer, feed) for informer, feed in feeds.items()),
            *(informer.run() for informer in feeds),
            *(writer.reconciler.run() for writer in self.writers),
            self.cluster_managed.run(),
        ]
        self._tasks = [asyncio.create_task(job) for job in jobs]

    def _appoint_writers(self) -> None:
        context = ReconcileContext(
            writer=self.line,
            clock=self.clock,
            random=self.random,
            may_write=lambda: self.may_write and self._synced == self._feed_count,
        )
        coverage = self.books.coverage
        self.refusals: list[tuple[QuotaKey, str]] = []
        self.status = StatusWriter(
            context=context,
            coverage=coverage,
            find=self._find_quota,
            cluster_managed=lambda: self.cluster_managed.state,
        )
        self.managed = ManagedWriter(
            context=context,
            find=self._find_quota,
            is_terminating=self._is_terminating,
            on_refused=lambda key, words: self.refusals.append((key, words)),
            cluster_managed=lambda: self.cluster_managed.state,
        )
        self.applied = AppliedWriter(
            context=context,
            coverage=coverage,
            find=self.copies.find,
            find_quota=self._find_quota,
            is_terminating=self._is_terminating,
            problems=self.status.problems_in,
        )
        self.writers = (self.status, self.managed, self.applied)

    def _recheck(self) -> None:
        keys = [covered.quota.key for covered in self.books.coverage.quotas()]
        for writer in self.writers:
            writer.enqueue(keys)

    def _find_quota(self, key: QuotaKey) -> Any:
        if key.kind is QuotaKind.OPENSHIFT:
            return self.cluster_managed.find(Key("", key.name))
        return self.quotas[key.kind].find(Key(key.namespace, key.name))

    def _is_terminating(self, namespace: str) -> bool:
        seen = self.namespaces.find(Key("", namespace))
        return seen is not None and seen.item.phase == "Terminating"

    # ------------------------------------------------------------------ feeding

    async def _feed(self, informer: Any, feed: Callable[[Any, bool], None]) -> None:
        async for change in informer.changes():
            match change:
                case Synced():
                    self._synced += 1
                case Upserted():
                    feed(change.new, True)
                case Deleted():
                    feed(change.last, False)
            touched = self.books.ledger.touched
            self.status.enqueue(touched)
            self.applied.enqueue(touched)
            touched.clear()

    def _feed_quota(self, seen: Any, exists: bool) -> None:  # noqa: FBT001 - a callback
        quota = seen.item.quota
        self.applied.enqueue([owner_key(quota.key) or quota.key])
        if not exists:
            self.managed.on_delete(seen)
            self.status.on_delete(seen)
            self.books.lose_quota(quota.key)
            return
        self.managed.on_change(seen)
        self.status.on_change(seen)
        if quota.key.kind.holds_pods:
            self.books.see_quota(quota)

    def _feed_namespace(self, seen: Any, exists: bool) -> None:  # noqa: FBT001 - a callback
        item = seen.item
        if exists:
            known = Namespace(name=item.name, labels=item.labels, annotations=item.annotations)
            self.books.see_namespace(known)
        else:
            self.books.lose_namespace(item.name)

    def _feed_pod(self, row: Any, exists: bool) -> None:  # noqa: FBT001 - a callback
        if exists:
            self.books.see_pod(row)
        else:
            self.books.lose_pod(row.namespace, row.name)

    def _feed_copy(self, seen: Any, exists: bool) -> None:  # noqa: FBT001 - a callback
        if exists:
            self.applied.on_change(seen)
        else:
            self.applied.on_delete(seen)

    # ------------------------------------------------------------------ what people do

    async def calm(self, seconds: float = 60) -> None:
        """Until nobody has anything left to do."""
        await asyncio.sleep(seconds)
        assert all(writer.reconciler.is_idle for writer in self.writers)

    async def namespace(self, *names: str, **labels: str) -> None:
        for name in names:
            body = {"metadata": {"name": name, "labels": labels}}
            await self.cluster.create(NAMESPACES, body)

    async def label(self, namespace: str, **labels: str | None) -> None:
        await self.change(NAMESPACES, Key("", namespace), {"metadata": {"labels": labels}})

    async def quota(self, hard: Raw, name: str = "q", **fields: Any) -> None:
        await self._create(APPLICATION_QUOTAS, name, {"hard": hard, **fields}, namespace="blue")

    async def cluster_quota(self, hard: Raw, name: str = "wide", **labels: str) -> None:
        selector = {"labels": {"matchLabels": labels}}
        spec = {"quota": {"hard": hard}, "selector": selector}
        await self._create(CLUSTER_QUOTAS, name, spec)

    async def _create(
        self, resource: Resource, name: str, spec: Raw, *, namespace: str = ""
    ) -> None:
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        await self.cluster.create(resource, body, namespace=namespace)

    async def pod(self, name: str, namespace: str = "blue", cpu: str = "100m") -> None:
        container = {
            "name": "app",
            "image": "example.com/app",
            "resources": {"requests": {"cpu": cpu}},
        }
        body = {"metadata": {"name": name}, "spec": {"containers": [container]}}
        await self.cluster.create(PODS, body, namespace=namespace)

    async def end_pod(self, name: str, namespace: str = "blue") -> None:
        await self.cluster.delete(PODS, Key(namespace, name), grace_seconds=0)

    async def change(
        self, resource: Resource, key: Key, body: Raw, *, subresource: str = ""
    ) -> None:
        patch = Patch(kind=PatchKind.MERGE, body=body)
        await self.cluster.patch(resource, key, patch, subresource=subresource)

    async def read(self, resource: Resource, name: str, namespace: str = "") -> Raw:
        return json.loads(await self.cluster.get(resource, Key(namespace, name)))

    async def names(self, resource: Resource, namespace: str = "") -> list[str]:
        page = await self.cluster.list(resource, Query(namespace=namespace))
        found = (json.loads(body)["metadata"] for body in page.items)
        return sorted(f"{each.get('namespace', '')}/{each['name']}" for each in found)

    async def quota_status(self) -> Raw:
        return (await self.read(APPLICATION_QUOTAS, "q", "blue")).get("status", {})

    async def cluster_status(self) -> Raw:
        return (await self.read(CLUSTER_QUOTAS, "wide")).get("status", {})

    def writes_to(self, resource: Resource) -> list[str]:
        return [verb for verb, written, _ in self.line.writes if written == resource]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        for task in self._tasks:
            assert task.cancelled(), task


@asynccontextmanager
async def a_scene() -> AsyncIterator[Scene]:
    scene = Scene()
    for definition in DEFINITIONS:
        await scene.cluster.create(CRDS, definition)
    await scene.namespace("blue", team="sea")
    yield scene
    await scene.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@asynccontextmanager
async def _a_started_scene() -> AsyncIterator[Scene]:
    async with a_scene() as scene:
        await scene.start()
        yield scene


on_scene = in_virtual_time(on=_a_started_scene)
"""Play a test on a scene that has been started, in virtual time."""
